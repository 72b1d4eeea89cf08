"""Work for the page, in threads, so that no question can hold another.

    whatever one lane is busy with, the other lanes answer
    a caller of a lane has its answer, or a refusal, within the lane's deadline

A thread cannot be stopped: work that is late keeps its place in its lane until it ends,
and only those who come to the same lane meanwhile wait behind it, a few at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from sightline.errors import TimedOut, Unreachable

MOST_WAITING: Final = 64

P = ParamSpec("P")
R = TypeVar("R")


class Lane:
    """Some threads for one kind of work, a bound on who waits for them, and a deadline."""

    def __init__(
        self, name: str, threads: int, deadline_s: float, most_waiting: int = MOST_WAITING
    ) -> None:
        self._threads = ThreadPoolExecutor(threads, f"inspector-{name}")
        self._deadline_s = deadline_s
        self._most = threads + most_waiting
        self._taken: set[Future[Any]] = set()

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do some work in the lane. Raises `Unreachable` if it is full, `TimedOut` if late."""
        self._taken = {future for future in self._taken if not future.done()}
        if len(self._taken) >= self._most:
            raise Unreachable("too much is asked at once; ask again when something is answered")
        future = self._threads.submit(work, *args, **kwargs)
        self._taken.add(future)
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if future.done() and not future.cancelled():
                raise  # the work's own
            raise TimedOut(f"no answer within {self._deadline_s:g} s") from None

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)
