"""Readers that do not read, and what they cost."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import Iterator

from sightline.protocol.connection import Connection
from sightline.protocol.provider import ProviderLimits
from sightline.transports.lines import LineLink
from sightline.transports.websocket import WebSocketLink
from support.live import LiveApp

PER_READER = 128 * 1024


def subscribed(count: int) -> tuple[LiveApp, list[Connection]]:
    """An app, and connections that have subscribed to it and taken the snapshot."""
    app = LiveApp(limits=ProviderLimits(kept_versions=1))  # the past is not the readers' cost
    readers = [app.provider.connect() for _ in range(count)]
    for reader in readers:
        reader.receive(b'{"type":"subscribe","id":"s"}')
        reader.frames_to_send()
    return app, readers


@contextlib.contextmanager
def memory_traced() -> Iterator[None]:
    """Count what is allocated while the block runs."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def transport_of(link: LineLink | WebSocketLink) -> asyncio.Transport:
    """What is under a link; no user needs it."""
    if isinstance(link, WebSocketLink):
        return link._socket.transport
    both: asyncio.Transport = link._writer.transport  # type: ignore[assignment] # it reads too
    return both
