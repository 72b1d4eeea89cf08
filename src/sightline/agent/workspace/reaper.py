"""Run one command, and end with it whatever it started, wherever that went. Linux only.

    python -I -S reaper.py PROGRAM ARGUMENTS…     ends as the program ended

A process that leaves its group (`setsid`, a daemon) is handed to the nearest ancestor that
takes orphans. That is this small process and not the host: a host that took the orphans of
every program it embeds would have to wait for children that it knows nothing of. It is told
to stop with SIGTERM, and stops by itself if the host is gone. What became another user's is
beyond it. It imports as little as it can: every command waits for it to start.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_SET_PDEATHSIG = 1
_GRACE_S = 1.0
_LIMIT_S = 3.0
_AWAITED = {signal.SIGCHLD, signal.SIGTERM}


def main(command: list[str]) -> None:
    """Run a command to its end, or until told to stop; then end all that is left of it."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    shell = os.fork()
    if shell == 0:
        _become(command)
    status = _followed(shell)
    _end_the_rest()
    if os.WIFSIGNALED(status):
        _die_of(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _become(command: list[str]) -> None:
    try:
        os.setsid()
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, not by the user
            signal.signal(ignored, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        os.execv(command[0], command)  # noqa: S606 - it is the shell
    finally:
        os._exit(127)


def _followed(shell: int) -> int:
    """Wait for the shell; give its wait status. Once told to stop, it has a moment."""
    deadline = None
    while (status := _reaped(shell)) is None:
        left = _LIMIT_S if deadline is None else deadline - time.monotonic()
        if deadline is not None and left <= 0:
            _signal(shell, signal.SIGKILL)
            left = _GRACE_S
        received = signal.sigtimedwait(_AWAITED, left)
        if received is not None and received.si_signo == signal.SIGTERM and deadline is None:
            _signal(shell, signal.SIGTERM)
            deadline = time.monotonic() + _GRACE_S
    return status


def _signal(shell: int, number: signal.Signals) -> None:
    """Signal the shell and its group; before it leads one there is only itself."""
    try:
        os.killpg(shell, number)
    except ProcessLookupError:
        os.kill(shell, number)


def _reaped(shell: int) -> int | None:
    """Take away every child that is over; the shell's status if it was among them."""
    found = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == shell:
                found = ended[1]
    except ChildProcessError:  # that was the last one
        pass
    return found


def _end_the_rest() -> None:
    """End every descendant: who loses a parent is ours, so at last there is none."""
    limit = time.monotonic() + _LIMIT_S
    while time.monotonic() < limit:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        signal.sigtimedwait({signal.SIGCHLD}, 0.01)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs more than all of this
        try:
            with open(f"/proc/{int(name)}/stat", "rb") as file:  # noqa: PTH123 - as above
                # proc(5): field 4, after a name that may contain anything.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (ValueError, OSError):  # no process, or no longer one
            continue
        children.setdefault(parent, []).append(int(name))
    found = children.get(os.getpid(), [])
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _die_of(number: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(sys.argv[1:])
