"""What git says of a directory, asked in a way in which the directory cannot answer back.

A repository's own configuration can name programs that git runs: monitors, hooks,
filters. The first two are switched off on the command line; filters cannot be, so where
the repository itself configures one, its status is not asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sightline.workspace.group import kill_group
from sightline.workspace.inside import Parts

__all__ = ["Change", "Git", "GitStatus", "parse_status"]

_TIMEOUT_S: Final = 10.0
_GRACE_S: Final = 1.0  # from the end of its answer to its own
_MAX_BYTES: Final = 32 * 1024 * 1024
_RUNS_PROGRAMS: Final = re.compile(r"filter\..*\.(?:clean|smudge|process)", re.DOTALL)
_ITS_OWN: Final = frozenset({"local", "worktree"})
_OPTIONS: Final = (
    "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c",
    "core.hooksPath=/dev/null", "-c", "core.quotePath=false",
)  # fmt: skip
_WORDS: Final = {
    "M": "modified", "T": "type changed", "A": "added", "D": "deleted", "R": "renamed",
    "C": "copied", "U": "conflict", "?": "untracked",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One changed file: what happened to it, and whether that is staged."""

    path: str
    status: str
    staged: bool = False
    was: str = ""


@dataclass(frozen=True, slots=True)
class GitStatus:
    """Where a repository stands. `problem` says why nothing else is known."""

    branch: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    changes: tuple[Change, ...] = ()
    problem: str = ""


class Git:
    """The git of one directory, if there is one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        found = shutil.which("git")
        # A program that the directory brought along is not the one that was meant.
        inside = found is not None and Path(found).resolve().is_relative_to(root.resolve())
        self._program = None if found is None or inside else str(Path(found).resolve())

    def files(self) -> list[Parts] | None:
        """List what is tracked, or neither tracked nor ignored; None without a repository."""
        listed = self._ask("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        if listed is None:
            return None
        # A file in conflict is listed once for each side.
        names = dict.fromkeys(os.fsdecode(name) for name in listed.split(b"\0") if name)
        return [tuple(name.rstrip("/").split("/")) for name in sorted(names)]

    def status(self) -> GitStatus | None:
        """Say what has changed; None without a repository."""
        names = self._ask("config", "--list", "--show-scope", "--name-only", "--includes", "-z")
        prefix = self._ask("rev-parse", "--show-prefix")
        if names is None or prefix is None:
            return None
        if program := _own_program(names):
            return GitStatus(problem=f"the repository's own configuration runs {program}")
        told = self._ask(
            "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all",
            "--ignore-submodules=all", "--", ".",
        )  # fmt: skip
        if told is None:
            return GitStatus(problem="git does not answer")
        return parse_status(told, os.fsdecode(prefix.rstrip(b"\n")))

    def _ask(self, *arguments: str) -> bytes | None:
        if self._program is None:
            return None
        try:
            process = subprocess.Popen(
                [self._program, *_OPTIONS, *arguments],
                cwd=self._root, env=_environment(), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:  # the directory or the program is gone
            return None
        limit = threading.Timer(_TIMEOUT_S, kill_group, (process,))
        limit.start()
        with process:
            assert process.stdout is not None  # noqa: S101 - it was asked for above
            data = process.stdout.read(_MAX_BYTES + 1)
            if len(data) > _MAX_BYTES:
                kill_group(process)
            # Nothing may be signalled once it has been waited for.
            limit.cancel()
            limit.join()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                kill_group(process)
        return data if process.returncode == 0 and len(data) <= _MAX_BYTES else None


def parse_status(told: bytes, prefix: str = "") -> GitStatus:
    """Read `status --porcelain=v2 --branch -z`; paths are made relative to `prefix`."""
    branch = upstream = ""
    ahead = behind = 0
    changes: list[Change] = []
    fields = iter(os.fsdecode(field) for field in told.split(b"\0") if field)
    for line in fields:
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.head":
                branch = value
            elif name == "branch.upstream":
                upstream = value
            elif name == "branch.ab":
                plus, minus = value.split(" ")
                ahead, behind = int(plus[1:]), int(minus[1:])
        elif kind == "?":
            changes.append(Change(rest.removeprefix(prefix), _WORDS["?"]))
        elif kind in _PATH_AT:
            changes.append(_change(kind, rest, prefix, fields))
    return GitStatus(branch, upstream, ahead, behind, tuple(changes))


# How many fields stand before the path, by the kind of an entry.
_PATH_AT: Final = {"1": 7, "2": 8, "u": 9}


def _change(kind: str, rest: str, prefix: str, fields: Iterator[str]) -> Change:
    parts = rest.split(" ", _PATH_AT[kind])
    path = parts[-1].removeprefix(prefix)
    if kind == "u":
        return Change(path, _WORDS["U"])
    index, tree = parts[0][0], parts[0][1]
    was = next(fields).removeprefix(prefix) if kind == "2" else ""
    letter = index if index != "." else tree
    return Change(path, _WORDS.get(letter, "changed"), index != ".", was)


def _own_program(names: bytes) -> str:
    """Find a setting by which the repository itself makes git run something."""
    fields = names.decode(errors="replace").split("\0")
    for scope, name in zip(fields[::2], fields[1::2], strict=False):
        if scope in _ITS_OWN and _RUNS_PROGRAMS.fullmatch(name):
            return name
    return ""


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
