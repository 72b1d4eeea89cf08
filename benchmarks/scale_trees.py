"""Ten thousand mirrors of one app over a broker: a change, an outage, a frozen broker, memory.

    python -m benchmarks --only scale_trees

A real NATS server, an app in this process, and the mirrors in three others: each is a `Client` of
its own, with its subscription, its version and its tasks; those of a process share one connection
to the broker and, as trees are values, one tree. Times are of the clock on the wall, from the
change in the app to the last mirror of the last process, on all cores with the app and the broker;
the best of several. The bars are promises, which stand in the peer's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import resource
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import LeftOut, Row
from sightline.slop import App, Client
from sightline.slop.hub.address import dial_address

# The broker is the tests' own, so that what is measured is what is tried.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
from support import nats

__all__ = ["run"]

_PROCESSES = 3
_CHANGES = 5
_OUTAGES = 3
_BATCH = 100
_PROMISE_S = {200: 0.5, 20_000: 1.0}
_RESTORED_S = 1.0
_STALE_S = 5.0


def run(*, quick: bool = False) -> list[Row]:
    """Run all races of this module; `quick` shows that they run, with few mirrors."""
    if why := nats.lacks():
        raise LeftOut(why)
    return asyncio.run(_race(60 if quick else 10_000))


@dataclass(frozen=True, slots=True)
class _Mirrors:
    """Mirrors in a process of their own."""

    process: asyncio.subprocess.Process

    async def tell(self, **command: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        await self.process.stdin.drain()

    async def answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if not line:
            raise ConnectionError("the mirrors are gone")
        found: dict[str, float] = json.loads(line)
        return found


async def _race(size: int) -> list[Row]:
    count, text = 0, ""
    app = App("board", "Board")
    app.node("list")(lambda: {"type": "group", "props": {"n": count, "text": text}})
    rows: list[Row] = []

    def change(size_bytes: int) -> float:
        nonlocal count, text
        count += 1
        text = f"{count:06}" + "x" * (size_bytes - 6)
        began = time.monotonic()
        app.refresh()
        return began

    async def last(all_mirrors: list[_Mirrors], **until: object) -> tuple[float, float]:
        """When the last mirror of the last process was there, and the CPU time of all so far."""
        await asyncio.gather(*(mirrors.tell(**until) for mirrors in all_mirrors))
        found = [await mirrors.answer() for mirrors in all_mirrors]
        spent = time.process_time() + sum(each["cpu"] for each in found)
        return max(each["at"] for each in found), spent

    with nats.server() as broker:
        async with (
            app.serving(unix=False, discoverable=False, nats=broker.url) as [address],
            _started(address, size) as others,
        ):
            held = [(await mirrors.answer())["held"] for mirrors in others]
            gc.collect()
            for size_bytes, promise in _PROMISE_S.items():
                took, spent = [], []
                for _ in range(_CHANGES):
                    await asyncio.sleep(0.2)
                    _, before = await last(others, wait="ready")
                    began = change(size_bytes)
                    at, after = await last(others, wait="current", n=count)
                    took.append(at - began)
                    spent.append(after - before)
                work = f"one change of {size_bytes:,} bytes in N mirrors of {_PROCESSES} processes"
                note = f"slowest {max(took):.2g} s; CPU of all {min(spent):.2g} s"
                more = {"slowest": max(took), "cpu": min(spent)}
                row = Row(
                    f"nats-{size_bytes}", work, size, min(took), promise, 1, note=note, more=more
                )
                rows.append(row)
            restored, spent = [], []
            for _ in range(_OUTAGES):
                broker.kill()
                _, before = await last(others, wait="stale")
                change(200)
                broker.start()
                began = time.monotonic()
                at, after = await last(others, wait="current", n=count)
                restored.append(at - began)
                spent.append(after - before)
            work = "all right again after the broker came back"
            note = f"slowest {max(restored):.2g} s; CPU of all {min(spent):.2g} s"
            more = {"slowest": max(restored), "cpu": min(spent)}
            rows.append(
                Row("nats-restart", work, size, min(restored), _RESTORED_S, 1, note=note, more=more)
            )
            began = time.monotonic()
            broker.freeze()
            stale_s = (await last(others, wait="stale"))[0] - began
            broker.thaw()
            await last(others, wait="current", n=count)
            work = "all say that they are not current while the broker is frozen"
            rows.append(Row("nats-frozen", work, size, stale_s, _STALE_S, 1))
    work = "memory per mirror, with its client"
    total = sum(held)
    rows.append(
        Row("nats-memory", work, size, max(1, total / size), unit="bytes",
            note=f"{total / 2**20:,.0f} MiB in all")
    )  # fmt: skip
    return rows


@contextlib.asynccontextmanager
async def _started(address: str, size: int) -> AsyncIterator[list[_Mirrors]]:
    pipe = asyncio.subprocess.PIPE
    share = -(-size // _PROCESSES)
    command = [sys.executable, "-m", "benchmarks.scale_trees", address, str(share)]
    here = Path(__file__).parent.parent
    others = [
        _Mirrors(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=here))
        for _ in range(_PROCESSES)
    ]
    try:
        yield others
    finally:
        for mirrors in others:
            mirrors.process.kill()
            await mirrors.process.wait()


async def _mirror(address: str, size: int) -> None:
    """Keep so many mirrors, and say on stdout when all of them are what is waited for."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    gc.collect()
    before = _resident()
    clients = [Client(dial_address(address)) for _ in range(size)]
    watches = [client.subscribe() for client in clients]
    for at in range(0, size, _BATCH):
        for client in clients[at : at + _BATCH]:
            client.start()
        for watch in watches[at : at + _BATCH]:
            while not watch.is_current:
                await asyncio.sleep(0.01)
    gc.collect()
    gc.freeze()
    print(json.dumps({"held": _resident() - before}), flush=True)
    while line := await reader.readline():
        command = json.loads(line)
        match command["wait"]:
            case "current":
                # Looked at one after the other: the last to be right is found in any order.
                for watch in watches:
                    while not (
                        watch.is_current
                        and watch.tree is not None
                        and watch.tree.at("/list").properties["n"] == command["n"]
                    ):
                        await asyncio.sleep(0.001)
            case "stale":
                for watch in watches:
                    while watch.is_current:
                        await asyncio.sleep(0.001)
        print(json.dumps({"at": time.monotonic(), "cpu": time.process_time()}), flush=True)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    asyncio.run(_mirror(sys.argv[1], int(sys.argv[2])))
