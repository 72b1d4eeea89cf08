"""How soon a key is shown while an answer streams and an app floods the host.

`sightline chat` runs in a pseudo-terminal. Its model says some words every few milliseconds and
never ends; an app in another process changes as fast as it is read. Then keys are typed, one by
one, and each is waited for until the terminal gets its letter.

What is measured is the CPU time of the whole chat, all its threads, between the key and its
letter: on a machine that does nothing else the key is shown no later, by the clock, unless the
chat sleeps meanwhile; the note has the clock. On a busy machine only the first is a measure,
and still too large: a key that waits for its turn on the processor is given all that the chat does
meanwhile. The peer is the promise, which is a frame of a screen: 16 ms.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import Row

__all__ = ["PROMISE_S", "run"]

PROMISE_S = 0.016
_PATIENCE_S = 60.0
_GAP_S = 0.03
# No other text on the screen has them.
_LETTERS = "ЖЩЫЮЯФДЛ"
_CLEAR_LINE = b"\x15"  # Ctrl-U
CHAT = """
import asyncio, sys
from sightline.agent.models import choose
from sightline.cli import main
from sightline.context.dialects.events import TextArrived
from sightline.testing import ScriptedModel

class EndlessModel(ScriptedModel):
    async def stream(self, request):
        while True:
            for number in range(40):
                yield TextArrived("lorem ipsum dolor " if number else "\\n\\nsit amet, ")
                await asyncio.sleep(0.005)

choose.open_model = lambda *_: EndlessModel()
main(["chat", "--db", sys.argv[1] + "/work.db"])
"""
APP = """
import asyncio, sys
from sightline import App

app, count = App("flood", "Flood"), 0

@app.node("rows")
def rows():
    items = [{"id": f"r{n}", "props": {"title": f"row {n}", "count": count}} for n in range(200)]
    return {"type": "collection", "items": items}

async def main():
    global count
    async with app.serving(unix=sys.argv[1]):
        while True:
            count += 1
            app.changed()
            await asyncio.sleep(0.001)

asyncio.run(main())
"""


class _Shown(NamedTuple):
    """How long a key took to be shown, by the chat's CPU time and by the clock."""

    worked_s: float
    late_s: float


def run(*, quick: bool) -> list[Row]:
    """Type into a chat that is busy, and into one that waits."""
    keys = 20 if quick else 300
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home:
        env = {
            **os.environ, "HOME": home, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1",
            "SLOP_PROVIDERS": home,
        }  # fmt: skip
        for slug, work, busy in (
            (
                "flooded",
                "a key is shown while an answer streams and an app floods, 95 of 100",
                True,
            ),
            ("waiting", "a key is shown while the chat waits, 95 of 100", False),
        ):
            shown = _typed(Path(home), env, keys, busy=busy)
            late = _percentiles([one.late_s for one in shown])
            half, most = _percentiles([one.worked_s for one in shown])
            note = (
                f"50 of 100 within {half * 1000:.1f} ms; "
                f"by the clock {late[0] * 1000:.0f} and {late[1] * 1000:.0f} ms"
            )
            more = {"p50": half, "p95": most, "clock_p50": late[0], "clock_p95": late[1]}
            rows.append(Row(slug, work, keys, most, PROMISE_S, 1, note=note, more=more))
    return rows


def _percentiles(values: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=20)
    return statistics.median(values), cuts[-1]


def _typed(home: Path, env: Mapping[str, str], keys: int, *, busy: bool) -> list[_Shown]:
    socket = home / "flood.sock"
    app = (
        subprocess.Popen([sys.executable, "-c", APP, str(socket)], env=dict(env)) if busy else None
    )
    terminal = None
    try:
        while app is not None and not socket.exists():
            assert app.poll() is None, "the app did not come up"
            time.sleep(0.01)
        terminal = _Terminal([sys.executable, "-c", CHAT, str(home)], env)
        return terminal.type_keys(keys, busy=busy)
    finally:
        if terminal is not None:
            terminal.close()
        if app is not None:
            app.kill()
            app.wait()


class _Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        self._pid, self._screen = pty.fork()
        if not self._pid:
            os.execve(command[0], command, dict(env))  # noqa: S606 - no shell
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))

    def type_keys(self, keys: int, *, busy: bool) -> list[_Shown]:
        """Type letters one by one, and tell how long each took."""
        self.wait_for("/help lists commands")
        if busy:
            self._read_for(1.0)
            os.write(self._screen, b"go\r")
            self.wait_for("ipsum")
        shown: list[_Shown] = []
        for number in range(keys):
            if number % 20 == 0:
                os.write(self._screen, _CLEAR_LINE)
            self._read_for(_GAP_S)
            letter = _LETTERS[number % len(_LETTERS)]
            worked, began = self._worked_s(), time.monotonic()
            os.write(self._screen, letter.encode())
            self.wait_for(letter)
            shown.append(_Shown(self._worked_s() - worked, time.monotonic() - began))
        return shown

    def wait_for(self, text: str) -> None:
        """Read until a text is written."""
        wanted, seen, until = text.encode(), b"", time.monotonic() + _PATIENCE_S
        while wanted not in seen:
            assert time.monotonic() < until, f"{text!r} was never shown: {seen[-2000:]!r}"
            if select.select([self._screen], [], [], 1.0)[0]:
                seen = seen[-2000:] + os.read(self._screen, 65536)

    def close(self) -> None:
        """End the program."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._screen)

    def _read_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self._screen], [], [], left)[0]:
                os.read(self._screen, 65536)

    def _worked_s(self) -> float:
        # clock_getcpuclockid(3), Linux: the CPU clock of another process.
        return time.clock_gettime(((~self._pid) << 3) | 2)
