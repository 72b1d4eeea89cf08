"""Somebody at a terminal: the installed program in a pseudo-terminal, as a person runs it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pexpect

from support.shell import PROGRAM
from support.vendors.server import Vendor

WHERE = "\x1b[6n"  # how a program asks a terminal where the cursor is
WAIT_S = 60  # a machine may be busy; nothing is measured by it


class Person:
    """Somebody at a terminal, which answers as terminals do."""

    def __init__(
        self,
        directory: Path,
        vendor: Vendor | None,
        *arguments: str,
        size: tuple[int, int] = (24, 80),
        **env: str,
    ) -> None:
        self.child = pexpect.spawn(
            PROGRAM, [*arguments], encoding="utf-8", timeout=WAIT_S, dimensions=size,
            cwd=str(directory), env=environment(directory, vendor, **env),
        )  # fmt: skip
        self.seen = ""

    def sees(self, text: str) -> None:
        """Wait until a text is on the screen."""
        while self.child.expect_exact([text, WHERE]) == 1:
            self.seen += self.child.before or ""
            self.child.send("\x1b[1;1R")
        self.seen += (self.child.before or "") + text

    def types(self, text: str) -> None:
        self.child.send(text)

    def leaves(self) -> int:
        """Press Ctrl-D and wait for the end."""
        self.child.send("\x04")
        return self.ends()

    def ends(self) -> int:
        while self.child.expect([pexpect.EOF, re.escape(WHERE)]) == 1:
            self.child.send("\x1b[1;1R")
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else -1


def environment(directory: Path, vendor: Vendor | None, **more: str) -> dict[str, str]:
    """What the program finds around it: nothing of this machine's user, and this vendor if any."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    own = {
        "HOME": str(directory), "TERM": "xterm-256color", "SLOP_PROVIDERS": str(directory / "air"),
        "SIGHTLINE_LEDGER": str(directory / "work.db"),
    }  # fmt: skip
    if vendor is not None:
        own |= {"SIGHTLINE_MODEL": "ollama:test", **vendor.environment()}
    coverage = {name: value for name, value in os.environ.items() if name.startswith("COV")}
    return {**kept, **own, **coverage, **more}
