"""One subscription, seen by who asked for it: a mirror and news of its changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

from sightline.errors import SightlineError, TimedOut, Unreachable
from sightline.slop.hub.signal import Signal
from sightline.slop.protocol.consumer import Mirror
from sightline.slop.protocol.tree import Node


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
        self._count = 0

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
        while True:
            await self._signal.until(partial(self._has_news, seen))
            if self._count == seen:
                return
            seen = self._count
            if self.tree is not None:
                yield self.tree

    def close(self) -> None:
        """End the subscription."""
        self._end()
        self.ended(Unreachable("the subscription has ended"))

    def changed(self) -> None:
        """Note that the mirror shows something new."""
        self.refusal = None
        self._count += 1
        self._signal.fire()

    def refused(self, refusal: SightlineError) -> None:
        """Note that the provider does not serve this, for now."""
        self.refusal = refusal
        self._signal.fire()

    def ended(self, reason: SightlineError) -> None:
        """Note that there will be no more changes."""
        self._ended = reason
        self._signal.fire()

    def _has_news(self, seen: int) -> bool:
        return self._count != seen or self._ended is not None

    @property
    def _problem(self) -> SightlineError | None:
        return self.refusal or self._ended
