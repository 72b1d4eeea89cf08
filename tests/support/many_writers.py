"""Many processes that write to one store at once.

The writer's module is loaded once and then forked, so that a framework is imported by one
process only; all forks begin at the same moment, so that they meet in an empty store.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from support.share import WHOLE

TESTS = Path(__file__).parent.parent
WRITERS = 8
EACH = 500 if WHOLE else 100  # the promise is 500
LONGEST_S = 240

# Called in a process of its own with its number, how many to write, and the test's arguments.
Writer: TypeAlias = Callable[..., Awaitable[None]]


def write_from_many(
    writer: Writer, *arguments: object, writers: int = WRITERS, each: int = EACH
) -> None:
    """Run a coroutine function of a test module in several processes at once; all must succeed."""
    command = [sys.executable, "-m", "support.many_writers", writer.__module__, writer.__qualname__]
    given = [str(writers), str(each), *map(str, arguments)]
    roots = os.pathsep.join(map(str, (TESTS, TESTS.parent)))
    environment = {**os.environ, "PYTHONPATH": roots}
    subprocess.run([*command, *given], check=True, timeout=LONGEST_S, env=environment)


def main(module: str, name: str, writers: str, each: str, *arguments: str) -> int:
    """Fork the writers, let them go, and return how many of them failed."""
    writer: Writer = getattr(import_module(module), name)
    waiting, gate = os.pipe()
    children = []
    for number in range(int(writers)):
        child = os.fork()
        if not child:
            os.close(gate)
            os._exit(_write(writer, waiting, number, int(each), arguments))
        children.append(child)
    os.close(waiting)
    os.close(gate)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


def _write(writer: Writer, waiting: int, number: int, each: int, arguments: tuple[str, ...]) -> int:
    os.read(waiting, 1)  # until the last one is there and the gate is closed

    async def run() -> None:
        await writer(number, each, *arguments)

    try:
        asyncio.run(run())
    except BaseException:  # noqa: BLE001 - a fork must not go on as its parent would
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
