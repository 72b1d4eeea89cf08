"""What is said of a turn is what became of it: on the page and in `sightline context`."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from agent.host.helpers import ended, hosted, invoke, turn
from sightline.agent.host.journal import RequestLine
from sightline.agent.host.status import status_of
from sightline.agent.models.scripted import Cut, Reply, ScriptedModel
from sightline.cli.context import context
from sightline.config import LimitSettings
from sightline.context.ledger import Ledger
from sightline.context.ledger.work import Hold, Owner, hold_on
from sightline.context.messages.parts import ToolCall
from sightline.errors import ModelFailed
from sightline.events import ApprovalAsked
from sightline.inspector.reader import RecordReader
from support.live import LiveApp

LOOK = ToolCall("c1", "describe_db", {})


def on_the_page(directory: Path) -> list[str]:
    with Ledger(directory / "work.db", mode="read") as ledger:
        return [item["status"] for item in RecordReader(ledger).turns(1)["turns"]]


def in_context(directory: Path, *options: str) -> list[str]:
    result = CliRunner().invoke(context, ["1", "--db", str(directory / "work.db"), *options])
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.parametrize(
    ("script", "status", "told"),
    [
        (["Done."], "answered", "answered"),
        ([LOOK], "limit", "limit (rounds)"),
        ([Reply(text="So", reason="length")], "limit", "limit (length)"),
        ([Reply(text="No.", reason="refused")], "failed", "failed (refused)"),
        ([Cut("I was ")], "failed", "failed (incomplete)"),
        ([ModelFailed("no such model")], "failed", "failed (model_failed)"),
    ],
)
async def test_every_end_of_a_turn_has_its_word(
    tmp_path: Path, script: list[Any], status: str, told: str
) -> None:
    async with hosted(tmp_path, script, limits=LimitSettings(rounds=1)) as (host, _):
        events = await turn(host)
        assert ended(events).outcome == status
        assert on_the_page(tmp_path) == [status]
    [row] = in_context(tmp_path)[1:]
    assert f" bytes  {told}" in row


async def test_a_limit_before_a_request_is_sent_ends_the_turn_too(tmp_path: Path) -> None:
    limits = LimitSettings(turn_tokens=1)
    async with hosted(tmp_path, ["never"], limits=limits) as (host, model):
        await turn(host)
        assert model.requests == []
    assert on_the_page(tmp_path) == ["limit"]


async def test_a_turn_is_running_while_it_waits_and_cancelled_once_it_is(tmp_path: Path) -> None:
    script = ["One.", ["May I?", invoke("c1", "/", "count")]]
    async with hosted(tmp_path, script, app=LiveApp(), mode="ask") as (host, _):
        await turn(host)
        async for event in host.ask("count"):
            if isinstance(event, ApprovalAsked):
                assert on_the_page(tmp_path) == ["answered", "running"]
                assert "running" in in_context(tmp_path)[-1]
                host.cancel()
    assert on_the_page(tmp_path) == ["answered", "cancelled"]
    assert [json.loads(row)["status"] for row in in_context(tmp_path, "--json")] == [
        "answered",
        "cancelled",
    ]


async def test_the_requests_before_the_last_say_how_they_ended_themselves(tmp_path: Path) -> None:
    async with hosted(tmp_path, [LOOK, "Done."]) as (host, _):
        await turn(host)
    first, last = in_context(tmp_path)[1:]
    assert "bytes  tool_calls" in first
    assert "bytes  answered" in last


async def test_words_that_nothing_came_after_are_unanswered(tmp_path: Path) -> None:
    model = ScriptedModel(["Never."])
    async with hosted(tmp_path, model) as (host, _):
        async for event in host.ask("hi"):
            host.cancel()  # at the first event: before there is a request
            del event
    assert model.requests == []
    for path in tmp_path.glob("work.wire*"):
        path.unlink()
    assert on_the_page(tmp_path) == ["unanswered"]


@pytest.mark.parametrize(
    ("outcome", "hold", "status"),
    [
        ("", "alive", "running"),
        ("", "dead", "interrupted"),
        ("", "none", "interrupted"),
        ("tool_calls", "alive", "running"),
        ("tool_calls", "dead", "interrupted"),
        ("tool_calls", "none", "interrupted"),
        ("rate_limited", "alive", "running"),
        ("rate_limited", "dead", "interrupted"),
        ("rate_limited", "none", "failed"),
        ("end", "dead", "answered"),
        ("length", "none", "limit"),
        ("cancelled", "none", "cancelled"),
    ],
)
def test_without_a_word_on_its_end_the_last_request_and_the_owner_tell(
    outcome: str, hold: Hold, status: str
) -> None:
    assert status_of([line(outcome)], hold) == status


def line(outcome: str) -> RequestLine:
    return RequestLine(1, 1, 1, 1, 1, None, "", "m", "", 0, outcome, {})


async def test_an_old_journal_is_read_and_only_the_newest_turn_can_be_running(
    tmp_path: Path,
) -> None:
    async with hosted(tmp_path, ["One.", LOOK, "Two.", "Three."]) as (host, _):
        for text in ("first", "second", "third"):
            await turn(host, text)
    make_old(tmp_path, "end", "tool_calls", "end", "end")
    assert on_the_page(tmp_path) == ["answered"] * 3
    make_old(tmp_path, "", "tool_calls", "tool_calls", "")
    ledger = Ledger(tmp_path / "work.db")
    owner = Owner(ledger.work)
    owner.claim(1)
    assert on_the_page(tmp_path) == ["interrupted", "interrupted", "running"]
    owner.close()
    assert on_the_page(tmp_path) == ["interrupted"] * 3
    ledger.close()


def make_old(directory: Path, *outcomes: str) -> None:
    """Leave in a journal what one had before ends and beginnings were noted."""
    with apsw.Connection(str(directory / "work.wire.db")) as db:
        for row, outcome in enumerate(outcomes, start=1):
            db.execute(
                "UPDATE requests SET outcome = ?, timings = ? WHERE id = ?", (outcome, b"{}", row)
            )


def test_looking_keeps_nobody_from_a_session_that_its_owner_left(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "work.db")
    work, gone = ledger.work, "0" * 32
    assert hold_on(work, 1) == "none"
    work.claim(1, gone, instead_of="")
    lock = tmp_path / f"work.db-{gone}.lock"
    lock.touch()
    assert hold_on(work, 1) == "dead"
    assert lock.exists()
    with lock.open() as looked_at:
        fcntl.flock(looked_at, fcntl.LOCK_SH | fcntl.LOCK_NB)
        owner = Owner(work)
        assert owner.claim(1)
    assert not lock.exists()
    assert hold_on(work, 1) == "alive"
    owner.release(1)
    assert hold_on(work, 1) == "none"
    owner.close()
    ledger.close()


def test_a_program_of_before_the_ledger_named_owners_is_still_seen(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "work.db")
    name = "a" * 32
    ledger.work.claim(1, name, instead_of="")
    with (tmp_path / f"work.wire.db-{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert hold_on(ledger.work, 1) == "alive"
    assert hold_on(ledger.work, 1) == "dead"
    ledger.close()


def test_a_name_that_no_host_has_chooses_no_file_to_delete(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "work.db")
    (tmp_path / "work.db-x.lock").touch()
    for name in ("x", "../work.db", "/etc/passwd", "x.lock/../../work"):
        ledger.work.claim(1, name, instead_of=ledger.work.owner(1))
        assert hold_on(ledger.work, 1) == "dead"
        owner = Owner(ledger.work)
        assert owner.claim(1)
        owner.close()
    assert (tmp_path / "work.db-x.lock").exists()
    ledger.close()
