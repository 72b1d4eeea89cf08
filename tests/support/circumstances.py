"""What a run of the tests must not depend on: who started it, and what it leaves running."""

from __future__ import annotations

import contextlib
import os
import signal
import sys

# Settings of whoever runs the tests: their agent, their vendors, their terminal, their language.
_THEIRS = ("SIGHTLINE_", "SLOP_", "LC_", "XDG_")
_NAMED = {"LANG", "LANGUAGE", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"}
_OURS = {"SIGHTLINE_TEST_KILLS"}


def start_alike() -> None:
    """Make signals, file modes and environment the same, whatever shell or service starts us."""
    # `nohup … &` and many services hand on an ignored SIGINT, and children inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)
    for name in set(os.environ) - _OURS:
        if name.startswith(_THEIRS) or name in _NAMED or name.endswith("_API_KEY"):
            del os.environ[name]
    os.environ["LC_ALL"] = "C.UTF-8"
    # Hundreds of programs are started: each would compile all of ours.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def children() -> set[int]:
    """Return the processes that this one has started and that have not been waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the usual case, told without reading anything
    # Before and behind every test, so without an object for each process.
    ours, found = str(os.getpid()).encode(), set()
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # The name, in brackets, may hold anything; the parent comes second behind it.
                if file.read().rpartition(b")")[2].split(None, 2)[1] == ours:
                    found.add(int(name))
    return found


def end(pid: int) -> None:
    """End a child of ours with the group that it leads, and wait for it."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            if kill is os.kill or os.getpgid(pid) == pid:
                kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
