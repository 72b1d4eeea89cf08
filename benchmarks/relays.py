"""Ten thousand WebSockets on one or two relays of an app on a broker: what one change takes.

    python -m benchmarks.relays [READERS]

A real NATS server, the app in this process, `sightline relay` once and twice at one port, and all
readers in one other process. Times are of the clock on the wall, from the change in the app until
99 of 100 readers have it, the middle one of several; CPU is the relays' own, all of them together.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.connections import _raise_files, _readers
from sightline.slop import App

# The broker is the tests' own, so that what is measured is what is tried.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
from support import nats

_CHANGES = 7
_TOKEN = "readers"


async def measure(relays: int, size: int) -> tuple[float, float]:
    """Give the seconds until nearly all have a change, and of the relays' CPU."""
    turns = 0
    app = App("board", "Board")
    app.node("list")(lambda: {"type": "group", "props": {"n": turns, "text": "x" * 200}})
    with nats.server() as broker, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        async with app.serving(unix=False, discoverable=False, nats=broker.url) as [address]:
            environment = {**os.environ, "SIGHTLINE_PORT_TOKEN": _TOKEN}
            command = [sys.executable, "-m", "sightline", "relay", address, "--port", str(port)]
            running = [
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
                for _ in range(relays)
            ]
            served = ""
            try:
                for each in running:
                    assert each.stdout is not None
                    served = (await asyncio.to_thread(each.stdout.readline)).strip()
                async with _readers(served.replace("//", f"//{_TOKEN}@")) as readers:
                    await readers.join(size)
                    took, spent = [], []
                    for _ in range(_CHANGES):
                        await asyncio.sleep(0.5)
                        await readers.join(size)  # which lets them hear what is left
                        before = _cpu(running)
                        turns += 1
                        change = await readers.see(app.refresh)
                        took.append(change.most_s)
                        spent.append(_cpu(running) - before)
            finally:
                for each in running:
                    each.kill()
                    each.wait()
    return median(took), median(spent)


def _cpu(processes: list[subprocess.Popen[str]]) -> float:
    """The CPU time of processes so far (proc(5), stat)."""
    ticks = 0
    for each in processes:
        stat = Path(f"/proc/{each.pid}/stat").read_text(encoding="ascii")
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    how_many = int(sys.argv[1]) if sys.argv[1:] else 10_000
    _raise_files(1 << 20)
    load = os.getloadavg()[0]
    print(f"{how_many:,} readers, load {load:.1f} when it began")
    for number in (1, 2):
        most, cpu = asyncio.run(measure(number, how_many))
        print(f"{number} relays: {most:.3f} s, CPU {cpu:.3f} s", flush=True)
