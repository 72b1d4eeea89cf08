"""The process group of a command: whether its leader is over, and how to end all of it.

Where the system can look at a process without taking it away (`waitid`), the leader is left
to be waited for, so the group's number stays ours. Elsewhere it is taken away when it is
over, and a signal that finds nobody is no error.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

_REAPER: Final = Path(__file__).with_name("reaper.py")


def leader() -> tuple[str, ...]:
    """Give the reaper that is handed a command; nothing where there is none."""
    if sys.platform != "linux" or not sys.executable:
        return ()
    # Isolated: neither the directory nor a variable can add to what it imports.
    return (sys.executable, "-I", "-S", str(_REAPER))


def is_over(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether the leading process of a command has ended."""
    if process.returncode is None and hasattr(os, "waitid"):
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, options) is not None
    return process.poll() is not None


def kill_group(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGKILL) -> None:
    """Signal everybody in the group that the process leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, how)
