"""How long a person waits for the chat: CPU time of `sightline chat` until its prompt is there.

The program runs in a pseudo-terminal and is killed when the prompt appears on it; its CPU time
is what the system counted for it by then. The peer is an interpreter that does nothing
(`python -c pass`), which nobody who writes Python can beat. The promise is 300 ms.
"""

from __future__ import annotations

import os
import pty
import re
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.harness import Row

__all__ = ["run"]

PROMISE_S = 0.3
PROMPT = re.compile(rb"(?<!\[)>")


def run(*, quick: bool) -> list[Row]:
    """Start the chat and the bare interpreter by turns; the best of each counts."""
    runs = 2 if quick else 7
    program = str(Path(sys.executable).with_name("sightline"))
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "TERM": "xterm-256color", "SLOP_PROVIDERS": home}
        env = {name: value for name, value in env.items() if not name.startswith("XDG_")}
        chats, bare = [], []
        for _ in range(runs):
            chats.append(_cpu_s([program, "chat"], env, lambda seen: bool(PROMPT.search(seen))))
            bare.append(_cpu_s([sys.executable, "-c", "pass"], env, lambda _: False))
    ours, peer = min(chats), min(bare)
    return [
        Row("start of the chat, to its prompt", 1, ours, peer, note="against `python -c pass`"),
        Row("the same, against what is promised", 1, ours, PROMISE_S, bar=1),
    ]


def _cpu_s(command: list[str], env: Mapping[str, str], enough: Callable[[bytes], bool]) -> float:
    """Run a program on a terminal of its own until enough is seen or it ends; return its CPU."""
    pid, terminal = pty.fork()
    if not pid:
        os.execvpe(command[0], command, dict(env))  # noqa: S606 - never returns
    seen = b""
    try:
        while not enough(seen):
            try:
                chunk = os.read(terminal, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not chunk:
                break
            seen += chunk
    finally:
        os.kill(pid, signal.SIGKILL)
        _, _, used = os.wait4(pid, 0)
        os.close(terminal)
    return _total(used)


def _total(used: resource.struct_rusage) -> float:
    return used.ru_utime + used.ru_stime
