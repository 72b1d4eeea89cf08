"""Bytes to frames: server-sent events, JSON lines, and AWS event streams.

The promise (law 3): any chunking of the bytes gives the same frames. Each reader keeps
only the bytes of the frame that is not whole yet, no more than `MAX_FRAME` of them, and
looks at none of them twice. What is not a frame raises `BrokenStream`; `close` says what
was left over.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from sightline.errors import InvalidInput

MAX_FRAME: Final = 64 * 1024 * 1024
LINE_END: Final = re.compile(rb"\r\n|\n|\r(?!\Z)")


class BrokenStream(InvalidInput):
    """The bytes are not what this stream is made of."""

    code = "broken_stream"


class Frame(msgspec.Struct, frozen=True):
    """One event of a stream: its name, if it has one, and its data."""

    event: str
    data: bytes


class FrameReader:
    """Splits a response into frames, whatever pieces its bytes arrive in."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take more bytes; yield the frames that are whole now."""
        raise NotImplementedError

    def close(self) -> Iterator[Frame]:
        """Take the end; yield what it completes. Raise `BrokenStream` for half a frame."""
        raise NotImplementedError

    def _check_rest(self, held: int = 0) -> None:
        if len(self._rest) + held > MAX_FRAME:
            raise BrokenStream(f"a frame of more than {MAX_FRAME} bytes")


class SseReader(FrameReader):
    """Server-sent events, by the rules of the HTML standard, 9.2.6."""

    def __init__(self) -> None:
        super().__init__()
        self._event = ""
        self._data: list[bytes] = []
        self._held = 0
        self._started = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        # A carriage return at the very end may be half of a line end: it waits.
        unseen = len(self._rest) - self._rest.endswith(b"\r")
        self._rest += data
        at = 0
        for match in LINE_END.finditer(self._rest, unseen):
            line = bytes(self._rest[at : match.start()])
            at = match.end()
            yield from self._line(line)
        del self._rest[:at]
        self._check_rest(self._held)

    def close(self) -> Iterator[Frame]:
        """An event without its blank line is discarded, as the standard says."""
        if self._rest.endswith(b"\r"):
            yield from self._line(bytes(self._rest[:-1]))
        elif self._rest or self._data:
            raise BrokenStream("the stream ends inside an event")
        self._rest.clear()

    def _line(self, line: bytes) -> Iterator[Frame]:
        if not self._started:
            self._started = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            # An event without data is none, the standard says.
            if self._data:
                yield Frame(self._event, b"\n".join(self._data))
            self._event, self._data, self._held = "", [], 0
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._held += len(line) + 1
        elif field == b"event":
            self._event = value.decode("utf-8", "replace")


class LineReader(FrameReader):
    """One JSON value per line; blank lines are nothing."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._rest += end
            if self._rest.strip():
                yield Frame("", bytes(self._rest))
            self._rest.clear()
        self._rest += rest
        self._check_rest()

    def close(self) -> Iterator[Frame]:
        """The last line may lack its end."""
        if self._rest.strip():
            yield Frame("", bytes(self._rest))
        self._rest.clear()


class EventStreamReader(FrameReader):
    """`application/vnd.amazon.eventstream`: lengths, headers, payload, and two checksums.

    total length · header length · CRC of these 8 bytes · headers · payload · CRC of all
    """

    PRELUDE: Final = struct.Struct(">III")

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._rest += data
        while len(self._rest) >= self.PRELUDE.size:
            total, header_length, crc = self.PRELUDE.unpack_from(self._rest)
            if zlib.crc32(self._rest[:8]) != crc:
                raise BrokenStream("an event's length is damaged")
            if not 16 + header_length <= total <= MAX_FRAME:
                raise BrokenStream(f"an event of {total} bytes")
            if len(self._rest) < total:
                return
            message = bytes(self._rest[:total])
            del self._rest[:total]
            if zlib.crc32(message[:-4]) != int.from_bytes(message[-4:]):
                raise BrokenStream("an event is damaged")
            headers = _headers(message[12 : 12 + header_length])
            name = headers.get(":event-type") or headers.get(":exception-type") or ""
            yield Frame(name, message[12 + header_length : -4])

    def close(self) -> Iterator[Frame]:
        if self._rest:
            raise BrokenStream("the stream ends inside an event")
        yield from ()


# type → bytes of its value; 6 and 7 have a length of two bytes before them
FIXED: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
BYTES, STRING = 6, 7


def _headers(data: bytes) -> dict[str, str]:
    """Read the headers that are strings; step over the others."""
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name, kind = data[at + 1 : name_end].decode(), data[name_end]
            at = name_end + 1
            if kind in (BYTES, STRING):
                length = int.from_bytes(data[at : at + 2])
                if kind == STRING:
                    headers[name] = data[at + 2 : at + 2 + length].decode()
                at += 2 + length
            else:
                at += FIXED[kind]
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise BrokenStream("an event's headers are damaged") from error
    return headers
