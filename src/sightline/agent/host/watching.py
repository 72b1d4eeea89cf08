"""Events for everybody who watches: the one who asked, and any number of others.

Who asked gets every event of the turn. Others have a queue of bounded length: one that
reads too slowly loses the oldest events and is told how many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from sightline.events import HostEvent, Noticed

MAX_EVENTS: Final = 10_000
MAX_EARLY: Final = 100


class Line:
    """The queue of events for one reader. `limit` 0 is no limit."""

    def __init__(self, limit: int = 0) -> None:
        self._events: deque[HostEvent] = deque(maxlen=limit or None)
        self._lost = 0
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, event: HostEvent) -> None:
        """Add an event; the oldest gives way beyond the limit."""
        if self._closed:
            return
        self._lost += len(self._events) == self._events.maxlen
        self._events.append(event)
        self._ready.set()

    def close(self) -> None:
        """Take no more events; what is in the queue is still read."""
        self._closed = True
        self._ready.set()

    async def __aiter__(self) -> AsyncIterator[HostEvent]:
        while True:
            if self._lost:
                lost, self._lost = self._lost, 0
                yield Noticed(code="events_lost", message=f"{lost} events came too fast for you")
            elif self._events:
                yield self._events.popleft()
            elif self._closed:
                return
            else:
                self._ready.clear()
                await self._ready.wait()


class Watching:
    """All who read the events of one host, each with a queue."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        # What was noticed while the host was opened, and nobody could read it yet.
        self._unread: deque[HostEvent] | None = deque(maxlen=MAX_EARLY)

    def tell(self, event: HostEvent) -> None:
        """Put an event into every reader's queue; a notice waits for the first reader."""
        if self._unread is not None and isinstance(event, Noticed):
            self._unread.append(event)
        for line in self._lines:
            line.put(event)

    def open(self, limit: int = MAX_EVENTS) -> Line:
        """Open a queue for a new reader."""
        line = Line(limit)
        self._lines.append(line)
        for event in self._unread or ():
            line.put(event)
        self._unread = None
        return line

    def leave(self, line: Line) -> None:
        """Close a reader's queue and give it no more events."""
        line.close()
        if line in self._lines:
            self._lines.remove(line)

    def close(self) -> None:
        """Close the queues of all readers."""
        for line in list(self._lines):
            self.leave(line)
