"""Readers that do not read cost little, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.hub.client import Client
from sightline.protocol.provider import ProviderLimits
from sightline.transports.lines import LineLink
from sightline.transports.unix import connect_unix, serve_unix
from sightline.transports.websocket import WebSocketLink, connect_websocket, serve_websocket
from support.live import TREE, LiveApp
from support.wire import PATIENCE_S

PER_READER = 128 * 1024


@contextlib.contextmanager
def memory_traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def test_a_thousand_stalled_readers_stay_bounded_and_a_healthy_one_is_unaffected() -> None:
    app = LiveApp()
    readers = [app.provider.connect() for _ in range(1001)]
    for reader in readers:
        reader.receive(b'{"type":"subscribe","id":"s"}')
        reader.frames_to_send()
    healthy, *stalled = readers
    with memory_traced():
        for n in range(1, 251):
            app.provider.publish(TREE.with_property("n", n))
            app.provider.flush()
            [patch] = map(json.loads, healthy.frames_to_send())
            assert (patch["seq"], patch["ops"][0]["value"]) == (n, n)
        _, peak = tracemalloc.get_traced_memory()
    assert peak < len(stalled) * PER_READER
    for reader in stalled[:3]:
        frames: list[dict[str, Any]] = []
        while batch := reader.frames_to_send():
            frames.extend(map(json.loads, batch))
        assert frames[0]["type"] == "snapshot"
        assert frames[-1]["version"] == app.provider.version


@pytest.mark.parametrize("transport", ["unix", "ws"])
async def test_stalled_sockets_stay_bounded_and_a_healthy_client_is_unaffected(
    transport: str, tmp_path: Path
) -> None:
    app = LiveApp(limits=ProviderLimits(kept_versions=1))  # the past is not the readers' cost
    path = tmp_path / "app.sock"
    async with (
        serve_unix(app.handle, path),
        serve_websocket(app.handle) as url,
        contextlib.AsyncExitStack() as stack,
    ):
        stalled: list[LineLink | WebSocketLink] = []
        for _ in range(40):
            link: LineLink | WebSocketLink
            link = await (connect_unix(path) if transport == "unix" else connect_websocket(url))
            stalled.append(link)
            await link.send([b'{"type":"subscribe","id":"s"}'])
            transport_of(link).pause_reading()
        client = await stack.enter_async_context(Client(lambda: connect_unix(path)))
        watch = client.subscribe()
        await watch.first(PATIENCE_S)
        with memory_traced():
            for n in range(1, 201):
                text = f"{n}" + "x" * 20_000
                await client.invoke("/", "set", {"key": "text", "value": text})
                assert watch.tree is not None
                assert watch.tree.properties["text"] == text
            now, _ = tracemalloc.get_traced_memory()
        assert now < len(stalled) * PER_READER
        for link in stalled:
            transport_of(link).resume_reading()
        await asyncio.gather(*(link.close() for link in stalled))


def transport_of(link: LineLink | WebSocketLink) -> asyncio.Transport:
    """What is under a link; no user needs it."""
    if isinstance(link, WebSocketLink):
        return link._socket.transport
    both: asyncio.Transport = link._writer.transport  # type: ignore[assignment] # it reads too
    return both
