"""Killed in the middle of a turn: nothing acknowledged is lost, and the conversation goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from agent.host.helpers import check_ledger, ended, hosted, messages, of_kind, statuses, turn
from sightline.agent.host.journal import Journal
from sightline.agent.host.writing import recover
from sightline.context.ledger import Ledger
from sightline.context.ledger.work import OpenWork, Owner
from sightline.context.messages.parts import Draft, Message, ToolCall, ToolResult
from sightline.errors import SessionBusy
from sightline.events import Noticed
from sightline.inspector.reader import RecordReader
from support.live import command_of


def kill_in(directory: Path, where: str) -> None:
    """Run a host up to some point and kill it there."""
    process = subprocess.Popen(
        command_of("agent.host.killed", str(directory), where), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "there\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def became(directory: Path) -> list[str]:
    """What the inspector says of the turns."""
    with Ledger(directory / "work.db", mode="read") as ledger:
        return [turn["status"] for turn in RecordReader(ledger).turns(1)["turns"]]


def ends(directory: Path) -> list[str]:
    """How turns ended, as it was written down."""
    journal = Journal(directory / "work.db", read_only=True)
    found = [line.ended.outcome for line in journal.requests(1) if line.ended is not None]
    journal.close()
    return found


async def go_on(directory: Path) -> tuple[list[str], str]:
    """Open the session again and ask; return the notices and what the model was sent.

    While the journal knows of it, the turn that was killed is interrupted before and after.
    """
    journal_knows = (directory / "work.wire.db").exists()
    if journal_knows:
        assert became(directory) == ["interrupted"]
    async with hosted(directory, ["I am back."], session=1) as (host, model):
        events = await turn(host, "where were we?")
        assert ended(events).text == "I am back."
        told = [notice.message for notice in of_kind(events, Noticed)]
        if journal_knows:
            assert became(directory) == ["interrupted", "answered"]
            assert ends(directory) == ["interrupted", "answered"]
        return told, model.requests[0].data.decode()


async def test_killed_while_streaming(tmp_path: Path) -> None:
    kill_in(tmp_path, "streaming")
    [told], sent = await go_on(tmp_path)
    assert "kept as incomplete" in told
    assert "I was about" in sent
    assert statuses(tmp_path)[:4] == ["complete", "tool_call", "complete", "incomplete"]
    check_ledger(tmp_path)


async def test_killed_during_a_call(tmp_path: Path) -> None:
    kill_in(tmp_path, "calling")
    [told], sent = await go_on(tmp_path)
    assert "2 open calls" in told
    results = [m.tool_results[0] for m in messages(tmp_path) if m.role == "tool"]
    assert [result.call_id for result in results] == ["c0", "c1", "c2"]
    assert not results[0].is_error
    assert "while it ran" in results[1].content
    assert "unknown" in results[2].content
    assert "while it ran" in sent
    check_ledger(tmp_path)


async def test_killed_during_an_approval(tmp_path: Path) -> None:
    kill_in(tmp_path, "approval")
    [told], _ = await go_on(tmp_path)
    assert "1 open call " in told
    [result] = [m.tool_results[0] for m in messages(tmp_path) if m.role == "tool"]
    assert result.content == "error: not run (the program ended while it waited for approval)"
    check_ledger(tmp_path)


async def test_killed_before_the_first_word(tmp_path: Path) -> None:
    kill_in(tmp_path, "building")
    told, sent = await go_on(tmp_path)
    assert told == []
    assert "please" in sent
    check_ledger(tmp_path)
    assert list(tmp_path.glob("*.lock")) == []


async def test_without_its_journal_open_calls_are_closed_all_the_same(tmp_path: Path) -> None:
    kill_in(tmp_path, "approval")
    for path in tmp_path.glob("work.wire*"):
        path.unlink()
    [told], _ = await go_on(tmp_path)
    assert "1 open call " in told
    check_ledger(tmp_path)


async def test_a_session_in_use_is_left_alone(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["one"]) as (host, _):
        await turn(host, "first")
        number = host.session.id
    ledger = Ledger(tmp_path / "work.db")
    owner = Owner(ledger.work)
    assert not owner.claim(number)
    assert not owner.claim(number)
    async with hosted(tmp_path, ["two"], session=number) as (host, _):
        with pytest.raises(SessionBusy):
            await turn(host, "second")
        assert len(messages(tmp_path)) == 2
        owner.release(number)
        assert ended(await turn(host, "second")).text == "two"
    owner.close()
    ledger.close()


def draft(message: Message) -> Draft:
    return Draft(message, 1)


@pytest.fixture
def ledger(tmp_path: Path) -> object:
    with Ledger(tmp_path / "l.db") as ledger:
        yield ledger


def test_nothing_open_is_nothing_to_do(ledger: Ledger) -> None:
    session = ledger.sessions.create("s").id
    assert not recover(ledger, session, OpenWork(), draft)
    call = ToolCall("c1", "look")
    ledger.append(
        session,
        [
            Message.of("user", "hi"),
            Message("assistant", (call,)),
            Message("tool", (ToolResult("c1", "ok"),)),
        ],
        strategy="s",
    )
    assert not recover(ledger, session, OpenWork(), draft)


def test_a_reply_that_was_stored_after_all_is_not_stored_twice(ledger: Ledger) -> None:
    session = ledger.sessions.create("s").id
    [asked] = ledger.append(session, [Message.of("user", "hi")], strategy="s")
    work = OpenWork(asked.group_id, asked.seq, "s", text="Hel")
    ledger.append(session, [Message.of("assistant", "Hello")], strategy="s")
    assert not recover(ledger, session, work, draft)
    assert len(list(ledger.messages(session))) == 2


def test_recovering_twice_is_recovering_once(ledger: Ledger) -> None:
    session = ledger.sessions.create("s").id
    [asked] = ledger.append(session, [Message.of("user", "hi")], strategy="s")
    work = OpenWork(asked.group_id, asked.seq, "s", text="Hel", reasoning="hm")
    found = recover(ledger, session, work, draft)
    assert found.reply
    assert "incomplete" in str(found)
    assert not recover(ledger, session, work, draft)
    assert [entry.status for entry in ledger.messages(session)] == ["complete", "incomplete"]
