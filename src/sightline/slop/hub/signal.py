"""Waiting for something to be true, without a queue: late waiters see the latest state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal:
    """Wakes everyone who waits, each time something changed. One event loop only."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def fire(self) -> None:
        """Let everyone look again."""
        fired, self._next = self._next, asyncio.Event()
        fired.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is looked at now and after every `fire`."""
        while not holds():
            await self._next.wait()
