"""A turn and the commands that it starts: waited for, left to go on, stopped with it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import check_ledger, ended, hosted, invoke, messages, of_kind, turn
from agent.workspace.conftest import wait_until_gone
from agent.workspace.test_sandbox import needs_sandbox
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.cli.commands.runs import listed_runs
from sightline.config import AppSettings
from sightline.config.settings import WorkspaceSettings
from sightline.context.messages.parts import ToolCall
from sightline.events import ApprovalAnswered, ApprovalAsked, CallFinished, HostEvent, Noticed

# It notes where it can be found, and says something, before it waits without end.
ENDLESS = "sleep 1000 & echo $! > child; echo $$ > tmp; mv tmp pid; echo begun; wait"
GATE = "echo begun; while [ ! -e gate ]; do sleep 0.02; done; echo through"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@asynccontextmanager
async def at_work(
    project: Path, script: list[Any], **workspace: Any
) -> AsyncIterator[tuple[Host, ScriptedModel]]:
    # In a sandbox a process has another number than outside.
    chosen = WorkspaceSettings(**{"sandbox": "off", **workspace})
    apps = AppSettings(discover=False)
    async with hosted(project.parent, script, apps=apps, workspace=chosen) as found:
        yield found


def run(command: str) -> ToolCall:
    return invoke("c1", "/", "run", app="workspace", command=command)


async def stopped_when(host: Host, at: str) -> list[HostEvent]:
    """Ask, agree to what is asked, and cancel when the command says something, or at once."""
    events: list[HostEvent] = []

    async def cancel() -> None:
        async for world in host.hub.changes():
            runs = listed_runs(world)
            if runs and runs[0].latest == "begun":
                host.cancel()
                break

    watching = asyncio.create_task(cancel()) if at == "output" else None
    async for event in host.ask("go"):
        events.append(event)
        if isinstance(event, ApprovalAsked):
            host.answer(event.call_id, approved=True)
        if isinstance(event, ApprovalAnswered) and at == "once":
            host.cancel()
    if watching is not None:
        await watching
    return events


async def test_stopping_a_turn_ends_its_command_and_keeps_what_it_said(project: Path) -> None:
    async with at_work(project, [run(ENDLESS), "Too late."]) as (host, model):
        events = await stopped_when(host, "output")
        for name in ("pid", "child"):
            wait_until_gone(int((project / name).read_text()))
        assert ended(events).outcome == "cancelled"
        [finished] = of_kind(events, CallFinished)
        assert "stopped by the user after" in finished.content
        assert finished.content.endswith("output:\nbegun\n")
        assert len(model.requests) == 1
    assert messages(project.parent)[-1].tool_results[0].content == finished.content
    check_ledger(project.parent)


async def test_a_command_that_has_hardly_begun_is_ended_too(project: Path) -> None:
    async with at_work(project, [run(ENDLESS)]) as (host, _):
        events = await stopped_when(host, "once")
        assert ended(events).outcome == "cancelled"
        [finished] = of_kind(events, CallFinished)
        assert "not run" in finished.content or "stopped by the user" in finished.content
        if (project / "pid").exists():
            wait_until_gone(int((project / "pid").read_text()))
    check_ledger(project.parent)


async def test_a_turn_goes_on_without_a_command_that_takes_long_or_waits_for_it_again(
    project: Path,
) -> None:
    wait = invoke("c2", "/runs/run-1", "wait", app="workspace", seconds=3600)
    async with at_work(project, [run(GATE), wait, "Done."], wait_s=0.01) as (host, model):
        events: list[HostEvent] = []
        async for event in host.ask("go"):
            events.append(event)
            if isinstance(event, ApprovalAsked):
                host.answer(event.call_id, approved=True)
            if isinstance(event, CallFinished):
                (project / "gate").touch()
        first, second = of_kind(events, CallFinished)
        assert '"status":"running"' in first.content
        assert second.content.endswith("output:\nbegun\nthrough\n")
        assert len(of_kind(events, ApprovalAsked)) == 1  # it was asked about when it began
        assert "run-1" in model.requests[1].data.decode().rpartition("slop-state")[0]


async def test_a_command_that_ends_between_two_turns_is_told_and_seen_in_the_next(
    project: Path,
) -> None:
    async with at_work(project, [run(GATE), "It runs.", "It ended."], wait_s=0.01) as (host, model):
        await turn(host, answer=lambda _: True)
        seen = asyncio.create_task(_first_notice(host))
        await asyncio.sleep(0)
        (project / "gate").touch()
        notice = await seen
        assert notice.code == "run_ended"
        assert notice.message.startswith("run-1 ended with exit code 0 after ")
        assert len(model.requests) == 2  # nobody is asked, and nothing spent, for that
        await turn(host)
    assert 'status=\\"exited\\"' in model.requests[2].data.decode()


async def _first_notice(host: Host) -> Noticed:
    async for event in host.events():
        if isinstance(event, Noticed):
            return event
    raise AssertionError("the host has ended")


def network(call_id: str, port: int, **params: Any) -> ToolCall:
    command = f"python3 connect.py {port}"
    return invoke(call_id, "/", "run", app="workspace", command=command, **params)


@needs_sandbox
async def test_a_command_is_given_the_network_once_or_by_a_rule(project: Path) -> None:
    program = 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))'
    (project / "connect.py").write_text(program)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = [
            network("c1", port), network("c2", port), network("c3", port, network=True), "Done.",
        ]  # fmt: skip
        async with at_work(project, script, sandbox="require") as (host, _):
            asked: list[str] = []
            events: list[HostEvent] = []
            async for event in host.ask("go"):
                events.append(event)
                if not isinstance(event, ApprovalAsked):
                    continue
                asked.append(event.call_id)
                assert event.no_network
                if event.call_id == "c1":
                    host.answer("c1", True, params={**event.params, "network": True})
                else:
                    with_network = [rule.endswith(", with network") for rule in event.rules]
                    assert with_network == [False, True]
                    host.answer(event.call_id, True, remember=2)
            # Once is once: the second is asked about again. The third has a rule.
            assert asked == ["c1", "c2"]
            contents = [call.content for call in of_kind(events, CallFinished)]
            assert all('"exit_code":0' in content for content in contents)
            told = 'The user changed the parameters before it ran: to {"network":true}.\n'
            assert [content.startswith(told) for content in contents] == [True, True, False]
            assert [rule.network for rule in host.rules] == [True]


async def test_an_edit_with_other_parameters_is_shown_before_it_is_done(project: Path) -> None:
    file = {"path": "a.txt", "content": "one"}
    async with at_work(project, [invoke("c1", "/", "create", app="workspace", **file), "ok"]) as (
        host,
        _,
    ):
        diffs: list[str] = []
        async for event in host.ask("go"):
            if isinstance(event, ApprovalAsked):
                diffs.append(event.diff)
                other = {**file, "content": "two"} if len(diffs) == 1 else None
                host.answer("c1", True, params=other)
        assert ["+one" in diff for diff in diffs] == [True, False]
    assert (project / "a.txt").read_text() == "two"
