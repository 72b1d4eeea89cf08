"""Readers that do not read cost little, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from sightline.slop.hub.client import Client
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.transports.lines import LineLink
from sightline.slop.transports.link import Link
from sightline.slop.transports.unix import connect_unix, serve_unix
from sightline.slop.transports.websocket import WebSocketLink, connect_websocket, serve_websocket
from support.live import TREE, LiveApp
from support.stalled import PER_READER, memory_traced, subscribed, transport_of
from support.wire import PATIENCE_S


@pytest.mark.parametrize(
    ("count", "changes", "text", "alone"),
    [(200, 150, "x" * 2000, False), (40, 400, "", False), (40, 100, "x" * 2000, True)],
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
    [("unix", 20, 100), ("ws", 4, 500)],
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
            now, _ = tracemalloc.get_traced_memory()
        assert now < len(stalled) * PER_READER
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
