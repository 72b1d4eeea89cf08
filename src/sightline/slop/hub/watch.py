"""One subscription, seen by who asked for it: a mirror and news of its changes.

A `Signal` is how anybody waits for something to be true, without a queue: late waiters see the
latest state.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from sightline.errors import SightlineError, TimedOut, Unreachable
from sightline.slop.protocol.consumer import Mirror
from sightline.slop.protocol.tree import Node


class Signal:
    """Wakes everyone who waits, each time something changed. One event loop only."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self._news = 0
        self._is_over = False

    def fire(self, *, is_news: bool = True) -> None:
        """Let everyone look again; those who wait for news too, if it is any."""
        self._news += is_news
        fired, self._next = self._next, asyncio.Event()
        fired.set()

    def end(self) -> None:
        """Let everyone look again: there will be no more news."""
        self._is_over = True
        self.fire(is_news=False)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is looked at now and after every `fire`."""
        while not holds():
            await self._next.wait()

    async def news_after(self, seen: int) -> int | None:
        """Wait for more news than were seen, and return how many there were; None at the end."""
        await self.until(lambda: self._news != seen or self._is_over)
        return None if self._news == seen else self._news


class Watch:
    """A live view of one app. It outlives connections; `is_current` tells whether to trust it."""

    def __init__(self, subscription_id: str, mirror: Mirror, end: Callable[[], None]) -> None:
        self.id = subscription_id
        self.refusal: SightlineError | None = None
        self.is_connected = False
        self._mirror = mirror
        self._end = end
        self._ended: SightlineError | None = None
        self._signal = Signal()

    @property
    def tree(self) -> Node | None:
        """The latest view, or None before the first snapshot."""
        return self._mirror.tree

    @property
    def version(self) -> int:
        """The provider's version of the latest view."""
        return self._mirror.version

    @property
    def is_current(self) -> bool:
        """Whether the view is what the provider shows, as far as can be known."""
        return self.is_connected and self._mirror.is_current

    async def first(self, timeout_s: float) -> Node:
        """Wait for the first snapshot. Raises what stands in its way."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._signal.until(lambda: self.tree is not None or self._problem is not None)
        except TimeoutError:
            raise TimedOut(f"no snapshot within {timeout_s:g} s") from None
        if self.tree is None:
            raise self._problem or Unreachable("there is no snapshot")
        return self.tree

    async def changes(self) -> AsyncIterator[Node]:
        """Give the view now, and again whenever it changed; a slow reader gets the latest."""
        seen = -1
        while (news := await self._signal.news_after(seen)) is not None:
            seen = news
            if self.tree is not None:
                yield self.tree

    def close(self) -> None:
        """End the subscription."""
        self._end()
        self.ended(Unreachable("the subscription has ended"))

    def changed(self) -> None:
        """Note that the mirror shows something new."""
        self.refusal = None
        self._signal.fire()

    def refused(self, refusal: SightlineError) -> None:
        """Note that the provider does not serve this, for now."""
        self.refusal = refusal
        self._signal.fire(is_news=False)

    def ended(self, reason: SightlineError) -> None:
        """Note that there will be no more changes."""
        self._ended = reason
        self._signal.end()

    @property
    def _problem(self) -> SightlineError | None:
        return self.refusal or self._ended
