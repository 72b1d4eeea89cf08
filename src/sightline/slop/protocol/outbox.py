"""The messages that wait to be sent to one consumer, bounded. Pure.

A message is a head of its own and perhaps a body that other readers get too. Two things
are bounded: what is to be sent, and what of it is in memory because of this reader: of a
body that n readers have not taken yet, an n-th. So a thousand readers that stall together
may each be far behind and cost next to nothing, and one that stalls alone is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple, TypeAlias

from sightline.slop.protocol.limits import ProviderLimits

__all__ = ["Body", "MessageParts", "Outbox"]

# A message as bytes that follow each other; what other readers get too is there once for all.
MessageParts: TypeAlias = tuple[bytes, ...]

# What a waiting message costs besides its bytes: its objects and its place. Small patches would
# otherwise take several times the memory that the limit promises.
_FRAME_BYTES: Final = 160


class Body:
    """The part of messages that readers share, and how many of them have yet to take it."""

    __slots__ = ("data", "holders")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.holders = 0


class _Frame(NamedTuple):
    head: bytes
    body: Body
    owner: Hashable

    @property
    def size(self) -> int:
        return len(self.head) + len(self.body.data)


class Outbox:
    """The messages for one reader, in order."""

    def __init__(self, limits: ProviderLimits) -> None:
        self._limits = limits
        self._frames: deque[_Frame] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def size(self) -> int:
        """How many bytes wait to be sent."""
        return self._size

    @property
    def is_full(self) -> bool:
        """Whether the reader should be asked for nothing more before it has read."""
        return self._most_memory >= min(self._limits.own_bytes, self._limits.queue_bytes)

    def has_room(self, body: Body) -> bool:
        """Tell whether one more message with this body fits; into an empty box any does."""
        limits = self._limits
        added = len(body.data) + _FRAME_BYTES
        if not self._frames:
            return True
        if self._size + added > limits.queue_bytes:
            return False
        # Counted only where it matters: with every body its own it would be too much.
        return self._most_memory + added <= limits.own_bytes or (
            self._memory() + len(body.data) // (body.holders + 1) + _FRAME_BYTES <= limits.own_bytes
        )

    def add(self, head: bytes, body: Body | None = None, owner: Hashable = None) -> None:
        """Put a message at the end; with a body it is closed by one brace."""
        frame = _Frame(head, body or _NOTHING, owner)
        frame.body.holders += 1
        self._frames.append(frame)
        self._size += frame.size

    def take(self) -> MessageParts:
        """Take the first message."""
        frame = self._frames.popleft()
        self._let_go(frame)
        if frame.body is _NOTHING:
            return (frame.head,)
        return frame.head, frame.body.data, b"}"

    def drop(self, owner: Hashable) -> None:
        """Take out everything that belongs to an owner."""
        frames, self._frames = self._frames, deque()
        for frame in frames:
            if frame.owner is owner:
                self._let_go(frame)
            else:
                self._frames.append(frame)

    def clear(self) -> None:
        """Take out everything."""
        while self._frames:
            self._let_go(self._frames.popleft())

    def _let_go(self, frame: _Frame) -> None:
        frame.body.holders -= 1
        self._size -= frame.size

    @property
    def _most_memory(self) -> int:
        return self._size + _FRAME_BYTES * len(self._frames)

    def _memory(self) -> int:
        return sum(
            len(frame.head) + len(frame.body.data) // frame.body.holders + _FRAME_BYTES
            for frame in self._frames
        )


_NOTHING: Final = Body(b"")
