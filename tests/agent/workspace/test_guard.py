"""Git settings that sandboxed commands leave behind. Needs a bubblewrap that works."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.workspace.conftest import Git, as_nobody
from agent.workspace.test_sandbox import needs_sandbox
from sightline.agent.workspace import Workspace, guard
from sightline.agent.workspace.guard import Survey
from sightline.errors import ActionError, InvalidInput
from sightline.testing import Client, connect
from support.plants import PLANTS, Target, plant_in_sandbox, plant_plainly, use_git

# Each works in another way. The claim `repositories` runs all rows.
SHARE = (
    "a gitfile that leads to the temporary directory",
    "a hook of a new repository",
    "clean filter of a nested repository in the tracked folder sub, attributes in its info folder",
)
pytestmark = [
    pytest.mark.usefixtures("git"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox needs Linux"),
]
EVIL = "[core]\n\tfsmonitor = ./evil\n"
# In one step: a check beside the command finds all of the file or nothing.
PLANT = f"mkdir -p sub/.git; printf '{EVIL}' > made; mv made sub/.git/config; echo made; "


class Told(list[str]):
    """The notices that a workspace gave to its user."""


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def client(root: Path, told: Told) -> AsyncIterator[Client]:
    workspace = Workspace(root, sandbox="require", wait_s=30, tell=told.append)
    async with connect(workspace.app) as connected:
        yield connected
    await workspace.close()


async def run(client: Client, command: str, **params: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await client.invoke("/", "run", command=command, **params)
    return answer


def make_repository(path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(path)], check=True)


def inert_in(directory: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[0] for path in directory.glob("*.inert-*"))


def test_list_has_thirty_ways_of_which_a_quarter_is_from_a_blind_author() -> None:
    counted = [plant for plant in PLANTS if plant.works_unprotected]
    blind = [plant for plant in counted if plant.author == "blind"]
    assert len({plant.name for plant in counted}) >= 30
    assert len(blind) >= 8
    assert 4 * len(blind) >= 30
    assert set(SHARE) <= {plant.name for plant in counted}


@needs_sandbox
@pytest.mark.parametrize("name", SHARE)
async def test_planted_program_runs_only_without_the_guard(tmp_path: Path, name: str) -> None:
    [plant] = [plant for plant in PLANTS if plant.name == name]
    for place in (plain := tmp_path / "plain", guarded := tmp_path / "guarded"):
        place.mkdir()
    control = Target.create(plain)
    plant_plainly(plant, control)
    assert use_git(control)
    assert not await plant_in_sandbox(plant, Target.create(guarded))


@needs_sandbox
async def test_result_and_user_get_the_names_of_inert_settings(
    client: Client, root: Path, told: Told
) -> None:
    answer = await run(client, "git init -q sub && git -C sub config core.fsmonitor ./evil")
    [inert] = (root / "sub/.git").glob("config.inert-*")
    assert f"inert until `mv sub/.git/{inert.name} sub/.git/config`" in answer["note"]
    assert answer["note"] in told[0]
    assert "fsmonitor" in inert.read_text()
    # Without its settings it is a repository all the same.
    assert (await run(client, "git -C sub status"))["exit_code"] == 0


@needs_sandbox
async def test_new_repository_without_programs_stays_as_it_is(client: Client, root: Path) -> None:
    url = "https://example.org/a/b.git"
    answer = await run(
        client,
        f"git init -q sub && cd sub && git config user.name Ana && git remote add origin {url}"
        " && git config branch.main.remote origin && git config branch.main.merge refs/heads/main",
    )
    assert answer["note"] == "new repository: sub/.git"
    assert url in (root / "sub/.git/config").read_text()
    assert inert_in(root / "sub/.git") == []


@needs_sandbox
async def test_repository_of_before_gets_its_settings_back(client: Client, root: Path) -> None:
    make_repository(root / "sub")
    git_dir = root / "sub/.git"
    hook = git_dir / "hooks/pre-push"
    hook.write_text("#!/bin/sh\n\0binary\n")
    hook.chmod(0o750)
    config = (git_dir / "config").read_bytes()
    answer = await run(
        client,
        "cd sub && git config core.fsmonitor ./evil && echo ./evil >> .git/hooks/pre-push"
        " && echo x > x && git add x && git -c user.name=A -c user.email=a@b commit -qm x",
    )
    assert answer["note"].count("inert until") == 2
    assert (git_dir / "config").read_bytes() == config
    assert hook.read_bytes() == b"#!/bin/sh\n\0binary\n"
    assert hook.stat().st_mode & 0o777 == 0o750
    assert inert_in(git_dir) == ["config.inert"]
    assert (await run(client, "git -C sub log --format=%s"))["output"] == "x\n"


@needs_sandbox
async def test_branch_that_is_added_to_a_repository_of_before_stays(
    client: Client, root: Path
) -> None:
    make_repository(root / "sub")
    answer = await run(
        client,
        "cd sub && git config branch.b.remote origin && git config branch.b.merge refs/heads/b",
    )
    assert "note" not in answer
    assert '[branch "b"]' in (root / "sub/.git/config").read_text()
    # A second address would receive each push.
    await run(client, "cd sub && git remote add origin https://example.org/x")
    assert "example.org" not in (root / "sub/.git/config").read_text()


@needs_sandbox
@pytest.mark.parametrize("address", ["https://example.org/x", "ssh://example.org/x", "git@e.org:x"])
async def test_address_in_a_branch_of_a_repository_of_before_is_inert(
    client: Client, root: Path, address: str
) -> None:
    make_repository(root / "sub")
    # git-config(1), branch.<name>.remote: a name or a URL, which `git push` uses.
    answer = await run(client, f"git -C sub config branch.main.remote {address}")
    assert "inert until" in answer["note"]
    assert address not in (root / "sub/.git/config").read_text()


@needs_sandbox
async def test_settings_of_worktrees_and_modules_cannot_be_made_where_they_were_absent(
    client: Client, root: Path
) -> None:
    for name in ("modules", "worktrees"):
        assert (await run(client, f"mkdir -p .git/{name}/x"))["exit_code"] != 0
        assert list((root / ".git" / name).iterdir()) == []
    answer = await run(client, f"printf '{EVIL}' > .git/config.worktree")
    assert "config.worktree" in answer["note"]
    assert not (root / ".git/config.worktree").exists()


@needs_sandbox
@pytest.mark.parametrize("end", ["stopped", "timed out"])
async def test_command_that_does_not_end_by_itself_leaves_no_setting(
    root: Path, told: Told, end: str
) -> None:
    workspace = Workspace(root, sandbox="require", wait_s=0.01, tell=told.append)
    async with connect(workspace.app) as client:
        limit = {"timeout_s": 2} if end == "timed out" else {}
        await run(client, f"{PLANT} while :; do sleep 0.1; done", **limit)
        await client.until(lambda: "latest" in client.tree.at("/runs/run-1").properties)
        if end == "stopped":
            answer = await client.invoke("/runs/run-1", "stop")
        else:
            answer = await client.invoke("/runs/run-1", "wait", seconds=30)
    await workspace.close()
    assert end in answer["ended"]
    assert "inert until" in answer["note"]
    assert inert_in(root / "sub/.git") == ["config.inert"]
    assert not (root / "sub/.git/config").exists()


@needs_sandbox
async def test_command_in_the_background_is_checked_with_each_answer_and_at_its_end(
    root: Path, told: Told
) -> None:
    workspace = Workspace(root, sandbox="require", wait_s=0.01, tell=told.append)
    until = "while [ ! -e go ]; do sleep 0.05; done; "
    async with connect(workspace.app) as client:
        await run(client, PLANT + until + PLANT)
        await client.until(lambda: "latest" in client.tree.at("/runs/run-1").properties)
        answer = await client.invoke("/runs/run-1", "wait", seconds=0.01)
        assert answer["status"] == "running"
        assert inert_in(root / "sub/.git") == ["config.inert"]
        # A survey that begins with another command does not take these settings for old ones.
        await client.invoke("/", "run", command="touch go")
        await client.until(lambda: client.tree.at("/runs/run-1").properties["status"] == "exited")
    await workspace.close()
    assert inert_in(root / "sub/.git") == ["config.inert"] * 2
    # The check of either command can come first.
    assert sum(line.count("inert until") for line in told) == 2


@needs_sandbox
async def test_command_that_a_closing_workspace_ends_leaves_no_setting(
    root: Path, told: Told
) -> None:
    workspace = Workspace(root, sandbox="require", wait_s=0.01, tell=told.append)
    async with connect(workspace.app) as client:
        await run(client, f"{PLANT} while :; do sleep 0.1; done")
        await client.until(lambda: "latest" in client.tree.at("/runs/run-1").properties)
        await workspace.close()
    assert inert_in(root / "sub/.git") == ["config.inert"]
    assert "inert until" in told[-1]


@needs_sandbox
async def test_settings_that_replace_a_read_only_file_are_inert(
    root: Path, git: Git, told: Told
) -> None:
    # A file that another program replaces is no longer covered in a sandbox that runs.
    workspace = Workspace(root, sandbox="require", wait_s=0.01, tell=told.append)
    config = root / ".git/config"
    until = "echo ready; while [ ! -e go ]; do sleep 0.05; done; "
    async with connect(workspace.app) as client:
        await run(client, f"{until} printf '{EVIL}' >> .git/config")
        await client.until(lambda: "latest" in client.tree.at("/runs/run-1").properties)
        git("config", "branch.x.remote", "origin")
        before = config.read_text()
        (root / "go").touch()
        answer = await client.invoke("/runs/run-1", "wait", seconds=30)
    await workspace.close()
    assert answer["exit_code"] == 0, "the kernel kept the mount: this test is needed no more"
    assert "fsmonitor" not in config.read_text()
    assert before.startswith(config.read_text())
    assert "inert until" in answer["note"]


@needs_sandbox
async def test_directories_above_the_limit_run_no_command_or_are_renamed(
    client: Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = sum(1 for _ in os.walk(root))
    monkeypatch.setattr(guard, "MAX_DIRECTORIES", count + 10)
    many = "mkdir -p $(seq -f m/%g/sub/.git 30); for d in m/*/sub/.git; do echo x > $d/config; done"
    answer = await run(client, many)
    assert "too large" in answer["note"]
    live = [path for path in root.glob("**/.git/config") if "inert" not in str(path.parent)]
    assert live == [root / ".git/config"]
    assert (root / "src/app.py").exists()
    with pytest.raises(ActionError, match="too large"):
        await run(client, "true")


def test_deep_directory_is_renamed_and_deep_root_is_rejected(tmp_path: Path) -> None:
    before = Survey([tmp_path])
    above = os.open(tmp_path, os.O_RDONLY)
    for _ in range(230):
        os.mkdir("d", dir_fd=above)
        below = os.open("d", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    with pytest.raises(InvalidInput, match="too large"):
        Survey([tmp_path])
    assert "too large" in Survey([tmp_path], before).notice
    with pytest.raises(InvalidInput, match="too large"):
        Survey([tmp_path])


@pytest.mark.parametrize("mode", [0o000, 0o311, 0o555])
def test_directory_that_is_closed_to_its_owner_is_checked(mode: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        (root := Path(made)).chmod(0o777)
        with as_nobody():
            # prctl(2): PR_SET_DUMPABLE, which another effective user takes away, opens /proc/self.
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
            (closed := root / "closed").mkdir()
            before = Survey([root])
            (closed / "sub/.git").mkdir(parents=True)
            (closed / "sub/.git/config").write_text(EVIL)
            (closed / ".git").write_text("gitdir: /elsewhere\n")
            closed.chmod(mode)
            Survey([root], before)
            assert mode == 0o555 or closed.stat().st_mode & 0o777 == mode
            closed.chmod(0o755)
        assert inert_in(closed) == ["git.inert"]
        assert inert_in(closed / "sub/.git") == ["config.inert"]


@pytest.mark.parametrize("name", [".GIT", ".Git", ".g\u200dit", ".ｇｉｔ"])  # noqa: RUF001 - folded
def test_pointer_in_another_case_is_inert(tmp_path: Path, name: str) -> None:
    before = Survey([tmp_path])
    (tmp_path / name).write_text("gitdir: elsewhere\n")
    assert "inert until" in Survey([tmp_path], before).notice
    assert not (tmp_path / name).exists()


def test_pointer_of_before_that_leads_elsewhere_is_inert(tmp_path: Path) -> None:
    make_repository(tmp_path / "root/sub")
    (tmp_path / "root/sub/.git").rename(tmp_path / "root/store")
    (tmp_path / "root/sub/.git").write_text("gitdir: ../store\n")
    before = Survey([tmp_path / "root"])
    (tmp_path / "root/store").rename(tmp_path / "store")
    (tmp_path / "root/store").symlink_to(tmp_path / "store")
    Survey([tmp_path / "root"], before)
    assert not (tmp_path / "root/sub/.git").exists()
    assert len(inert_in(tmp_path / "root/sub")) == 2


def test_pointer_of_before_is_written_again_in_place_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/.git").symlink_to("/elsewhere")
    before = Survey([tmp_path])
    (tmp_path / "sub/.git").unlink()
    make_repository(tmp_path / "sub")
    (tmp_path / "sub/.git/config").write_text(EVIL)
    Survey([tmp_path], before)
    assert (tmp_path / "sub/.git").readlink() == Path("/elsewhere")
    [moved] = (tmp_path / "sub").glob("git.inert-*")
    assert inert_in(moved) == ["config.inert"]


def test_survey_follows_no_link_out_of_the_directory(tmp_path: Path) -> None:
    make_repository(other := tmp_path / "other")
    (root := tmp_path / "root").mkdir()
    before = Survey([root])
    (other / ".git/config").write_text(EVIL)
    (root / "link").symlink_to(other)
    assert Survey([root], before).notice == ""
    assert (other / ".git/config").read_text() == EVIL


def test_pipe_in_place_of_a_repository_is_inert(tmp_path: Path) -> None:
    before = Survey([tmp_path])
    fifo = tmp_path / ".git"
    os.mkfifo(fifo)
    assert "inert until" in Survey([tmp_path], before).notice
    assert not fifo.exists()
