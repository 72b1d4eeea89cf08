"""The commands of a workspace: started, waited for, stopped, and listed until nobody asks.

A command runs in a thread of its own, whoever waits for it. Who has waited long enough goes on
without it, and can wait again; a command that ends when nobody waits is told to `on_end`.
Whatever runs is listed, and of what is over the latest few. All of it belongs to one event
loop; `changed` is called there when something else is to be shown, at most a few times a second.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from sightline.agent.workspace.command import Finished, Output, run_command
from sightline.agent.workspace.sandbox import Sandbox
from sightline.errors import ActionError

AT_ONCE: Final = 16
KEPT: Final = 5
_TICK_S: Final = 0.2


class Run(msgspec.Struct, eq=False):
    """One command that was run, or is running.

    `waiting` counts the calls that wait for it; `is_known`: a call was answered with its end.
    """

    id: str
    command: str
    begun: float = msgspec.field(default_factory=time.monotonic)
    started_at: datetime = msgspec.field(default_factory=lambda: datetime.now(UTC))
    output: Output = msgspec.field(default_factory=Output)
    finished: Finished | None = None
    waiting: int = 0
    is_known: bool = False
    sandbox: Sandbox | None = None
    network: bool = True
    made_inert: str = ""
    stopped_by: str = ""
    stop: threading.Event = msgspec.field(default_factory=threading.Event)
    over: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    @property
    def age_s(self) -> int:
        """For how many whole seconds it runs, or has run."""
        if self.finished is not None:
            return int(self.finished.seconds)
        return int(time.monotonic() - self.begun)


class Runs:
    """All commands of one workspace."""

    def __init__(
        self, root: Path, *, changed: Callable[[], None], on_end: Callable[[Run], None]
    ) -> None:
        self._root = root
        self._changed = changed
        self._on_end = on_end
        self._runs: list[Run] = []
        self._count = 0
        self._pool = ThreadPoolExecutor(AT_ONCE, "sightline-run")
        self._work: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def find(self, run_id: str) -> Run | None:
        """Find a command that is listed."""
        return next((run for run in self._runs if run.id == run_id), None)

    def start(
        self,
        command: str,
        timeout_s: float,
        env: Mapping[str, str],
        sandbox: Sandbox | None = None,
        *,
        network: bool = True,
    ) -> Run:
        """Start a command, in a sandbox if one is given.

        Raises ActionError where too many run already.
        """
        if len(self._work) >= AT_ONCE:
            raise ActionError("conflict", f"{AT_ONCE} commands run already: wait, or stop one")
        self._count += 1
        run = Run(f"run-{self._count}", command, sandbox=sandbox, network=network)
        over = [one for one in self._runs if one.finished is not None]
        for one in over[: max(0, len(over) - KEPT + 1)]:
            self._runs.remove(one)
        self._runs.append(run)
        work = asyncio.create_task(self._follow(run, timeout_s, env))
        self._work.add(work)
        work.add_done_callback(self._work.discard)
        return run

    async def wait(self, run: Run, seconds: float) -> None:
        """Wait for the end of a command, but no longer than so many seconds.

        Who is cancelled while waiting stops it.
        """
        run.waiting += 1
        self._changed()
        try:
            async with asyncio.timeout(seconds):
                await run.over.wait()
        except TimeoutError:
            return
        except asyncio.CancelledError:
            run.stop.set()
            raise
        finally:
            run.waiting -= 1
            self._changed()

    async def stop(self, run: Run, by: str = "") -> None:
        """Stop a command with all that it started, and wait until it is over."""
        if run.finished is None:
            run.stopped_by = by
            run.stop.set()
            await run.over.wait()

    async def close(self) -> None:
        """Stop all that runs, and wait for its end."""
        for run in self._runs:
            run.stop.set()
        await asyncio.gather(*self._work, return_exceptions=True)
        await asyncio.to_thread(self._pool.shutdown)

    async def _follow(self, run: Run, timeout_s: float, env: Mapping[str, str]) -> None:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._pool, self._run_to_end, run, timeout_s, env)
        shown = 0
        while not (await asyncio.wait({work}, timeout=_TICK_S))[0]:
            if shown != (now := run.output.size):
                shown = now
                self._changed()
        work.result()
        run.over.set()
        self._changed()
        if run.made_inert or (not run.waiting and not run.stop.is_set()):
            self._on_end(run)

    def _run_to_end(self, run: Run, timeout_s: float, env: Mapping[str, str]) -> None:
        sandbox = run.sandbox
        try:
            inside = () if sandbox is None else sandbox.enter(network=run.network)
            try:
                finished = run_command(
                    run.command, self._root, timeout_s=timeout_s, stop=run.stop, env=env,
                    output=run.output, inside=inside,
                )  # fmt: skip
            finally:
                run.made_inert = "" if sandbox is None else sandbox.check(is_end=True)
            run.finished = finished
        except Exception as error:  # noqa: BLE001 - whoever waits must be told
            run.finished = Finished("not started", 127, f"{error}\n", 0.0)
