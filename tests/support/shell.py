"""Run the command line as a user does: the installed program, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Protocol

PROGRAM = str(Path(sys.executable).with_name("sightline"))


class Run(Protocol):
    """Runs `sightline` with arguments and returns what came of it."""

    def __call__(
        self, *args: str, stdin: bytes | str = b""
    ) -> subprocess.CompletedProcess[bytes]: ...


def runner(directory: Path) -> Run:
    """Run in this directory."""

    def run(*args: str, stdin: bytes | str = b"") -> subprocess.CompletedProcess[bytes]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        command = [PROGRAM, *args]
        return subprocess.run(
            command, input=data, capture_output=True, cwd=directory, timeout=120, check=False
        )

    return run
