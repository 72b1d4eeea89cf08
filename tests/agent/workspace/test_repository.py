"""Repositories as they come, and as a stranger makes them: read, and never obeyed."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from agent.workspace.conftest import Git as Run
from sightline.agent.workspace import Workspace
from sightline.agent.workspace import git as module
from sightline.agent.workspace.git import Change, Git, GitStatus, GitView
from sightline.testing import connect
from support.traps import BY_CONFIGURATION, DELIVERIES, HOLDING, TRAPS, ordinary, run_git

FILES = (("README.md",), ("src", "pond.py"))
CHANGED = GitView(FILES, GitStatus("main", changes=(Change("README.md", "modified"),)))


@pytest.fixture
def pond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return ordinary(tmp_path / "pond")


@pytest.mark.parametrize("setting", BY_CONFIGURATION)
def test_a_repository_that_names_a_program_is_read_and_the_program_is_not_run(
    tmp_path: Path, setting: str
) -> None:
    [trap] = [trap for trap in TRAPS if trap.name == f"{setting} by the configuration"]
    planted = trap.plant(tmp_path)
    status = Git(planted.root).look().status
    assert not planted.caught.exists()
    assert status is not None
    # What is missing in a partial clone is not fetched, and nothing else is the matter.
    assert status.problem == (
        "git does not answer" if "promisor" in BY_CONFIGURATION[setting] else ""
    )


def test_there_are_enough_ways_in() -> None:
    assert len(TRAPS) >= 60
    assert len(BY_CONFIGURATION) * len(DELIVERIES) >= 100
    assert len(HOLDING) >= 20


def test_a_folder_that_looks_like_a_repository_is_a_folder(tmp_path: Path) -> None:
    [trap] = [trap for trap in TRAPS if trap.name == "uploadpack by a folder that looks bare"]
    planted = trap.plant(tmp_path)
    view = Git(planted.root).look()
    assert not planted.caught.exists()
    assert view.status is not None
    assert view.files is None or all("objects" not in parts for parts in view.files)


def test_git_gets_nothing_of_our_environment(
    pond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORK_KEY", "not-for-git")
    monkeypatch.setenv("GIT_TRACE2_ENV_VARS", "WORK_KEY")
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(tmp_path / "trace"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
    assert Git(pond).look() == CHANGED
    assert not (tmp_path / "trace").exists()


def test_a_git_that_the_directory_brings_or_that_is_a_pipe_is_passed_over(
    pond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = pond / "bin"
    brought.mkdir()
    shutil.copy("/bin/true", brought / "git")
    (tmp_path / "pipes").mkdir()
    os.mkfifo(tmp_path / "pipes" / "git", 0o755)
    monkeypatch.setenv("PATH", f"{brought}:{tmp_path}/pipes:{os.environ['PATH']}")
    assert Git(pond).look().status is not None


def test_git_loads_no_library_from_the_directory(
    pond: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A library that is none: git fails to start if it is found.
    for name in ("libz.so.1", "libpcre2-8.so.0", "libc.so.6"):
        (pond / name).write_text("")
    run_git(pond, "add", ".")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere:;.")
    status = Git(pond).look().status
    assert status is not None
    assert status.problem == ""


def test_what_the_user_set_for_all_repositories_still_holds(pond: Path, tmp_path: Path) -> None:
    (pond / "a.swp").touch()
    (pond / "b.orig").touch()
    (tmp_path / "rules").write_text("*.swp\n")
    (tmp_path / ".gitconfig").write_text("[core]\n\texcludesFile = ~/rules\n")
    assert Git(pond).look().files == (("README.md",), ("b.orig",), ("src", "pond.py"))


def test_the_usual_file_of_what_a_user_ignores_is_heeded(pond: Path, tmp_path: Path) -> None:
    (tmp_path / ".config" / "git").mkdir(parents=True)
    (tmp_path / ".config" / "git" / "ignore").write_text("*.swp\n")
    (pond / "a.swp").touch()
    assert Git(pond).look() == CHANGED


def test_a_branch_is_compared_with_its_upstream(pond: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", str(pond), "copy")
    copy = tmp_path / "copy"
    (copy / "new").write_text("x")
    run_git(copy, "add", ".")
    run_git(copy, "commit", "-q", "-m", "second")
    run_git(copy, "pack-refs", "--all")
    assert Git(copy).look().status == GitStatus("main", "origin/main", 1, 0)
    run_git(copy, "branch", "-m", 'a "quoted\\name"'.replace(" ", "-").replace("\\", "/"))
    status = Git(copy).look().status
    assert status is not None
    assert (status.branch, status.ahead) == ('a-"quoted/name"', 1)


@pytest.mark.parametrize("how", ["linked", "submodule", "split", "sha256", "sparse", "packed"])
def test_repositories_of_every_layout_are_read(pond: Path, tmp_path: Path, how: str) -> None:
    at, branch = pond, "main"
    if how == "linked":
        at, branch = tmp_path / "linked", "linked"
        run_git(pond, "worktree", "add", "-q", str(at))
    elif how == "submodule":
        above = ordinary(tmp_path / "above")
        allowed = ("-c", "protocol.file.allow=always")
        run_git(above, *allowed, "submodule", "add", "-q", str(pond), "inner")
        at = above / "inner"
    elif how == "split":
        run_git(pond, "update-index", "--split-index")
    elif how == "sha256":
        at = tmp_path / "other"
        run_git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", str(at))
        (at / "src").mkdir()
        (at / "README.md").write_text("# Ducks\n")
        (at / "src" / "pond.py").write_text("def duck(): ...\n")
        run_git(at, "add", ".")
        run_git(at, "commit", "-q", "-m", "first")
    elif how == "sparse":
        run_git(pond, "sparse-checkout", "init", "--cone", "--sparse-index")
    elif how == "packed":
        run_git(pond, "gc", "-q")
    (at / "README.md").write_text("# Other ducks\n")
    view = Git(at).look()
    assert view.status is not None
    assert view.status.problem == ""
    assert (view.status.branch, view.status.changes) == (branch, CHANGED.status.changes)  # type: ignore[union-attr]
    assert view.files == FILES


def test_a_bare_repository_has_no_files_to_show(pond: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", "--bare", str(pond), "bare")
    assert Git(tmp_path / "bare").look() == GitView()


LENT = ("refs", "packed-refs", "refs/heads/main", "sharedindex")


@pytest.mark.parametrize("how", LENT)
def test_a_directory_cannot_show_the_refs_or_the_index_of_another(
    pond: Path, tmp_path: Path, how: str
) -> None:
    other = ordinary(tmp_path / "strange")
    (pond / "merger.txt").write_text("secret\n")
    run_git(pond, "add", ".")
    run_git(pond, "commit", "-q", "-m", "secret")
    (other / ".git" / "objects" / "info" / "alternates").write_text(f"{pond}/.git/objects\n")
    if how == "packed-refs":
        run_git(pond, "pack-refs", "--all")
        (other / ".git" / "refs" / "heads" / "main").unlink()
    if how == "sharedindex":
        run_git(pond, "update-index", "--split-index")
        shutil.copy(pond / ".git" / "index", other / ".git" / "index")
        [shared] = (pond / ".git").glob("sharedindex.*")
        how = shared.name
    theirs = other / ".git" / how
    if theirs.is_dir():
        shutil.rmtree(theirs)
    theirs.unlink(missing_ok=True)
    theirs.symlink_to(pond / ".git" / how)
    view = Git(other).look()
    assert view.files is None
    assert view.status is not None
    assert "merger" not in str(view)
    assert view.status.problem.endswith(("is not a regular file", "or too much"))


@pytest.mark.parametrize("how", ["file", "link", "commondir", "index"])
def test_a_directory_cannot_show_the_repository_of_another(
    pond: Path, tmp_path: Path, how: str
) -> None:
    other = tmp_path / "strange"
    other.mkdir()
    if how == "file":
        (other / ".git").write_text(f"gitdir: {pond}/.git\n")
    elif how == "link":
        (other / ".git").symlink_to(pond / ".git")
    else:
        run_git(other, "init", "-q")
        if how == "commondir":
            (other / ".git" / "commondir").write_text(f"{pond}/.git\n")
        else:
            (other / ".git" / "index").symlink_to(pond / ".git" / "index")
    view = Git(other).look()
    assert view.files is None
    assert view.status is not None
    assert view.status.problem


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_repository_that_another_user_laid_around_ours_is_none(pond: Path) -> None:
    for path in (pond, pond / ".git"):
        os.chown(path, 65534, 65534)
    view = Git(pond / "src").look()
    assert view == GitView(status=GitStatus(problem="the repository belongs to another user"))


@pytest.mark.parametrize("name", HOLDING)
async def test_nothing_in_a_repository_holds_whoever_looks(tmp_path: Path, name: str) -> None:
    """Git itself would be given up after ten minutes here; the test ends long before."""
    planted = HOLDING[name](tmp_path)
    workspace = Workspace(planted.root, look_s=0.05, git_s=600)
    async with connect(workspace.app) as client:
        for _ in range(2):
            await workspace.refresh()
        await client.until(lambda: client.tree.at("/files").meta.summary != "0 files")
    await workspace.close()


async def test_what_is_late_is_not_known_yet_and_is_shown_when_it_comes(pond: Path) -> None:
    os.mkfifo(pond / "src" / ".gitignore")
    workspace = Workspace(pond, look_s=0, git_s=600)
    async with connect(workspace.app) as client:
        await workspace.refresh()
        await client.until(lambda: client.tree.child("git") is not None)
        assert client.tree.at("/git").meta.summary == "not known yet"
        assert client.tree.at("/files").properties["entries"] == ["src/", "README.md"]
        await asyncio.to_thread(_let_go, pond / "src" / ".gitignore")
        await client.until(lambda: client.tree.at("/git").properties.get("branch") == "main")
    await workspace.close()


def _let_go(pipe: Path) -> None:
    """Wait until somebody reads a pipe; then take it away, so that it is read once."""
    with pipe.open("w"):
        pipe.unlink()


def test_only_settings_that_say_how_to_read_are_taken() -> None:
    given = [
        ("core.filemode", "false"), ("core.autocrlf", "input"), ("core.fsmonitor", "true"),
        ("core.filemode", "!touch x"), ("branch.main.remote", "origin"),
        ("branch.main.remote", "ext::x y"), ("remote.origin.url", "ext::x"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("core.worktree", "/"), ("include.path", "x"), ("extensions.partialclone", "origin"),
    ]  # fmt: skip
    assert [name for name, _ in module.safe_settings(given)] == [
        "core.filemode", "core.autocrlf", "branch.main.remote", "remote.origin.fetch",
    ]  # fmt: skip


def test_a_name_cannot_break_out_of_the_configuration_that_git_is_given(
    root: Path, git: Run
) -> None:
    git("config", 'branch.a"] [core] fsmonitor = /bin/false [y "z.merge', "refs/heads/x")
    status = Git(root).look().status
    assert status == GitStatus("main")
