"""Readers that do not read cost little, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sightline.slop.app.app import App
from sightline.slop.app.serving import Serving
from sightline.slop.hub.client import Client
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.patience import Patience
from sightline.slop.transports.lines import LineLink
from sightline.slop.transports.link import Link, Peer
from sightline.slop.transports.memory import memory_pair
from sightline.slop.transports.unix import connect_unix, serve_unix
from sightline.slop.transports.websocket import WebSocketLink, connect_websocket, serve_websocket
from support.live import TREE, Handles, LiveApp
from support.stalled import (
    PER_LARGE_READER,
    PER_READER,
    PER_SOCKET,
    all_stalled,
    deaf_reader,
    large_tree,
    memory_held,
    memory_traced,
    subscribed,
    transport_of,
)
from support.wire import PATIENCE_S


@pytest.mark.parametrize(
    ("count", "changes", "text", "alone"),
    [(60, 150, "x" * 2000, False), (20, 400, "", False), (15, 100, "x" * 2000, True)],
    ids=["many, sizeable patches", "few, tiny patches", "each with a view of its own"],
)
def test_stalled_readers_stay_bounded_and_a_healthy_one_is_unaffected(
    count: int, changes: int, text: str, alone: bool
) -> None:
    app, (healthy, *stalled) = subscribed(count + 1, alone=alone)
    with memory_traced():
        for n in range(1, changes + 1):
            app.provider.publish(TREE.with_property("n", f"{n}{text}"))
            app.provider.flush()
            [patch] = map(json.loads, healthy.frames_to_send())
            assert (patch["seq"], patch["ops"][0]["value"]) == (n, f"{n}{text}")
        _, peak = tracemalloc.get_traced_memory()
    assert peak < count * PER_READER
    assert max(reader._outbox.size for reader in stalled) <= app.provider.limits.queue_bytes
    for reader in stalled[:3]:
        frames: list[dict[str, Any]] = []
        while batch := reader.frames_to_send():
            frames.extend(map(json.loads, batch))
        assert frames[0]["type"] == "snapshot"
        assert frames[-1]["version"] == app.provider.version


@pytest.mark.parametrize(
    # The system takes megabytes for a TCP connection before it lets on that nobody reads.
    ("kind", "count", "changes"),
    [("unix", 10, 100), ("ws", 4, 400)],
)
async def test_stalled_sockets_stay_bounded_and_a_healthy_client_is_unaffected(
    kind: str, count: int, changes: int, tmp_path: Path
) -> None:
    app = LiveApp(limits=ProviderLimits(kept_versions=1))
    path = tmp_path / "app.sock"
    async with (
        serve_unix(app.handle, path),
        serve_websocket(app.handle) as url,
        contextlib.AsyncExitStack() as stack,
    ):
        stalled: list[LineLink | WebSocketLink] = []
        for _ in range(count):
            link: LineLink | WebSocketLink
            link = await (connect_unix(path) if kind == "unix" else connect_websocket(url))
            stalled.append(link)
            await link.send([b'{"type":"subscribe","id":"s"}'])
            transport_of(link).pause_reading()
        client = await stack.enter_async_context(Client(lambda: connect_unix(path)))
        watch = client.subscribe()
        await watch.first(PATIENCE_S)
        with memory_traced():
            for n in range(1, changes + 1):
                text = f"{n}" + "x" * 20_000
                await client.invoke("/", "set", {"key": "text", "value": text})
                assert watch.tree is not None
                assert watch.tree.properties["text"] == text
            now = memory_held()
        assert now < len(stalled) * PER_SOCKET
        for link in stalled:
            transport_of(link).resume_reading()
        kinds = [message["type"] for message in await everything(stalled[0], app.provider.version)]
        assert kinds[:2] == ["hello", "snapshot"]
        assert "snapshot" in kinds[2:]
        await asyncio.gather(*(link.close() for link in stalled))


async def everything(link: Link, version: int) -> list[dict[str, Any]]:
    """What a reader gets that begins to read at last."""
    messages: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not messages or messages[-1].get("version") != version:
            data = await link.receive()
            assert data is not None
            messages.append(json.loads(data))
    return messages


@pytest.mark.parametrize("kind", ["unix", "ws"])
async def test_what_the_system_takes_in_part_comes_whole_and_in_order(
    kind: str, tmp_path: Path
) -> None:
    app = LiveApp()
    async with asyncio.timeout(PATIENCE_S), served(kind, app, tmp_path) as address:
        dial = connect_websocket if kind == "ws" else connect_unix
        slow, fast = [await dial(address.removeprefix("unix:")) for _ in range(2)]
        for link in (slow, fast):
            await link.send([b'{"type":"subscribe","id":"s"}'])
            while b'"snapshot"' not in (await link.receive() or b""):
                pass
        line = next(iter(app.serving._lines.values()))
        assert isinstance(line.link, LineLink | WebSocketLink)
        transport = transport_of(line.link)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        transport_of(slow).pause_reading()
        text, sent = "x" * 3_000, 0
        while line.writer is None or sent < 20:
            sent += 1
            app.publish(TREE.with_property("n", f"{sent} {text}"))
            patch = json.loads(await fast.receive() or b"")
            assert (patch["seq"], patch["ops"][0]["value"]) == (sent, f"{sent} {text}")
        assert transport.get_write_buffer_size()
        transport_of(slow).resume_reading()
        seen = await everything(slow, app.provider.version)
        due = 0
        for message in seen:
            due = 0 if message["type"] == "snapshot" else due + 1
            assert message["seq"] == due
        app.publish(TREE)
        assert json.loads(await slow.receive() or b"")["version"] == app.provider.version
        await asyncio.gather(slow.close(), fast.close())


@contextlib.asynccontextmanager
async def deaf_readers(address: str, count: int) -> AsyncIterator[list[socket.socket]]:
    """Readers that subscribe and read nothing, until the block ends."""
    lines = [await asyncio.to_thread(deaf_reader, address) for _ in range(count)]
    try:
        yield lines
    finally:
        for line in lines:
            line.close()


@contextlib.asynccontextmanager
async def served(kind: str, app: Handles, directory: Path) -> AsyncIterator[str]:
    """Serve an app over one kind of socket; gives the address."""
    async with contextlib.AsyncExitStack() as stack:
        if kind == "unix":
            yield await stack.enter_async_context(serve_unix(app.handle, directory / "app.sock"))
        else:
            yield await stack.enter_async_context(serve_websocket(app.handle))


SOCKETS = pytest.mark.parametrize("kind", ["unix", "ws"])


@SOCKETS
async def test_stalled_readers_of_a_large_snapshot_hold_it_once(kind: str, tmp_path: Path) -> None:
    app, count = LiveApp(large_tree(), limits=ProviderLimits(kept_versions=1)), 20
    async with (
        asyncio.timeout(PATIENCE_S),
        served(kind, app, tmp_path) as address,
        deaf_readers(address, 1),
    ):
        await all_stalled(app.serving, 1)
        with memory_traced():
            async with deaf_readers(address, count):
                await all_stalled(app.serving, 1 + count)
                now = memory_held()
        assert now < count * PER_LARGE_READER


@SOCKETS
async def test_a_reader_that_takes_nothing_is_let_go_with_the_reason(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = LiveApp(large_tree())
    app.serving = Serving(app.provider, app.invoke, coalesce_s=0, patience=Patience(unread_s=0.05))
    with caplog.at_level(logging.WARNING, "sightline"):
        async with (
            asyncio.timeout(PATIENCE_S),
            served(kind, app, tmp_path) as address,
            deaf_readers(address, 1),
        ):
            while not caplog.messages:
                await asyncio.sleep(0)
            assert app.serving.connections == []
    [said] = caplog.messages
    assert said.endswith("let go: it has taken nothing for 0.05 s")


async def test_who_reads_slowly_is_not_taken_for_one_who_does_not(tmp_path: Path) -> None:
    clock = [0.0]
    app = LiveApp(large_tree())
    app.serving = Serving(
        app.provider, app.invoke, patience=Patience(unread_s=1000), clock=lambda: clock[0]
    )
    async with (
        asyncio.timeout(PATIENCE_S),
        served("unix", app, tmp_path) as address,
        deaf_readers(address, 1) as [reader],
    ):
        await all_stalled(app.serving, 1)
        [line] = app.serving._lines.values()
        for _ in range(4):
            clock[0] += 900
            await asyncio.to_thread(reader.recv, 1 << 20, socket.MSG_WAITALL)
            while line.unread_s():
                await asyncio.sleep(0)
            app.serving._sweep()
            assert not line.end.expired()
        clock[0] += 1000
        app.serving._sweep()
        while app.serving.connections:
            await asyncio.sleep(0)


@pytest.mark.parametrize(("transport", "is_let_go"), [("memory", True), ("stdio", False)])
async def test_the_program_that_started_an_app_is_waited_for(
    transport: str, is_let_go: bool
) -> None:
    clock = [0.0]
    app = LiveApp()
    app.serving = Serving(app.provider, app.invoke, clock=lambda: clock[0])
    ours, theirs = memory_pair(window_bytes=1)
    theirs.peer = Peer(transport)
    serving = asyncio.create_task(app.handle(theirs))
    await ours.send([b'{"type":"subscribe","id":"s"}'])
    async with asyncio.timeout(PATIENCE_S):
        while not (lines := list(app.serving._lines.values())) or lines[0]._taken_at is None:
            await asyncio.sleep(0)
    clock[0] += 3600
    for _ in range(3):  # it is looked again before the first one is gone
        app.serving._sweep()
        await asyncio.sleep(0)
    assert lines[0].end.expired() is is_let_go
    await ours.close()
    await serving


async def test_a_server_ends_although_a_reader_is_stalled(tmp_path: Path) -> None:
    app = LiveApp(large_tree())
    async with asyncio.timeout(PATIENCE_S), contextlib.AsyncExitStack() as stack:
        async with served("ws", app, tmp_path) as address:
            await stack.enter_async_context(deaf_readers(address, 1))
            await all_stalled(app.serving, 1)
        assert app.serving.connections == []


async def test_one_connection_too_many_is_told_so(tmp_path: Path) -> None:
    app = App("app", "App", limits=ProviderLimits(connections=1))
    place: dict[str, Any] = {"unix": tmp_path / "app.sock", "port": 0, "open": True}
    async with asyncio.timeout(PATIENCE_S), app.serving(discoverable=False, **place) as (unix, ws):
        first = await connect_unix(unix.removeprefix("unix:"))
        assert b'"hello"' in (await first.receive() or b"")
        links: list[LineLink | WebSocketLink] = [
            await connect_unix(unix.removeprefix("unix:")),
            await connect_websocket(ws),
        ]
        for link in links:
            refusal = json.loads(await link.receive() or b"")
            assert (refusal["type"], refusal["error"]["code"]) == ("error", "conflict")
            assert refusal["error"]["message"] == "it serves 1 connections, no more"
            assert await link.receive() is None
            if isinstance(link, WebSocketLink):
                closed = (link._socket.close_code, link._socket.close_reason)
                assert closed == (1008, "it serves 1 connections, no more")
            await link.close()
        await first.close()
        while app._served:
            await asyncio.sleep(0)
        again = await connect_websocket(ws)
        assert b'"hello"' in (await again.receive() or b"")
        await again.close()
