"""Messages as lines: newline-delimited JSON over a pair of asyncio streams.

Any chunking of the byte stream gives the same lines. A line over the limit is dropped
to its end; its first bytes are handed on, one more than the limit, so that the reader
can refuse the message and go on with the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import chain
from typing import Final

from sightline.slop.transports.link import WRITE_BYTES, LinkClosed, Outgoing, Peer

_CHUNK_BYTES: Final = 64 * 1024
_CLOSE_S: Final = 1.0


class LineSplitter:
    """Cuts a byte stream into lines without ever holding more than the limit of one."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # It hands out what was written to it without a copy.
        self._partial = BytesIO()
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take in bytes; return the lines that they complete. Blank lines are none."""
        lines: list[bytes] = []
        first, *others = data.split(b"\n")
        self._take(first, lines)
        if others:
            self._end(lines)
            most = self._max_bytes
            *complete, rest = others
            lines += [piece[: most + 1] for piece in complete if piece.strip() or len(piece) > most]
            self._take(rest, lines)
        return lines

    def _take(self, piece: bytes, lines: list[bytes]) -> None:
        if self._skipping:
            return
        self._partial.write(piece[: self._max_bytes + 1 - self._partial.tell()])
        if self._partial.tell() > self._max_bytes:
            lines.append(self._partial.getvalue())
            self._partial = BytesIO()
            self._skipping = True

    def _end(self, lines: list[bytes]) -> None:
        """End the line that has begun."""
        line = self._partial.getvalue()
        if line and not line.isspace():
            lines.append(line)
        self._partial = BytesIO()
        self._skipping = False


class LineLink:
    """A link over a stream reader and a stream writer."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: Peer,
        max_bytes: int,
    ) -> None:
        self.peer = peer
        self._reader = reader
        self._writer = writer
        self._splitter = LineSplitter(max_bytes)
        self._inbox: deque[bytes] = deque()
        self._in_line = False
        self._transport = writer.transport
        self._transport.set_write_buffer_limits(high=WRITE_BYTES)

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end. A last line without its end is lost."""
        while not self._inbox:
            try:
                data = await self._reader.read(_CHUNK_BYTES)
            except OSError:
                return None
            if not data:
                return None
            self._inbox.extend(self._splitter.feed(data))
        return self._inbox.popleft()

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""
        for message in messages:
            if self._in_line:
                raise LinkClosed("a message was sent in part")
            if isinstance(message, bytes):
                await self._write([message + b"\n"])
            else:
                self._in_line = True
                await self._write(chain(message, [b"\n"]))
                self._in_line = False

    def put(self, message: bytes) -> bool:
        """Send a message now if nothing waits before it; else do not, and say False."""
        transport = self._transport
        if self._in_line or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(message + b"\n")
        return True

    async def _write(self, pieces: Iterable[bytes | memoryview]) -> None:
        for piece in pieces:
            if self._writer.is_closing():
                raise LinkClosed("the link is closed")
            self._writer.write(piece)
            try:
                await self._writer.drain()
            except OSError as error:
                raise LinkClosed(str(error)) from error

    async def close(self, _reason: str = "") -> None:
        """End the link; a reader that does not take the rest soon does not get it."""
        self._writer.close()
        try:
            # Not wait_for: before Python 3.12 it may swallow a cancellation that comes as it ends.
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()
        except OSError:
            pass
