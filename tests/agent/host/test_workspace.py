"""The current directory as one of the host's apps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.host.helpers import hosted, invoke, of_kind, turn
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import AppSettings, PolicyRule, Settings
from sightline.context.messages.parts import ToolCall
from sightline.errors import InvalidInput
from sightline.events import ApprovalAsked, CallFinished
from sightline.slop.app.app import App
from sightline.slop.transports.unix import serve_unix
from support.impostors import Impostor, serves

HERE = AppSettings(discover=False)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("the answer is 42\n")
    monkeypatch.chdir(project)
    return tmp_path


def read(call_id: str) -> ToolCall:
    return invoke(call_id, "/", "read", app="workspace", path="notes.txt")


def write(call_id: str) -> ToolCall:
    return invoke(call_id, "/", "create", app="workspace", path="new.txt", content="x")


@pytest.mark.parametrize("mode", ["ask", "plan", "auto"])
async def test_reading_needs_no_approval_and_writing_does(directory: Path, mode: str) -> None:
    script = [[read("c1"), write("c2")], "42"]
    async with hosted(directory, script, apps=HERE, mode=mode) as (host, model):
        events = await turn(host, answer=lambda _: False)
        first, second = of_kind(events, CallFinished)
        assert "42" in first.content
        assert not second.ok
        assert len(of_kind(events, ApprovalAsked)) == (0 if mode == "plan" else 1)
        assert "notes.txt" in model.requests[-1].data.decode()
    assert not (directory / "project" / "new.txt").exists()


async def test_every_request_shows_the_files_that_are_there(directory: Path) -> None:
    async with hosted(directory, ["One.", "Two."], apps=HERE) as (host, model):
        await turn(host)
        (directory / "project" / "later.txt").touch()
        await turn(host)
    first, second = (str(request.body["messages"][-1]) for request in model.requests)
    assert "1 file" in first
    assert "notes.txt" in first
    assert "2 files" in second
    assert "later.txt" in second


async def test_a_rule_of_the_user_is_heard_about_reading_too(directory: Path) -> None:
    rules = (PolicyRule(app="workspace", action="read", decision="deny"),)
    async with hosted(directory, [read("c1"), "no"], apps=HERE, policy=rules) as (host, _):
        [call] = of_kind(await turn(host), CallFinished)
        assert not call.ok


QUERY = ToolCall("q1", "slop_query", {"app": "workspace", "path": "/files/notes.txt"})


@pytest.mark.parametrize("mode", ["ask", "plan", "auto"])
async def test_a_query_reads_the_content_of_what_may_be_read(directory: Path, mode: str) -> None:
    async with hosted(directory, [QUERY, "42"], apps=HERE, mode=mode) as (host, _):
        events = await turn(host)
        [call] = of_kind(events, CallFinished)
    assert call.content.endswith("Its content:\nthe answer is 42\n")
    assert not of_kind(events, ApprovalAsked)


async def test_a_query_reads_no_content_that_the_user_has_denied(directory: Path) -> None:
    rules = (PolicyRule(app="workspace", action="read_content", decision="deny"),)
    async with hosted(directory, [QUERY, "no"], apps=HERE, policy=rules) as (host, _):
        [call] = of_kind(await turn(host), CallFinished)
    assert "notes.txt" in call.content
    assert "42" not in call.content


async def test_what_is_approved_is_written(directory: Path) -> None:
    async with hosted(directory, [write("c1"), "done"], apps=HERE) as (host, _):
        [call] = of_kind(await turn(host, answer=lambda _: True), CallFinished)
        assert call.ok
    assert (directory / "project" / "new.txt").read_text() == "x"


def edit(call_id: str, old: str, new: str) -> ToolCall:
    return invoke(call_id, "/", "edit", app="workspace", path="notes.txt", old=old, new=new)


async def test_an_edit_is_asked_about_with_its_diff_and_one_that_fails_is_not(
    directory: Path,
) -> None:
    script = [[edit("c1", "no such", "x"), edit("c2", "42", "43")], "done"]
    async with hosted(directory, script, apps=HERE) as (host, _):
        events = await turn(host, answer=lambda _: True)
    [asked] = of_kind(events, ApprovalAsked)
    failed, done = of_kind(events, CallFinished)
    diff = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-the answer is 42\n+the answer is 43\n"
    assert (asked.call_id, asked.diff) == ("c2", diff)
    assert "not run (notes.txt: the passage is not in the file" in failed.content
    assert (done.ok, done.diff) == (True, diff)


async def test_what_is_done_is_the_diff_that_was_agreed_to(directory: Path) -> None:
    notes = directory / "project" / "notes.txt"
    asked: list[ApprovalAsked] = []

    def answer(event: ApprovalAsked) -> bool:
        asked.append(event)
        if len(asked) == 1:  # somebody else writes while the question stands there
            notes.write_text("theirs\nthe answer is 42\n")
        return True

    async with hosted(directory, [edit("c1", "42", "43"), "done"], apps=HERE) as (host, _):
        await turn(host, answer=answer)
    first, again = (event.diff for event in asked)
    assert "theirs" not in first
    assert " theirs\n" in again
    assert asked[1].differences == ("the files are not as they were: this is the diff as of now",)
    assert notes.read_text() == "theirs\nthe answer is 43\n"


async def test_several_edits_are_one_question_and_a_rule_must_fit_each_file(
    directory: Path,
) -> None:
    edits = [
        {"path": "notes.txt", "old": "42", "new": "43"},
        {"path": "lib/new.txt", "content": "x\n"},
    ]
    many = invoke("c1", "/", "edit_many", app="workspace", edits=edits)
    rules = (PolicyRule(app="workspace", action="edit_many", file="*.txt", decision="approve"),)
    async with hosted(directory, [many, "done"], apps=HERE, policy=rules) as (host, _):
        events = await turn(host, answer=lambda _: True)
    [asked] = of_kind(events, ApprovalAsked)
    assert asked.diff.count("@@ ") == 2
    assert asked.rules == ()  # no pattern that is offered fits both
    assert (directory / "project" / "lib" / "new.txt").read_text() == "x\n"


async def test_an_app_that_calls_itself_the_workspace_gets_nothing_of_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    air, wanted = directory / "air", Impostor("workspace", "project")
    air.mkdir(mode=0o700)
    (air / "workspace.json").touch(0o600)
    note = {"id": "workspace", "name": "project", "slop_version": "0.1"}
    place = {"type": "unix", "path": str(directory / "a.sock")}
    (air / "workspace.json").write_text(json.dumps({**note, "transport": place}))
    monkeypatch.setenv("SLOP_PROVIDERS", str(air))
    model = ScriptedModel([[read("c1"), write("c2")], "done"])
    async with (
        serve_unix(serves(wanted), directory / "a.sock") as address,
        Host.open(Settings(mode="auto"), model=model, ledger=directory / "own.db") as host,
    ):
        with pytest.raises(InvalidInput, match="kept for an app of the host's own"):
            await host.connect(address)
        first, second = of_kind(await turn(host, answer=lambda _: True), CallFinished)
        assert "42" in first.content
        assert second.ok
        assert str(host.hub.origin("workspace")) == "our own"
        assert [app.id for app in host.hub.world.apps] == ["workspace"]
    assert wanted.invoked == 0
    assert (directory / "project" / "new.txt").read_text() == "x"


async def test_trust_is_the_connections_and_not_the_words(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that somebody else filled: what sits there under our id is asked about."""
    app = App("desk", "Desk")
    app.action("/", "read")(lambda: "theirs")
    script = [invoke("c1", "/", "read", app="desk"), "no"]
    async with hosted(directory, script, app=app, app_id="desk", apps=HERE) as (host, _):
        with monkeypatch.context() as patch:
            patch.setattr(host._stage.workspace, "app", app)  # as if its id were one of our own
            events = await turn(host, answer=lambda _: False)
        assert len(of_kind(events, ApprovalAsked)) == 1
