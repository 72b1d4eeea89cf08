"""A full or failing disk: a clear error, nothing acknowledged, and work goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from context.ledger.disk import Disk
from sightline.context.ledger import Ledger
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.messages.parts import Message
from sightline.errors import LedgerUnavailable


@pytest.fixture
def disk() -> Iterator[Disk]:
    made = Disk("trouble")
    yield made
    made.unregister()


@pytest.fixture
def ledger(disk: Disk, tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "l.db", engine=partial(SqliteStore, vfs=disk.name)) as opened:
        yield opened
        disk.room = None


def say(ledger: Ledger, session_id: int, text: str) -> None:
    ledger.append(session_id, [Message.of("user", text)], strategy="s", key=text[:20])


def said(ledger: Ledger, session_id: int) -> list[str]:
    return [entry.message.text[:5] for entry in ledger.window(session_id)]


def test_a_full_disk_is_named_and_nothing_is_stored(ledger: Ledger, disk: Disk) -> None:
    session = ledger.sessions.create("s")
    say(ledger, session.id, "first")
    disk.room = 6000
    with pytest.raises(LedgerUnavailable, match="no space left"):
        say(ledger, session.id, "large" + "x" * 100_000)
    assert said(ledger, session.id) == ["first"]


def test_work_goes_on_when_space_returns(ledger: Ledger, disk: Disk) -> None:
    session = ledger.sessions.create("s")
    disk.room = 0
    for _ in range(3):
        with pytest.raises(LedgerUnavailable):
            say(ledger, session.id, "again")
    disk.room = None
    say(ledger, session.id, "again")
    say(ledger, session.id, "later")
    assert said(ledger, session.id) == ["again", "later"]
    assert ledger.verify().ok


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_an_input_output_error_is_no_acknowledgement(
    ledger: Ledger, disk: Disk, operation: str
) -> None:
    session = ledger.sessions.create("s")
    disk.failing = {operation}
    with pytest.raises(LedgerUnavailable, match="input/output error"):
        say(ledger, session.id, "first")
    disk.failing = set()
    say(ledger, session.id, "first")  # the retry, with the same key
    assert said(ledger, session.id) == ["first"]
    assert ledger.verify().ok


def test_a_failure_in_the_middle_of_an_operation_leaves_nothing_of_it(
    ledger: Ledger, disk: Disk
) -> None:
    session = ledger.sessions.create("s")
    for number in range(5):
        say(ledger, session.id, f"say {number}")
    before = said(ledger, session.id)
    disk.failing = {"write"}
    with pytest.raises(LedgerUnavailable):
        ledger.sessions.clone(session.id)
    with pytest.raises(LedgerUnavailable):
        ledger.groups.undo(session.id)
    disk.failing = set()
    assert said(ledger, session.id) == before
    assert len(ledger.sessions.recent()) == 1
    assert ledger.verify().ok
