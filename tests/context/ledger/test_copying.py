"""A ledger is copied from one engine into another and back, with its numbers and its seals."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from context.ledger.helpers import contents, fill, said
from sightline.cli.main import cli
from sightline.context.ledger import Ledger, Session, StoredUsage
from sightline.context.ledger.copying import CopyReport
from sightline.context.ledger.exchanges import NewExchange
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.threads import Checkpoint, CheckpointKey
from sightline.context.messages.parts import Message
from sightline.context.tokens.estimate import Calibration, Calibrations
from sightline.errors import InvalidInput, LedgerUnavailable
from support import postgres

EXCHANGE = NewExchange("anthropic", "m", (b"{}",), {}, {})
UNDER_WAY = ("ledger", "owners", "open_replies", "open_calls")


def everything(ledger: Ledger, session: Session) -> None:
    """Put something into every table that is copied."""
    fill(ledger, session.id, 3, tokens=3)
    ledger.append(session.id, [said(1)])
    ledger.append(session.id, [said(1, 2)])
    first, second, *_ = [group.id for group in ledger.groups.recent(session.id)]
    ledger.append(session.id, [Message("assistant", "more")], key="k", usage=StoredUsage("m", 3, 1))
    ledger.groups.drop(session.id, first)
    ledger.groups.remove(session.id, second)
    ledger.accounts.add_receipt(session.id, {"slots": []}, prefix_digest="00")
    ledger.strategy_states.set(session.id, first, {"n": 1})
    key = CheckpointKey("thread", "", "1")
    ledger.threads.put(Checkpoint(key, None, "k", b"body"), [])
    ledger.exchanges.add(session.id, EXCHANGE)
    ledger.memos.save("Ports begin at 4100.", ["ports"])
    ledger.work.learn(Calibrations({"m": Calibration()}))
    ledger.groups.undo(session.id)


def kept(where: str | Path) -> dict[str, object]:
    """Whatever is copied, as one value."""
    return {name: rows for name, rows in contents(where).items() if name not in UNDER_WAY}


@pytest.fixture
def other(server: postgres.Server | None, tmp_path: Path) -> str | Path:
    """A ledger of the other engine, or of another tenant."""
    return tmp_path / "copy.db" if server is None else server.url(uuid4().hex)


def test_a_copy_has_every_row_and_goes_on_by_itself(
    ledger: Ledger, session: Session, where: str | Path, other: str | Path, tmp_path: Path
) -> None:
    everything(ledger, session)
    reports = []
    for _ in range(2):
        with Ledger(other) as copy:
            reports.append(ledger.copy_into(copy))
    assert reports == [CopyReport(copied=3, there=0), CopyReport(copied=0, there=3)]
    assert kept(other) == kept(where)
    with Ledger(other) as copy, Ledger(tmp_path / "back.db") as back:
        assert copy.copy_into(back).copied == 3
        for one in (copy, back):
            one.groups.redo(session.id)
            one.append(session.id, [Message("user", "on")])
            one.memos.save("another", ["tag"])
            assert one.sessions.create("new").id not in (session.id, session.id + 1)
            assert one.sessions.latest().name == "new"
            assert [memo.id for memo in one.memos.relevant("which ports?")] == [1]
            assert one.verify().findings == ()
    assert kept(other).keys() == TABLES.keys() - UNDER_WAY


def test_a_copy_that_ended_too_soon_goes_on_and_what_changed_is_copied_again(
    ledger: Ledger, session: Session, where: str | Path, other: str | Path
) -> None:
    for name in ("second", "third"):
        fill(ledger, ledger.sessions.create(name).id, 1)
    with Ledger(other) as copy:
        begin = copy._store.work
        changes = 0

        def failing(*, durable: bool = False) -> object:
            nonlocal changes
            changes += 1
            if changes == 3:
                raise LedgerUnavailable("the network is gone")
            return begin(durable=durable)

        copy._store.work = failing  # type: ignore[method-assign, assignment]
        with pytest.raises(LedgerUnavailable):
            ledger.copy_into(copy)
        copy._store.work = begin  # type: ignore[method-assign]
        assert ledger.copy_into(copy) == CopyReport(copied=1, there=2)
        ledger.append(session.id, [Message("user", "later")])
        ledger.exchanges.add(session.id + 1, EXCHANGE)
        assert ledger.copy_into(copy) == CopyReport(copied=2, there=1)
        assert kept(other) == kept(where)
        copy.sessions.create("of its own")
        with pytest.raises(InvalidInput, match="others than the original: 4"):
            ledger.copy_into(copy)


def test_another_ledger_is_not_overwritten(
    ledger: Ledger, session: Session, tmp_path: Path
) -> None:
    with Ledger(tmp_path / "mine.db") as mine:
        mine.sessions.create("precious")
        with pytest.raises(InvalidInput, match=f"number {session.id} is another"):
            ledger.copy_into(mine)
        assert mine.sessions.latest().name == "precious"


def test_the_command_copies_and_says_how_much(
    ledger: Ledger, session: Session, where: str | Path, tmp_path: Path
) -> None:
    fill(ledger, session.id, 1)
    done = CliRunner().invoke(cli, ["ledger", "copy", str(where), str(tmp_path / "copy.db")])
    assert done.output == f"{tmp_path / 'copy.db'}: 1 copied, 0 there already\n"
    shown = CliRunner().invoke(cli, ["ledger", "path", "--db", str(where)])
    assert shown.output == f"{where}\n"
