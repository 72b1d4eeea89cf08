"""Work for one connection, done so that nobody else in the event loop waits for it.

After each few milliseconds of work everybody else has a turn; what the connection may take
in all is its `Patience`. Time is the thread's own, so that a busy machine is nobody's fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from sightline.slop.protocol.patience import Patience, PatienceLeft
from sightline.slop.protocol.pieces import Steps

# After so much work everybody else has a turn.
STEP_S: Final = 0.002
# A timer or a socket is noticed in one round of the loop, its task wakes in the next, and who
# gave way in between would come before it.
_MORE_ROUNDS: Final = 2

_T = TypeVar("_T")


class Pace:
    """Runs one connection's work in short turns, within its patience."""

    def __init__(
        self,
        patience: Patience,
        *,
        work_clock: Callable[[], float] = time.thread_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = PatienceLeft(patience, clock())
        self._work_clock = work_clock
        self._clock = clock
        self._used_s = 0.0

    async def run(self, steps: Steps[_T]) -> _T:
        """Do work that comes in steps, with a turn for everybody else in between. Raises LetGo."""
        while True:
            began = self._work_clock()
            try:
                while self._used_s + self._work_clock() - began < STEP_S:
                    next(steps)
            except StopIteration as stop:
                result: _T = stop.value
                return result
            finally:
                self._used_s += self._work_clock() - began
            await self.turn()

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Count what is done in the block."""
        began = self._work_clock()
        try:
            yield
        finally:
            self._used_s += self._work_clock() - began

    async def turn(self) -> None:
        """Give everybody else a turn, if it is time; wait if too much was done. Raises LetGo."""
        if self._used_s >= STEP_S:
            used_s, self._used_s = self._used_s, 0.0
            await asyncio.sleep(self._budget.spend(self._clock(), used_s))
            for _ in range(_MORE_ROUNDS):
                await asyncio.sleep(0)

    def fault(self) -> None:
        """Note something that could not be read. Raises LetGo."""
        self._budget.fault(self._clock())
