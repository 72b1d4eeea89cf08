"""What a command cannot do in a sandbox, and what it is told. Needs a bubblewrap that works."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent.workspace.conftest import Git
from sightline.agent.workspace import Workspace
from sightline.agent.workspace.sandbox import why_no_sandbox
from sightline.errors import InvalidInput
from sightline.testing import Client, connect

needs_sandbox = pytest.mark.skipif(bool(why_no_sandbox()), reason=f"no sandbox: {why_no_sandbox()}")


@pytest.fixture
async def client(root: Path) -> AsyncIterator[Client]:
    workspace = Workspace(root, sandbox="require")
    async with connect(workspace.app) as connected:
        yield connected
    await workspace.close()


async def run(client: Client, command: str, **params: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await client.invoke("/", "run", command=command, **params)
    return answer


@needs_sandbox
async def test_a_command_writes_in_the_workspace_and_in_a_temporary_directory_only(
    client: Client, root: Path
) -> None:
    name = root.parent.name
    answer = await run(client, f"echo x > new; echo y > /tmp/{name}; echo z > /var/tmp/{name}")
    assert answer["exit_code"] != 0
    assert "only the workspace and /tmp can be written" in answer["note"]
    assert (root / "new").read_text() == "x\n"
    assert not any(Path(place, name).exists() for place in ("/tmp", "/var/tmp"))  # noqa: S108
    # The temporary directory is one for all commands; TMPDIR is it.
    assert (await run(client, f'cat "$TMPDIR/{name}"'))["output"] == "y\n"


@needs_sandbox
async def test_a_command_sees_no_network_no_process_and_no_socket_of_others(client: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connects = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"
        assert (await run(client, connects))["exit_code"] != 0
        assert (await run(client, connects, network=True))["exit_code"] == 0
    answer = await run(client, "echo curl: Could not resolve host: example.org; exit 6")
    assert "`network: true` asks the user for it" in answer["note"]
    others = await run(client, f"ls /proc/{os.getpid()} /run/user; kill -0 {os.getpid()}")
    assert others["exit_code"] != 0
    assert "No such process" in others["output"]


@needs_sandbox
async def test_git_works_and_what_it_would_run_later_cannot_be_planted(
    client: Client, root: Path, git: Git
) -> None:
    before = (root / ".git/config").read_text()
    commit = "git -c user.name=A -c user.email=a@b commit -qam second && git log --format=%s"
    answer = await run(client, f"echo more >> README.md && {commit}")
    assert answer["output"] == "second\nfirst\n"
    for attempt in (
        "git config core.pager evil",
        "echo evil > .git/hooks/pre-commit",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "mv .git aside",
        "mv .git/hooks .git/other",
        "rm .git/config",
    ):
        assert (await run(client, attempt))["exit_code"] != 0, attempt
    assert "hooks nor config" in (await run(client, "git config a.b c"))["note"]
    assert (root / ".git/config").read_text() == before
    assert not (root / ".git/hooks/pre-commit").exists()
    (root / ".git/hooks").rename(root / ".git/gone")
    assert (await run(client, "mkdir -p .git/hooks && echo x > .git/hooks/y"))["exit_code"] != 0
    redirected = await run(client, "echo ../evil > .git/commondir")
    assert "inert until `mv .git/commondir.inert-" in redirected["note"]
    assert git("log", "--format=%s") == "second\nfirst\n"


@needs_sandbox
async def test_a_linked_worktree_can_commit(root: Path, tmp_path: Path, git: Git) -> None:
    beside = tmp_path / "beside"
    git("worktree", "add", "-q", str(beside))
    workspace = Workspace(beside, sandbox="require")
    async with connect(workspace.app) as client:
        commit = "git -c user.name=A -c user.email=a@b commit -q --allow-empty -m there"
        assert (await run(client, commit))["exit_code"] == 0
        for attempt in ("echo gitdir: x > .git", f"echo x > {root}/.git/config", "rm .git"):
            assert (await run(client, attempt))["exit_code"] != 0, attempt
    await workspace.close()


@needs_sandbox
async def test_stopping_leaves_nothing_of_it_running(root: Path) -> None:
    workspace = Workspace(root, sandbox="require", wait_s=0.01)
    nap = f"99999.{os.getpid()}"
    async with connect(workspace.app) as client:
        await run(client, f"trap '' TERM; setsid sleep {nap} & echo begun; wait")
        await client.until(lambda: "latest" in client.tree.at("/runs/run-1").properties)
        while not naps(nap):  # the last of them may have only just been forked
            await asyncio.sleep(0)
        answer = await client.invoke("/runs/run-1", "stop")
        assert answer["output"] == "begun\n"
        assert not naps(nap)
    await workspace.close()


def naps(nap: str) -> list[str]:
    """The processes that sleep for so long, by the numbers that they have outside."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end while we look
            if (process / "cmdline").read_bytes() == f"sleep\0{nap}\0".encode():
                found.append(process.name)
    return found


@needs_sandbox
async def test_it_says_that_it_is_one_and_may_be_told_of_more_to_write_to(
    root: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    workspace = Workspace(root, sandbox="require", writable=[more])
    async with connect(workspace.app) as client:
        action = next(item for item in client.tree.affordances if item.action == "run")
        assert "in a sandbox" in (action.description or "")
        assert (await run(client, f"echo x > {more}/x"))["exit_code"] == 0
    await workspace.close()


async def test_without_one_it_is_said_or_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(root))
    why_no_sandbox.cache_clear()
    try:
        with pytest.raises(InvalidInput, match="not installed"):
            Workspace(root, sandbox="require")
        workspace = Workspace(root, sandbox="auto")
        action = next(item for item in workspace.app.tree().affordances if item.action == "run")
        assert "no sandbox" in (action.description or "")
        await workspace.close()
    finally:
        why_no_sandbox.cache_clear()
