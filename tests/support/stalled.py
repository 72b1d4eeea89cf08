"""Readers that do not read, and what they cost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc
from collections.abc import Iterator

from sightline.slop.protocol.connection import Connection
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.transports.lines import LineLink
from sightline.slop.transports.websocket import WebSocketLink
from support.live import LiveApp

PER_READER = 128 * 1024


# The past is not the readers' cost.
LIMITS = ProviderLimits(kept_versions=1)


def subscribed(
    count: int, *, alone: bool = False, limits: ProviderLimits = LIMITS
) -> tuple[LiveApp, list[Connection]]:
    """An app, and connections that have subscribed to it and taken the snapshot.

    `alone` gives each a view of its own, so that no two share what waits for them.
    """
    app = LiveApp(limits=limits)
    readers = [app.provider.connect() for _ in range(count)]
    for number, reader in enumerate(readers):
        budget = 1000 + number if alone else 1000
        reader.receive(json.dumps({"type": "subscribe", "id": "s", "max_nodes": budget}))
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
