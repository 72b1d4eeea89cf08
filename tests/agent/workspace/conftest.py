"""Directories to work in: plain, and with git."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sightline.agent.workspace.inside import Inside

Git = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a secret beside it that nobody may read."""
    (tmp_path / "secret.txt").write_text("outside")
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "README.md").write_text("# Ducks\nThey swim.\n")
    (directory / "src").mkdir()
    (directory / "src" / "app.py").write_text("def duck():\n    return 'quack'\n")
    return directory


@pytest.fixture
def inside(root: Path) -> Iterator[Inside]:
    """The directory, opened so that nothing leads out of it."""
    opened = Inside(root)
    yield opened
    opened.close()


@pytest.fixture
def git(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """The directory as a repository with one commit; the user's own settings are not read."""
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def run(*arguments: str) -> str:
        identity = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True
        )
        return done.stdout

    run("init", "-q", "-b", "main")
    run("add", ".")
    run("commit", "-q", "-m", "first")
    return run


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be somebody to whom files can be closed, also where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def wait_until_gone(pid: int) -> None:
    """Return when there is no such process, or only what is left of one."""
    limit = time.monotonic() + 30
    while _is_running(pid):
        assert time.monotonic() < limit, f"{pid} is still there"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Whoever inherited it may not have waited for it yet.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()
