"""A sandbox for commands, by bubblewrap: they read what the user can, and write in two places.

    written      the workspace and its repository, a private /tmp, what the user adds
    read only    everything else; of the repository its hooks, configuration, submodules and
                 worktrees, which name programs that git would run outside
    not there    the network (but a loopback of its own), other processes, the sockets in /run

Whether it works is found out by one trial: a system may forbid what bubblewrap needs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from sightline._lazy import lazy_pattern
from sightline.agent.workspace.git import Repository, find_repository
from sightline.agent.workspace.guard import Survey
from sightline.errors import InvalidInput

_TRIAL_S: Final = 10.0
# What is found in /run by programs that need no daemon there.
_KEPT_IN_RUN: Final = (
    "/run/current-system", "/run/booted-system", "/run/wrappers", "/run/opengl-driver",
    "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf",
)  # fmt: skip
_ALWAYS: Final = (
    "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-ipc",
    "--die-with-parent", "--cap-drop", "ALL",
)  # fmt: skip
_NO_NETWORK: Final = lazy_pattern(
    r"network is unreachable|could not resolve host|name resolution|name or service not known"
    r"|ENETUNREACH|EAI_AGAIN|no address associated with hostname|failed to lookup address"
    r"|getaddrinfo",
    re.IGNORECASE,
)
_READ_ONLY: Final = lazy_pattern(
    r"read-only file system|EROFS|could not write config file", re.IGNORECASE
)


@cache
def why_no_sandbox() -> str:
    """Say why commands cannot run in a sandbox here; nothing if they can."""
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if program is None:
        return "bubblewrap (bwrap) is not installed"
    trial = [program, *_ALWAYS, "--unshare-net", "--", "/bin/sh", "-c", "exit 0"]
    try:
        done = subprocess.run(trial, capture_output=True, timeout=_TRIAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start: {error}"
    if done.returncode:
        return f"bubblewrap does not work here: {done.stderr.decode(errors='replace').strip()}"
    return ""


class Sandbox:
    """Where the commands of one workspace run. Raises InvalidInput where that cannot be."""

    def __init__(self, root: Path, writable: Iterable[Path] = ()) -> None:
        if problem := why_no_sandbox():
            raise InvalidInput(problem)
        self._program = shutil.which("bwrap") or "bwrap"
        self._root = root
        self._writable = tuple(writable)
        self._checking = threading.Lock()
        self._running = 0
        self._survey = Survey(())
        self._temporary = tempfile.TemporaryDirectory(prefix="sightline-tmp-")

    def enter(self, *, network: bool) -> list[str]:
        """Return the program and arguments that start the sandbox of one command.

        Records the git settings of now. Raises InvalidInput if the directory is too large for that.
        """
        root, command = str(self._root), [self._program, *_ALWAYS]
        if Path("/run").is_dir():
            command += ["--tmpfs", "/run"]
            for kept in _KEPT_IN_RUN:
                command += ["--ro-bind-try", kept, kept]
        command += ["--bind", self._temporary.name, "/tmp", "--setenv", "TMPDIR", "/tmp"]  # noqa: S108 - inside
        for path in (*self._writable, self._root):
            command += ["--bind-try", str(path), str(path)]
        around: tuple[Path, ...] = ()
        if (repository := self._repository()) is not None:
            command += _repository_binds(repository)
            around = (repository.common, repository.git_dir)
        outside = {path for path in around if not path.is_relative_to(self._root)}
        with self._checking:
            # While a command runs, each change counts as a change by that command.
            if not self._running:
                self._survey = Survey((self._root, *outside))
            self._running += 1
        return [*command, *(() if network else ("--unshare-net",)), "--chdir", root, "--"]

    def check(self, *, is_end: bool) -> str:
        """Make the git settings inert that commands made. Returns a notice with their names.

        Each `enter` needs one check with `is_end`, also for a command that was stopped or failed.
        """
        with self._checking:
            if not self._running:
                return ""  # the last command has ended, with a check
            self._running -= is_end
            self._survey = Survey(self._survey.roots, self._survey)
            return self._survey.notice

    def close(self) -> None:
        """Remove the private temporary directory."""
        self._temporary.cleanup()

    def _repository(self) -> Repository | None:
        try:
            return find_repository(self._root)
        except (InvalidInput, OSError):
            return None


def _repository_binds(repository: Repository) -> list[str]:
    """Let git write what it records, and nothing that names programs.

    Each of them is a mount, which cannot be renamed or replaced from inside.
    """
    git_dir, common = repository.git_dir, repository.common
    binds: list[str] = ["--bind", str(common), str(common)]
    binds += _read_only((common / "config", common / "config.worktree"))
    for directory in (common / "hooks", common / "modules", common / "worktrees"):
        # An empty one covers a directory that is absent, or a command could make it.
        empty = ("--tmpfs", str(directory), "--remount-ro", str(directory))
        binds += (
            _read_only([directory]) if directory.is_dir() else empty * os.access(common, os.W_OK)
        )
    if git_dir != common:
        binds += ["--bind", str(git_dir), str(git_dir)]
        names = ("commondir", "gitdir", "config.worktree")
        binds += _read_only(git_dir / name for name in names)
    pointer = repository.top / ".git"
    return binds + (_read_only([pointer]) if pointer.is_file() else [])


def _read_only(paths: Iterable[Path]) -> list[str]:
    return [word for path in paths if path.exists() for word in ("--ro-bind", str(path), str(path))]


def refusals(output: str, *, network: bool) -> list[str]:
    """Say what a command that failed in a sandbox was probably refused, by what it said."""
    found: list[str] = []
    if not network and _NO_NETWORK.search(output):
        found.append("there is no network in the sandbox: `network: true` asks the user for it")
    if _READ_ONLY.search(output):
        found.append(
            "in the sandbox only the workspace and /tmp can be written, of .git neither hooks nor "
            "config, modules, worktrees; the user's setting `workspace.writable` adds directories"
        )
    return found
