"""The current directory as one of the host's apps."""

from __future__ import annotations

from pathlib import Path

import pytest

from host.helpers import hosted, invoke, of_kind, turn
from sightline.config import AppSettings, PolicyRule
from sightline.events import ApprovalAsked, CallFinished

HERE = AppSettings(discover=False)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("the answer is 42\n")
    monkeypatch.chdir(project)
    return tmp_path


def read(call_id: str) -> object:
    return invoke(call_id, "/", "read", app="workspace", path="notes.txt")


def write(call_id: str) -> object:
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


async def test_what_is_approved_is_written(directory: Path) -> None:
    async with hosted(directory, [write("c1"), "done"], apps=HERE) as (host, _):
        [call] = of_kind(await turn(host, answer=lambda _: True), CallFinished)
        assert call.ok
    assert (directory / "project" / "new.txt").read_text() == "x"
