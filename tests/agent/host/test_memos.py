"""Memos of a project and of the user: what a model saves in one place, it finds in the other."""

from __future__ import annotations

from pathlib import Path

from agent.host.helpers import hosted, turn
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import ToolCall


def memo(call_id: str, content: str, **more: str) -> ToolCall:
    return ToolCall(call_id, "save_memo", {"content": content, "tags": ["style"], **more})


async def test_what_is_saved_for_the_user_is_there_in_another_project(tmp_path: Path) -> None:
    own, here, there = tmp_path / "user.db", tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    both = [memo("c1", "Tabs in this project."), memo("c2", "Short answers.", shelf="user")]
    async with hosted(here, [both, "Noted.", "As you like."], user_ledger=own) as (host, model):
        await turn(host, "remember my style")
        await turn(host, "which style?")
    tail = model.requests[-1].data
    assert b"- memo 1 (style): Tabs in this project." in tail
    assert b"- memo u1 (style): Short answers." in tail
    async with hosted(there, ["As you like."], user_ledger=own) as (host, model):
        await turn(host, "which style?")
    assert b"- memo u1 (style): Short answers." in model.requests[0].data
    assert b"Tabs" not in model.requests[0].data
    with Ledger(own, mode="read") as ledger:
        assert [(one.id, one.content) for one in ledger.memos.recent()] == [(1, "Short answers.")]
        assert ledger.verify().ok


async def test_five_in_all_come_by_themselves_a_projects_before_the_users(tmp_path: Path) -> None:
    own = tmp_path / "user.db"
    async with hosted(tmp_path, ["Yes."], user_ledger=own) as (host, model):
        for number in range(4):
            host.memos.save(f"ours {number}", ["style"])
            host.memos.save(f"mine {number}", ["style"], "user")
        await turn(host, "which style?")
    sent = model.requests[0].data.decode()
    lines = [line for line in sent.split("\\n") if line.startswith("- memo")]
    assert [line.split()[2] for line in lines] == ["4", "3", "2", "1", "u4"]


async def test_a_ledger_that_is_the_users_own_is_one_shelf(tmp_path: Path) -> None:
    ledger = tmp_path / "work.db"
    calls = [memo("c1", "Tabs.", shelf="project"), memo("c2", "Short.", shelf="user")]
    async with hosted(tmp_path, [calls, "Noted."], user_ledger=ledger) as (host, _):
        await turn(host, "remember")
        assert host.memos.names == ("user",)
        assert [host.memos.reference(one) for one in host.memos.recent()] == ["2", "1"]


async def test_the_users_ledger_is_not_made_for_nothing(tmp_path: Path) -> None:
    own = tmp_path / "none" / "user.db"
    async with hosted(tmp_path, ["Hello."], user_ledger=own) as (host, _):
        await turn(host, "hello, which style?")
        assert host.memos.names == ("project", "user")
    assert not own.parent.exists()
