"""The directory as an app, as a hub and a model see it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.workspace.conftest import Git, wait_until_gone
from sightline.agent.toolbox import Bench, SessionRecords, Toolbox
from sightline.agent.workspace import Workspace
from sightline.agent.workspace.workspace import APP_ID
from sightline.context.ledger import Ledger, MemoShelf
from sightline.context.messages.parts import ToolCall
from sightline.errors import ActionError, InvalidInput
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.testing import Client, connect
from support.workspaces import workspace_app


@pytest.fixture
async def workspace(root: Path) -> AsyncIterator[Workspace]:
    made = Workspace(root)
    made.look()
    yield made
    await made.close()


@pytest.fixture
async def client(workspace: Workspace) -> AsyncIterator[Client]:
    async with connect(workspace.app) as connected:
        yield connected


async def test_the_tree_is_small_and_says_what_is_there(client: Client) -> None:
    assert format_tree(client.tree) == (
        "[root] workspace: project  actions: {read(path: string, start: integer, lines: integer), "
        "search(query: string, glob: string, ignore_case: boolean, limit: integer), "
        "edit(path: string, old: string, new: string, every: boolean), "
        "create(path: string, content: string, overwrite: boolean), "
        "move(path: string, to: string), delete(path: string), edit_many(edits: array), "
        "run(command: string, timeout_s: number)}\n"
        '  [collection] files (entries=["src/","README.md"])  — "2 files"\n'
        "    (2 children not loaded)"
    )
    dangerous = {item.action for item in client.tree.affordances if item.dangerous}
    assert dangerous == {"edit", "create", "move", "delete", "edit_many", "run"}


@pytest.mark.usefixtures("git")
async def test_git_is_shown_where_there_is_a_repository(root: Path) -> None:
    (root / "README.md").write_text("changed")
    async with connect(workspace_app(root)) as client:
        assert format_tree(client.tree.at("/git")) == (
            '[status] git (branch="main")  — "1 changed file"\n'
            '  [item] README.md (status="modified",staged=false)'.replace(",", ", ")
        )


async def test_files_are_made_when_a_query_asks(client: Client) -> None:
    files = await client.query("/files")
    assert [child.id for child in files.children] == ["src", "README.md"]
    assert files.children[0].is_lazy
    source = await client.query("/files/src")
    [app] = source.children
    assert app.type == "document"
    assert app.properties == {"size": 31}
    assert app.content_ref is not None
    assert app.content_ref.uri == "slop://content/files/src/app.py"
    assert app.content_ref.mime == "text/x-python"
    assert [item.action for item in app.affordances] == ["read_content"]


async def test_a_files_content_is_read_by_its_reference(client: Client) -> None:
    answer = await client.invoke("/files/src/app.py", "read_content")
    assert answer["content"] == "def duck():\n    return 'quack'\n"
    with pytest.raises(ActionError, match="does not offer"):
        await client.invoke("/files/src", "read_content")


async def test_the_deepest_files_that_are_listed_can_be_read(root: Path) -> None:
    deep = root.joinpath(*["d"] * 12)
    deep.mkdir(parents=True)
    (deep / "x").write_text("bottom")
    async with connect(workspace_app(root)) as client:
        answer = await client.invoke("/files" + "/d" * 12 + "/x", "read_content")
        assert answer["content"] == "bottom"


async def test_a_directory_with_many_files_comes_in_parts(root: Path) -> None:
    for number in range(120):
        (root / f"f{number:03}").touch()
    async with connect(workspace_app(root)) as client:
        part = await client.query("/files", window=(100, 5))
        assert [child.id for child in part.children] == [
            f"f{number:03}" for number in range(98, 103)
        ]
        assert part.meta.total_children == 122
        assert (await client.query("/files/f119")).id == "f119"


async def test_reading_and_searching(client: Client) -> None:
    answer = await client.invoke("/", "read", path="README.md", start=2)
    assert answer == {"path": "README.md", "lines": "2-2", "of": 2, "content": "They swim.\n"}
    answer = await client.invoke("/", "search", query="quack")
    assert answer["matches"] == "src/app.py:2: return 'quack'\n"
    with pytest.raises(ActionError, match="cannot leave the workspace"):
        await client.invoke("/", "read", path="../secret.txt")


async def test_an_edit_is_seen_at_once(root: Path, git: Git) -> None:
    git("status")
    async with connect(workspace_app(root)) as client:
        answer = await client.invoke("/", "edit", path="README.md", old="swim", new="fly")
        assert "-They swim.\n+They fly.\n" in answer["diff"]
        assert [item.id for item in client.tree.at("/git").children] == ["README.md"]
        await client.invoke("/", "create", path="docs/new.md", content="hi\n")
        assert (root / "docs/new.md").read_text() == "hi\n"
        assert client.tree.at("/files").properties["entries"] == ["docs/", "src/", "README.md"]
        many = [{"path": "docs/new.md", "to": "NEW.md"}, {"path": "README.md", "delete": True}]
        answer = await client.invoke("/", "edit_many", edits=many)
        assert answer["paths"] == ["docs/new.md", "NEW.md", "README.md"]
        with pytest.raises(ActionError, match="there is no such file"):
            await client.invoke("/", "edit_many", edits=[{"path": "new", "content": "x"}, many[1]])
        assert sorted(path.name for path in root.iterdir()) == [".git", "NEW.md", "docs", "src"]


async def test_what_others_change_is_seen_after_a_refresh(
    workspace: Workspace, client: Client, root: Path
) -> None:
    (root / "new.txt").write_text("x")
    await workspace.refresh()
    await client.until(lambda: "new.txt" in client.tree.at("/files").properties["entries"])


async def test_a_command_answers_with_its_output_and_is_listed(client: Client) -> None:
    answer = await client.invoke("/", "run", command="echo hi; exit 2")
    assert answer.pop("seconds") >= 0
    assert answer == {"exit_code": 2, "output": "hi\n"}
    [run] = client.tree.at("/runs").children
    assert run.properties == {"label": "echo hi; exit 2", "status": "exited", "exit_code": 2}
    content = await client.invoke(f"/runs/{run.id}", "read_content")
    assert content["content"] == "hi\n"


async def test_a_command_that_fails_says_which_variable_it_was_not_given(root: Path) -> None:
    env = {"PATH": os.environ["PATH"], "WORK_KEY": "a-key-for-work", "OTHER": "x"}
    for also in ((), ("WORK_KEY",)):
        workspace = Workspace(root, env=env, also_passed=also)
        async with connect(workspace.app) as client:
            failed = await client.invoke("/", "run", command='test "$WORK_KEY" = a-key-for-work')
            assert failed["exit_code"] == (0 if also else 1)
            note = "" if also else "`WORK_KEY` was withheld: `workspace.env` adds it"
            assert failed.get("note", "") == note
        await workspace.close()


async def test_a_command_that_takes_long_goes_on_and_can_be_waited_for(root: Path) -> None:
    said: list[str] = []
    workspace = Workspace(root, wait_s=0.01, tell=said.append)
    async with connect(workspace.app) as client:
        command = "echo first; while [ ! -e gate ]; do sleep 0.02; done; echo through"
        answer = await client.invoke("/", "run", command=command)
        assert (answer["run"], answer["status"]) == ("run-1", "running")
        # What it says is shown as it comes, and can be read.
        await client.until(lambda: _run(client).properties.get("latest") == "first")
        assert [item.action for item in _run(client).affordances] == [
            "wait",
            "stop",
            "read_content",
        ]
        so_far = await client.invoke("/runs/run-1", "read_content")
        assert so_far["content"] == "first\n"
        answer = await client.invoke("/runs/run-1", "wait", seconds=0.01)
        assert (answer["status"], answer["output"]) == ("running", "first\n")
        waiting = asyncio.create_task(client.invoke("/runs/run-1", "wait"))
        await client.until(lambda: _run(client).properties["awaited"])
        (root / "gate").touch()
        answer = await waiting
        assert (answer["exit_code"], answer["output"]) == (0, "first\nthrough\n")
        assert [item.action for item in _run(client).affordances] == ["read_content"]
        assert not said  # whoever waited knows
    await workspace.close()


async def test_a_command_that_ends_when_nobody_waits_is_told(root: Path) -> None:
    said: list[str] = []
    workspace = Workspace(root, wait_s=0.01, tell=said.append)
    async with connect(workspace.app) as client:
        await client.invoke("/", "run", command="while [ ! -e gate ]; do sleep 0.02; done; exit 3")
        (root / "gate").touch()
        await client.until(lambda: _run(client).properties["status"] == "exited")
        # Who comes too late to wait still gets the result.
        assert _run(client).properties["unread"]
        answer = await client.invoke("/runs/run-1", "wait")
        assert answer["exit_code"] == 3
        assert "unread" not in _run(client).properties
    await workspace.close()
    [line] = said
    assert re.fullmatch(r"run-1 ended with exit code 3 after \d+ s: while \[ ! .*", line)


async def test_a_command_is_stopped_with_all_that_it_started(root: Path) -> None:
    workspace = Workspace(root, wait_s=0.01)
    async with connect(workspace.app) as client:
        command = "sleep 1000 & echo $! > tmp; mv tmp pid; wait"
        await client.invoke("/", "run", command=command)
        while not (root / "pid").exists():
            await asyncio.sleep(0)
        answer = await client.invoke("/runs/run-1", "stop", by="by the user")
        assert re.fullmatch(r"stopped by the user after [\d.]+ s", answer["ended"])
        wait_until_gone(int((root / "pid").read_text()))
        with pytest.raises(ActionError, match="stop"):
            await client.invoke("/runs/run-1", "stop")
    await workspace.close()


async def test_what_runs_is_always_listed(root: Path) -> None:
    workspace = Workspace(root, wait_s=0.01)
    async with connect(workspace.app) as client:
        await client.invoke("/", "run", command="sleep 1000")
        for number in range(7):
            answer = await client.invoke("/", "run", command=f"exit {number}")
            if "run" in answer:
                await client.invoke(f"/runs/{answer['run']}", "wait")
        listed = [run.id for run in client.tree.at("/runs").children]
        assert listed == ["run-8", "run-7", "run-6", "run-5", "run-4", "run-1"]
    await workspace.close()


async def test_closing_ends_what_still_runs(root: Path) -> None:
    workspace = Workspace(root, wait_s=0.01)
    pid = root / "pid"
    async with connect(workspace.app) as client:
        command = f"echo $$ > tmp; mv tmp {pid}; while :; do sleep 1000; done"
        await client.invoke("/", "run", command=command)
        while not pid.exists():
            await asyncio.sleep(0)
        await workspace.close()
    wait_until_gone(int(pid.read_text()))


def _run(client: Client) -> Node:
    return client.tree.at("/runs/run-1")


async def test_changes_are_noticed_where_watchfiles_is_installed(
    workspace: Workspace, client: Client, root: Path
) -> None:
    watching = asyncio.create_task(workspace.watch())
    seen = client.until(lambda: "new.txt" in client.tree.at("/files").properties["entries"])
    writing = asyncio.create_task(_touch_until_cancelled(root / "new.txt"))
    try:
        await asyncio.wait_for(seen, 30)
    finally:
        for task in (watching, writing):
            task.cancel()
        await asyncio.gather(watching, writing, return_exceptions=True)


async def _touch_until_cancelled(path: Path) -> None:
    """The watch begins when it begins; what changes before that is not noticed."""
    for number in range(10**6):
        path.write_text(str(number))
        await asyncio.sleep(0.05)


def test_what_is_no_directory_is_no_workspace(root: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        Workspace(root / "none")
    with pytest.raises(InvalidInput, match="Not a directory"):
        Workspace(root / "README.md")


async def test_a_model_works_on_it_through_its_tools(workspace: Workspace, tmp_path: Path) -> None:
    with Ledger(tmp_path / "x.db") as ledger:
        session = ledger.sessions.create("x")
        async with Hub() as hub:
            hub.add(APP_ID, workspace.dial, own=True)
            records = SessionRecords(ledger, session.id, MemoShelf({"project": ledger.memos}))
            toolbox = Toolbox(Bench(hub, records))

            async def call(tool: str, **arguments: Any) -> str:
                ran = await toolbox.run(ToolCall("c", tool, {"app": APP_ID, **arguments}))
                return ran.content

            listed = await call("slop_query", path="/files/src")
            assert "[document] app.py (size=31)" in listed
            read = await call("slop_invoke", path="/", action="read", params={"path": "src/app.py"})
            assert read.endswith("content:\ndef duck():\n    return 'quack'\n")
            params = {"path": "src/app.py", "old": "'quack'", "new": "'moo'"}
            edited = await call("slop_invoke", path="/", action="edit", params=params)
            assert "+    return 'moo'" in edited
            refused = await call(
                "slop_invoke", path="/", action="read", params={"path": "../secret.txt"}
            )
            assert refused.startswith("Not done. The app says unauthorized: ../secret.txt")
