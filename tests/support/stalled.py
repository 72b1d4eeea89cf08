"""Readers that do not read, and what they cost."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import Iterator

from sightline.transports.lines import LineLink
from sightline.transports.websocket import WebSocketLink

PER_READER = 128 * 1024


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
