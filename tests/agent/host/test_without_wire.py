"""The wire file can be deleted at any point of a conversation, which goes on as if it were there.

What is missing then: requests that were sent before, to look at, replay and ask what-if of.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import check_ledger, ended, hosted, invoke, messages, statuses, turn
from agent.host.test_recovery import became, kill_in
from sightline.agent.host import Host
from sightline.agent.host.journal import Journal
from sightline.agent.models.scripted import Reply, ScriptedModel
from sightline.context.dialects.events import Usage
from sightline.context.ledger import Ledger
from sightline.errors import NotFound, SessionBusy
from sightline.events import ApprovalAsked, HostEvent
from sightline.inspector.reader import RecordReader
from support.live import LiveApp

STRATEGY = """
def on_context_build(ctx):
    ctx.slots.add("talk", ctx.history.groups(50))
    ctx.slots.add("input", ctx.input)
    ctx.state["requests"] = ctx.state.get("requests", 0) + 1
    ctx.slots.add("count", f"request {ctx.state['requests']}", stability="volatile")
"""
# How the vendor counts is learnt and kept: the second program's estimates come of the first's.
COUNTED = Usage(input_tokens=5_000, output_tokens=9)


def script() -> list[Any]:
    return [
        "One.",
        Reply(text="Two.", usage=COUNTED),
        ["May I?", invoke("c1", "/", "count")],
        "Counted.",
    ]


def delete_wire(directory: Path) -> None:
    for path in directory.glob("work.wire*"):
        path.unlink()


class Point:
    """Deletes the wire file at the n-th event that is told."""

    def __init__(self, directory: Path, number: int) -> None:
        self._directory = directory
        self._number = number
        self.told = 0

    def event(self) -> None:
        self.told += 1
        if self.told == self._number:
            delete_wire(self._directory)


@contextlib.asynccontextmanager
async def opened(directory: Path, model: ScriptedModel, session: int | None) -> AsyncIterator[Host]:
    strategy = directory / "counting.py"
    strategy.write_text(STRATEGY, encoding="utf-8")
    app = LiveApp()
    async with hosted(
        directory, model, app=app, session=session, mode="ask", strategy=str(strategy)
    ) as (host, _):
        yield host


async def say(host: Host, text: str, point: Point) -> list[HostEvent]:
    events: list[HostEvent] = []
    async for event in host.ask(text):
        events.append(event)
        point.event()
        if isinstance(event, ApprovalAsked):
            host.answer(event.call_id, approved=True)
    return events


async def converse(directory: Path, number: int = 0) -> tuple[list[str], int]:
    """Two programs, three turns, a fold and a call; what was sent, and how much was told."""
    model, point = ScriptedModel(script()), Point(directory, number)
    async with opened(directory, model, None) as host:
        await say(host, "alpaca", point)
        await say(host, "second", point)
        assert await host.compact()
        point.event()
        uuid = host.session.uuid
    point.event()
    async with opened(directory, model, 1) as host:
        assert ended(await say(host, "third", point)).text == "Counted."
        assert host.session.uuid == uuid
    return [request.data.decode().replace(uuid, "UUID") for request in model.requests], point.told


async def test_a_conversation_goes_on_wherever_the_wire_file_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    wanted, told = await converse(tmp_path / "whole")
    assert "request 4" in wanted[-1]
    assert "alpaca" not in wanted[-1], "it was folded away"
    said, ends = messages(tmp_path / "whole"), statuses(tmp_path / "whole")
    for number in range(1, told + 1):
        directory = tmp_path / str(number)
        directory.mkdir()
        sent, _ = await converse(directory, number)
        assert sent == wanted, f"deleted at event {number}"
        assert (messages(directory), statuses(directory)) == (said, ends)
        check_ledger(directory)


async def test_only_requests_sent_before_are_missing(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["one", "two", "three"]) as (host, _):
        await turn(host, "first")
        delete_wire(tmp_path)
        await turn(host, "second")
        with Ledger(tmp_path / "work.db", mode="read") as ledger:
            reader = RecordReader(ledger)
            turns = reader.turns(1)["turns"]
            assert [item["status"] for item in turns] == ["answered", "answered"]
            assert [item["requests"] for item in turns] == [0, 1], "as many as can be looked at"
            assert all(item["prompt_tokens"] for item in turns)
            assert len(ledger.accounts.receipts(1)) == 2
            with pytest.raises(NotFound):
                reader.request(1, 1, 1)
            with pytest.raises(NotFound):
                reader.what_if(1, 1, 1, b"{}")
            assert reader.request(1, 2, 1)["model"]
            delete_wire(tmp_path)
            await turn(host, "third")
            with pytest.raises(NotFound):
                reader.request(1, 2, 1)
            assert reader.request(1, 3, 1)["model"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("streaming", "the beginning of a reply is kept as incomplete"),
        ("calling", "2 open calls"),
        ("approval", "1 open call "),
        ("building", ""),
    ],
)
async def test_what_a_killed_program_left_is_closed_without_its_wire_file(
    tmp_path: Path, where: str, found: str
) -> None:
    kill_in(tmp_path, where)
    delete_wire(tmp_path)
    assert became(tmp_path) == ["interrupted"]
    async with hosted(tmp_path, ["I am back."], session=1) as (host, model):
        events = await turn(host, "where were we?")
        assert ended(events).text == "I am back."
        notices = [str(getattr(event, "message", "")) for event in events]
        assert any(found in text for text in notices)
        sent = model.requests[0].data.decode()
    wanted = {
        "streaming": "I was about", "calling": "while it ran",
        "approval": "while it waited for approval", "building": "please",
    }  # fmt: skip
    assert wanted[where] in sent
    assert list(tmp_path.glob("*.lock")) == []
    check_ledger(tmp_path)


async def test_a_session_in_use_is_in_use_without_the_wire_file(tmp_path: Path) -> None:
    script = [["May I?", invoke("c1", "/", "count")], "done"]
    async with hosted(tmp_path, script, app=LiveApp(), mode="ask") as (host, _):
        async for event in host.ask("count"):
            if isinstance(event, ApprovalAsked):
                delete_wire(tmp_path)
                async with hosted(tmp_path, ["two"], session=1) as (other, _):
                    with pytest.raises(SessionBusy):
                        await turn(other, "me too")
                host.answer(event.call_id, approved=True)
    check_ledger(tmp_path)


def test_a_log_that_a_deleted_file_left_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "work.wire.db-wal").write_bytes(os.urandom(4096))
    journal = Journal(tmp_path / "work.db")
    assert journal.requests(1) == []
    journal.close()
