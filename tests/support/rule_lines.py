"""Pairs of a rule for commands and a line that does harm, and a repository to try them in."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from sightline.config import PolicyRule

DATA: Final = Path(__file__).parents[1] / "agent" / "rule_lines.jsonl"
_SAFE: Final = frozenset({"cp", "dd", "find", "git", "ln", "nice", "sort", "split", "tee", "touch"})


class Row(NamedTuple):
    """A rule of the user, a line that a model writes, and the harm that the line does."""

    rule: str
    line: str
    harm: str
    author: str


ROWS: Final = [Row(**json.loads(line)) for line in DATA.read_text("utf-8").splitlines()]
# For a control that runs them: their harm stays within the directory of the test.
SAFE_ROWS: Final = [row for row in ROWS if row.author == "own" and row.line.split()[0] in _SAFE]


def approves(rule: str) -> PolicyRule:
    """Make the rule that a user writes to approve a command."""
    return PolicyRule(app="workspace", command=rule, decision="approve")


def fill_repository(root: Path, marker: Path) -> None:
    """Make a repository with the files of the lines. Its program `x` writes `marker`."""
    root.mkdir()

    def git(*words: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@b.example")
        subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True)

    git("init", "-q")
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("a = 1\n")
    for text in ("hello\n", "hello\nmore\n"):
        (root / "notes.txt").write_text(text)
        git("add", ".")
        git("commit", "-qm", text.split()[-1])
    git("branch", "other")
    git("tag", "v1")
    (root / "notes.txt").write_text("hello\nmore\nchanged\n")
    (root / "x").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (root / "x").chmod(0o755)
    (root / "x.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    (root / "x.mk").write_text("a := $(shell ./x)\nall:\n\t./x\n")
    (root / "x.awk").write_text('BEGIN { system("./x") }\n')
    (root / "a.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["tar", "cf", "a.tar", "notes.txt"], cwd=root, check=True)
