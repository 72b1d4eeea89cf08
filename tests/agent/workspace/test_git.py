"""What git says, and that a repository cannot make us run anything by having us ask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.workspace.conftest import Git as Run
from sightline.agent.workspace.git import Change, Git, GitStatus, GitView, parse_status

FILES = (("README.md",), ("src", "app.py"))


def test_without_a_repository_there_is_nothing_to_say(root: Path) -> None:
    assert Git(root).look() == GitView()


@pytest.mark.usefixtures("git")
def test_a_clean_repository_is_on_its_branch(root: Path) -> None:
    assert Git(root).look() == GitView(FILES, GitStatus("main"))


def test_every_kind_of_change_is_told(root: Path, git: Run) -> None:
    for name in ("kept", "gone", "moved", "staged"):
        (root / name).write_text(f"{name}\n" * 20)
    git("add", ".")
    git("commit", "-q", "-m", "more")
    (root / "README.md").write_text("changed")
    (root / "staged").write_text("changed")
    (root / "gone").unlink()
    git("add", "staged")
    git("mv", "moved", "there")
    (root / "new file\n.txt").write_text("x")
    status = Git(root).look().status
    assert status is not None
    assert set(status.changes) == {
        Change("README.md", "modified"),
        Change("gone", "deleted"),
        Change("staged", "modified", staged=True),
        Change("there", "renamed", staged=True, was="moved"),
        Change("new file\n.txt", "untracked"),
    }


def test_what_is_ignored_is_not_listed_and_neither_is_git_itself(root: Path, git: Run) -> None:
    git("status")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "a.log").write_text("x")
    (root / "build").mkdir()
    (root / "build" / "x").write_text("x")
    assert Git(root).look().files == ((".gitignore",), *FILES)


def test_a_directory_within_a_repository_has_its_own_paths(root: Path, git: Run) -> None:
    git("status")
    (root / "src" / "app.py").write_text("changed")
    (root / "README.md").write_text("changed")
    status = GitStatus("main", changes=(Change("app.py", "modified"),))
    assert Git(root / "src").look() == GitView((("app.py",),), status)


def test_ahead_behind_and_conflicts_are_read() -> None:
    told = b"\0".join(
        [
            b"# branch.oid abc", b"# branch.head main", b"# branch.upstream origin/main",
            b"# branch.ab +2 -1",
            b"u UU N... 100644 100644 100644 100644 h1 h2 h3 both ways.txt",
            b"1 .M N... 100644 100644 100644 h h a b c",
            b"",
        ]
    )  # fmt: skip
    assert parse_status(told) == GitStatus(
        "main", "origin/main", 2, 1,
        (Change("both ways.txt", "conflict"), Change("a b c", "modified")),
    )  # fmt: skip


def test_a_git_that_the_directory_brought_along_is_not_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = root / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {root.parent}/caught\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    Git(root).look()
    assert not (root.parent / "caught").exists()


@pytest.mark.usefixtures("git")
def test_the_environment_cannot_point_git_elsewhere(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert Git(root).look().files == FILES
