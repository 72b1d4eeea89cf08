"""Two connected links in one process, for tests and for apps that live where their host lives."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from sightline.slop.transports.link import LinkClosed, Outgoing, Peer, whole

WINDOW_BYTES: Final = 64 * 1024


class MemoryLink:
    """One end of a pair in memory.

    Like a socket, it takes only so much that the other end has not read.
    """

    def __init__(self, window_bytes: int) -> None:
        self.peer = Peer("memory")
        self._window_bytes = window_bytes
        self._inbox: deque[bytes] = deque()
        self._unread_bytes = 0
        self._closed = False
        self._changed = asyncio.Condition()
        self._other: MemoryLink = self

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._inbox or self._closed)
            if not self._inbox:
                return None
            message = self._inbox.popleft()
            self._unread_bytes -= len(message)
            self._changed.notify_all()
            return message

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""
        other = self._other
        for message in map(whole, messages):
            async with other._changed:
                await other._changed.wait_for(lambda: other._has_room or other._closed)
                if other._closed:
                    raise LinkClosed("the other end is closed")
                other._inbox.append(message)
                other._unread_bytes += len(message)
                other._changed.notify_all()

    async def close(self, _reason: str = "") -> None:
        """End both directions; what was sent before can still be read."""
        for end in (self, self._other):
            async with end._changed:
                end._closed = True
                end._changed.notify_all()

    @property
    def _has_room(self) -> bool:
        return not self._inbox or self._unread_bytes < self._window_bytes


def memory_pair(window_bytes: int = WINDOW_BYTES) -> tuple[MemoryLink, MemoryLink]:
    """Make two links that are connected to each other."""
    one, other = MemoryLink(window_bytes), MemoryLink(window_bytes)
    one._other, other._other = other, one
    return one, other
