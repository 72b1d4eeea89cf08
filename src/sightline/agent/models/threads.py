"""A blocking producer of bytes, read from the event loop.

    async for chunk in from_thread(executor, work, stop): …

`work(emit)` runs in a thread and hands over its bytes; `emit` says whether anybody still
wants them. Whoever stops reading closes the generator: then `emit` says no, and `stop` is
called, which should end a wait that `work` may be in.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from typing import TypeAlias

Emit: TypeAlias = Callable[[bytes], bool]


async def from_thread(
    executor: Executor, work: Callable[[Emit], None], stop: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Yield what `work` emits; raise what it raises."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
    wanted = True

    def emit(data: bytes) -> bool:
        if wanted:
            loop.call_soon_threadsafe(waiting.put_nowait, data)
        return wanted

    done = loop.run_in_executor(executor, work, emit)
    done.add_done_callback(lambda _: waiting.put_nowait(None))
    try:
        while (chunk := await waiting.get()) is not None:
            yield chunk
        await done
    finally:
        wanted = False
        # It ends by itself, and nobody is there to hear how.
        done.add_done_callback(_forget)
        if not done.done():
            stop()


def _forget(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
