"""A ledger and a wire file of before there was one store: opened, verified, gone on with.

`host-v4.db` and its wire file were written by a host of then: in session 1 three turns, two
states of a strategy and a fold; in session 2 a program that died in the middle of a reply.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from agent.host.helpers import check_ledger, ended, hosted, messages, of_kind, turn
from sightline.agent.host.journal import Journal
from sightline.context.dialects import encode
from sightline.context.ledger import Ledger
from sightline.context.ledger.sqlite import steps
from sightline.context.ledger.work import OpenWork, hold_on
from sightline.errors import LedgerDamaged, LedgerUnusable
from sightline.events import Noticed
from sightline.inspector.reader import RecordReader

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    for end in (".db", ".wire.db"):
        shutil.copy(FIXTURES / f"host-v4{end}", tmp_path / f"work{end}")
        (tmp_path / f"work{end}").chmod(0o600)
    return tmp_path


def test_what_the_wire_file_knew_is_in_the_ledger_and_sealed(old: Path) -> None:
    with Ledger(old / "work.db") as ledger:
        assert ledger.verify().findings == ()
        assert ledger.sessions.get(1).first_group == 2
        assert ledger.sessions.get(2).first_group == 0
        assert ledger.strategy_states.current(1) == {"summary": "of three groups"}
        assert ledger.strategy_states.before(1, 3) == {"summary": "of two groups"}
        assert ledger.work.calibrations().of("scripted").reported == 8718.6
        assert hold_on(ledger.work, 2) == "dead"
        assert ledger.work.open(2) == OpenWork(
            4, 2, "openai_chat", "I was about to say ", calls={"c0": "running"}
        )
        assert ledger.sessions.get(1).parent is None
        assert ledger.sessions.get(1).title == ""


def test_it_is_taken_over_once(old: Path) -> None:
    with Ledger(old / "work.db") as ledger:
        ledger.sessions.fold(1, 3)
        ledger.work.settle(2)
    with Ledger(old / "work.db") as ledger:
        assert ledger.sessions.get(1).first_group == 3
        assert ledger.work.open(2) == OpenWork()


async def test_the_conversation_goes_on(old: Path) -> None:
    async with hosted(old, ["on we go"], session=1) as (host, model):
        assert ended(await turn(host, "and now?")).text == "on we go"
        sent = model.requests[0].data.decode()
        assert "the second question" in sent
        assert "the first question" not in sent, "it was folded away"
    check_ledger(old)


async def test_what_the_dead_program_left_is_closed(old: Path) -> None:
    async with hosted(old, ["I am back."], session=2) as (host, model):
        events = await turn(host, "where were we?")
        [told] = of_kind(events, Noticed)
        assert "kept as incomplete" in told.message
        assert "I was about to say" in model.requests[0].data.decode()
    check_ledger(old, 2)


def test_requests_of_then_are_replayed(old: Path) -> None:
    with Ledger(old / "work.db") as ledger:
        Journal(old / "work.db").close()
        reader = RecordReader(ledger)
        assert [item["status"] for item in reader.turns(1)["turns"]] == ["answered"] * 3
        assert reader.request(1, 3, 1)["reported"]
    journal = Journal(old / "work.db", read_only=True)
    for number in (1, 2, 3):
        known = journal.request(1, number)
        assert len(encode(known.prompt, known.profile, known.options).data) == known.line.bytes
    tables = journal._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    assert {name for (name,) in tables} == {"requests", "pieces", "tails"}
    journal.close()


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000])
def test_a_wire_file_that_is_no_good_keeps_no_ledger_from_opening(
    old: Path, content: bytes | None
) -> None:
    (old / "work.wire.db").unlink()
    if content is not None:
        (old / "work.wire.db").write_bytes(content)
    with Ledger(old / "work.db") as ledger:
        assert ledger.verify().ok
        assert ledger.sessions.get(1).first_group == 0
    assert len(messages(old)) == 6


def test_rows_that_no_host_wrote_are_left_where_they_are(old: Path) -> None:
    with apsw.Connection(str(old / "work.wire.db")) as wire:
        wire.execute("INSERT INTO owners VALUES (77, 'x')")
        wire.execute("INSERT INTO strategy_states VALUES (1, 99, '{}'), (1, 1, 'no json')")
        wire.execute("INSERT INTO notes VALUES ('fold x', '1'), ('fold 77', '1'), ('other', 'y')")
        wire.execute("UPDATE notes SET value = 'none' WHERE name = 'calibrations'")
        wire.execute("INSERT INTO partials VALUES (77, 1, 1, 's', 't', 'r'), (1, 99, 1, 1, 1, 1)")
        tail = "<slop-state>\nsecret-of-the-tail"
        wire.execute("UPDATE partials SET text = ? WHERE session_id = 2", (tail,))
    with Ledger(old / "work.db") as ledger:
        assert ledger.verify().ok
        assert ledger.strategy_states.current(1) == {"summary": "of three groups"}
        assert ledger.work.calibrations().models == {}
        assert ledger.work.owner(77) == ""
        assert ledger.work.open(2).text == ""
    stored = b"".join(path.read_bytes() for path in old.glob("work.db*"))
    assert b"secret-of-the-tail" not in stored


def test_a_migration_that_fails_takes_nothing_over_and_the_next_one_does(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*steps.MIGRATIONS[:4], steps.MIGRATIONS[4] + "SELECT broken FROM nowhere")
    monkeypatch.setattr(steps, "MIGRATIONS", broken)
    with pytest.raises(LedgerDamaged, match="no such table: nowhere"):
        Ledger(old / "work.db")
    monkeypatch.undo()
    with Ledger(old / "work.db") as ledger:
        assert ledger.sessions.get(1).first_group == 2


def test_a_program_of_then_refuses_what_is_new_with_a_word(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger(old / "work.db").close()
    before = (old / "work.db").read_bytes()
    newest = steps.FORMAT
    monkeypatch.setattr(steps, "FORMAT", 4)
    with pytest.raises(LedgerUnusable, match=f"format {newest}; .* reads up to 4"):
        Ledger(old / "work.db")
    assert (old / "work.db").read_bytes() == before
