"""The messages that wait to be sent to one consumer, bounded. Pure.

A message is a head of its own and perhaps a body that other readers get too. Two things
are bounded: what is to be sent, and what of it is in memory because of this reader: of a
body that n readers have not taken yet, an n-th. So a thousand readers that stall together
may each be far behind and cost next to nothing, and one that stalls alone is not.

The parts of a message stand one after the other in one queue: a change for ten thousand readers
makes no object for each that the garbage collector would look at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any, Final, TypeAlias

from sightline.slop.protocol.limits import ProviderLimits

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


class Outbox:
    """The messages for one reader, in order."""

    __slots__ = ("_limits", "_queue", "_size")

    def __init__(self, limits: ProviderLimits) -> None:
        self._limits = limits
        # Head, body and owner of the first message, then of the next.
        self._queue: deque[Any] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._queue) // 3

    def __bool__(self) -> bool:
        return bool(self._queue)

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
        if not self._queue:
            return True
        limits = self._limits
        added = len(body.data) + _FRAME_BYTES
        if self._size + added > limits.queue_bytes:
            return False
        # Counted only where it matters: with every body its own it would be too much.
        return self._most_memory + added <= limits.own_bytes or (
            self._memory() + len(body.data) // (body.holders + 1) + _FRAME_BYTES <= limits.own_bytes
        )

    def add(self, head: bytes, body: Body | None = None, owner: Hashable = None) -> None:
        """Put a message at the end; with a body it is closed by one brace."""
        body = body or _NOTHING
        body.holders += 1
        self._queue += (head, body, owner)
        self._size += len(head) + len(body.data)

    def take(self) -> MessageParts:
        """Take the first message."""
        head, body, _ = self._popped()
        return (head,) if body is _NOTHING else (head, body.data, b"}")

    def take_short(self, max_bytes: int) -> bytes | None:
        """Take the first message in one piece, if there is one and it has no more bytes."""
        if not self._queue or len(self._queue[0]) + len(self._queue[1].data) >= max_bytes:
            return None
        head, body, _ = self._popped()
        return head if body is _NOTHING else b"%b%b}" % (head, body.data)

    def drop(self, owner: Hashable) -> None:
        """Take out everything that belongs to an owner."""
        for _ in range(len(self)):
            head, body, owned_by = self._popped()
            if owned_by is not owner:
                self.add(head, body, owned_by)

    def clear(self) -> None:
        """Take out everything."""
        while self._queue:
            self._popped()

    def _popped(self) -> tuple[bytes, Body, Hashable]:
        pop = self._queue.popleft
        head, body, owner = pop(), pop(), pop()
        body.holders -= 1
        self._size -= len(head) + len(body.data)
        return head, body, owner

    @property
    def _most_memory(self) -> int:
        return self._size + _FRAME_BYTES * len(self)

    def _memory(self) -> int:
        parts: Iterator[Any] = iter(self._queue)
        return sum(
            len(head) + len(body.data) // body.holders + _FRAME_BYTES
            for head, body, _ in zip(parts, parts, parts, strict=True)
        )


_NOTHING: Final = Body(b"")
