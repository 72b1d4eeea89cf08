"""Readers that do not read, and what they cost."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import tracemalloc
from collections.abc import Iterator
from urllib.parse import urlsplit

from sightline.slop.app.serving import Serving
from sightline.slop.protocol.connection import Connection
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.lines import LineLink
from sightline.slop.transports.websocket import WebSocketLink
from support.live import LiveApp
from support.wire import PATIENCE_S

PER_READER = 128 * 1024
PER_SOCKET = 256 * 1024  # what a reader may have waiting, with what its transport holds
# The same where a snapshot of megabytes is on its way to it, beyond what all readers share.
PER_LARGE_READER = 256 * 1024
LARGE_BYTES = 15_000_000

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


def memory_held() -> int:
    """The bytes that were allocated since and are still held; garbage is nobody's."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def transport_of(link: LineLink | WebSocketLink) -> asyncio.Transport:
    """What is under a link; no user needs it."""
    if isinstance(link, WebSocketLink):
        return link._socket.transport
    both: asyncio.Transport = link._writer.transport  # type: ignore[assignment] # it reads too
    return both


def large_tree(size: int = LARGE_BYTES) -> Node:
    """A tree whose snapshot has about so many bytes."""
    text = "x" * 10_000
    notes = [Node.of(f"n{n}", "item", properties={"text": text}) for n in range(size // len(text))]
    return Node.of("app", "root", children=notes)


def deaf_reader(address: str) -> socket.socket:
    """Connect, subscribe to everything, and never read. Blocks while it connects."""
    if address.startswith("unix:"):
        line = socket.socket(socket.AF_UNIX)
        line.connect(address.removeprefix("unix:"))
        line.sendall(b'{"type":"subscribe","id":"s"}\n')
        return line
    where = urlsplit(address)
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect((where.hostname, where.port))
    asked = [
        f"GET {where.path} HTTP/1.1", f"Host: {where.netloc}", "Upgrade: websocket",
        "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ]  # fmt: skip
    line.sendall("\r\n".join([*asked, "", ""]).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += line.recv(1)
    message = b'{"type":"subscribe","id":"s"}'
    line.sendall(bytes([0x81, 0x80 | len(message), 0, 0, 0, 0]) + message)  # masked with zeros
    return line


async def all_stalled(serving: Serving, count: int) -> None:
    """Wait until the system takes nothing more for so many readers."""
    async with asyncio.timeout(PATIENCE_S):
        while sum(map(_is_stuck, serving._lines.values())) < count:
            await asyncio.sleep(0)


def _is_stuck(line: object) -> bool:
    transport = transport_of(line.link)  # type: ignore[attr-defined] # no user needs it
    return transport.get_write_buffer_size() > 0
