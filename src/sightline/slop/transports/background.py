"""Tasks and child processes next to the task that starts them, and how they end."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_CHUNK_BYTES: Final = 64 * 1024
_REAPED_S: Final = 1.0


class Background:
    """The tasks that one owner has running. The loop itself keeps none alive."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Do something beside."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def stop(self) -> None:
        """End what still runs."""
        await end_tasks(*self.tasks)


async def end_tasks(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def finish(work: Coroutine[Any, Any, _T]) -> _T:
    """Do something to its end, also where the caller is cancelled. The caller waits for it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    finally:
        await asyncio.wait({task})


async def end_child(process: Process, *steps: tuple[float, Callable[[], object]]) -> None:
    """End a child process. Its output is read and dropped until it ends.

    Each step is a limit in seconds and a call, such as `process.kill`, that ends a child which
    exceeds the limit. At last the pipes are closed: asyncio waits for the end of each pipe, and
    the end of a pipe whose reading is paused, or that a grandchild holds open, never comes.
    """
    for limit_s, insist in steps:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await asyncio.gather(_drain(process.stdout), _drain(process.stderr))
                await process.wait()
        if process.returncode is not None:
            break
        with suppress(ProcessLookupError, PermissionError):
            insist()
    # Not close() of the whole transport: it may take the exit code from the child watcher.
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]
    for pipe in map(transport.get_pipe_transport, (0, 1, 2)):
        if pipe is not None:
            pipe.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_REAPED_S):
            await process.wait()


async def _drain(output: asyncio.StreamReader | None) -> None:
    with suppress(RuntimeError):  # another task reads this output
        while output is not None and await output.read(_CHUNK_BYTES):
            pass
