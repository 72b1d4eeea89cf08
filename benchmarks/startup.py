"""How long a person waits for the chat: CPU time of `sightline chat` until its prompt is there.

The program runs in a pseudo-terminal and ends itself as soon as the prompt is drawn, in the
place of loading what comes behind it; its CPU time is what the system counted for it by
then. The peer is an interpreter that does nothing (`python -c pass`), which nobody who
writes Python can beat. The promise is 300 ms.
"""

from __future__ import annotations

import os
import pty
import sys
import tempfile
from collections.abc import Mapping

from benchmarks.harness import Row

__all__ = ["run"]

PROMISE_S = 0.3
CHAT = """
import os
from sightline.cli import main
from sightline.cli.chat import main as chat

async def behind(terminal, options):
    await terminal.shown.wait()
    os._exit(0)

chat._behind = behind
main(["chat"])
"""


def run(*, quick: bool) -> list[Row]:
    """Start the chat and the bare interpreter by turns; the best of each counts."""
    runs = 2 if quick else 9
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "TERM": "xterm-256color"}
        chats, bare = [], []
        for _ in range(runs):
            chats.append(_cpu_s(CHAT, env))
            bare.append(_cpu_s("pass", env))
    ours, peer = min(chats), min(bare)
    return [
        Row(
            "chat", "start of the chat, to its prompt", 1, ours, peer,
            note="against `python -c pass`",
        ),
        Row("chat-promise", "the same, against what is promised", 1, ours, PROMISE_S, bar=1),
    ]  # fmt: skip


def _cpu_s(code: str, env: Mapping[str, str]) -> float:
    """Run code on a terminal of its own to its end; return the CPU seconds of its process."""
    pid, terminal = pty.fork()
    if not pid:
        os.execve(sys.executable, [sys.executable, "-c", code], dict(env))  # noqa: S606 - no shell
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(terminal)
    _, status, used = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "the chat did not come up"
    return used.ru_utime + used.ru_stime
