"""Token accounting: snapshots, sums, receipts."""

from __future__ import annotations

from typing import Any

import pytest

from context.ledger.helpers import turn
from sightline.context.ledger import Ledger, Session, StoredUsage
from sightline.context.messages.parts import Message
from sightline.errors import InvalidInput, NotStorable


def test_all_messages_of_one_request_show_the_same_snapshot(
    ledger: Ledger, session: Session
) -> None:
    usage = StoredUsage("m", 1000, 50, cached_tokens=900, cost_nanousd=12)
    entries = ledger.append(session.id, turn(1), strategy="s", usage=usage)
    marked = {entry.usage_id for entry in entries if entry.role == "assistant"}
    assert len(marked) == 1
    assert None not in marked
    assert [entry.usage_id for entry in entries if entry.role != "assistant"] == [None, None]
    assert ledger.accounts.requests(session.id)[0].snapshot == 1050
    assert ledger.groups.recent(session.id)[0].snapshot == 1050


def test_sums_keep_unknown_costs_apart(ledger: Ledger, session: Session) -> None:
    ledger.accounts.record(session.id, StoredUsage("m", 100, 10, 40, 5))
    ledger.accounts.record(session.id, StoredUsage("m", 200, 20))
    totals = ledger.accounts.totals(session.id)
    assert (totals.requests, totals.prompt_tokens, totals.completion_tokens) == (2, 300, 30)
    assert (totals.cached_tokens, totals.cost_nanousd, totals.unpriced) == (40, 5, 1)
    assert ledger.accounts.totals().requests == 2


def test_what_was_spent_stays_spent_after_undo_and_remove(ledger: Ledger, session: Session) -> None:
    for number in (1, 2):
        ledger.append(session.id, turn(number), strategy="s", usage=StoredUsage("m", 10, 1, 0, 7))
    ledger.groups.undo(session.id)
    ledger.groups.remove(session.id, ledger.groups.recent(session.id)[0].id)
    assert ledger.accounts.totals(session.id).cost_nanousd == 14
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "usage",
    [
        StoredUsage("m", -1, 0),
        StoredUsage("m", 0, 2**60),
        StoredUsage("m", 1, 1, cost_nanousd=-1),
        StoredUsage("m", 1, 1, cached_tokens=2),
        StoredUsage("", 1, 1),
        StoredUsage("m", 1, 1, basis="guessed"),  # type: ignore[arg-type]  # what is being refused
    ],
)
def test_figures_that_cannot_be_are_refused(
    ledger: Ledger, session: Session, usage: StoredUsage
) -> None:
    with pytest.raises(InvalidInput):
        ledger.append(session.id, [Message.of("assistant", "a")], strategy="s", usage=usage)
    assert ledger.window(session.id) == ()


def test_the_last_receipt_of_a_group_says_where_its_loose_part_begins(
    ledger: Ledger, session: Session
) -> None:
    bodies: list[tuple[int | None, dict[str, Any]]] = [
        (1, {"request": {"loose": 4}}),
        (2, {"request": {"loose": 7, "bytes": 10}}),
        (3, {"request": {"loose": 11}}),
        (3, {"request": {"loose": 0}}),
        (None, {"request": {"loose": 12}}),
        (4, {"slots": []}),
        (5, {"request": {"loose": "all"}}),
        (6, {"request": [1]}),
    ]
    for group, body in bodies:
        ledger.accounts.add_receipt(session.id, body, prefix_digest="00", group_id=group)
    assert ledger.accounts.loose(session.id, 2) == {2: 7, 3: 0, 4: 0, 5: 0, 6: 0}
    assert ledger.accounts.loose(session.id + 1, 0) == {}


def test_receipts_come_back_as_they_were(ledger: Ledger, session: Session) -> None:
    body: dict[str, Any] = {"slots": [{"name": "history", "kept": 3}], "boundary": 17}
    number = ledger.accounts.add_receipt(session.id, body, prefix_digest="ab12", group_id=1)
    (receipt,) = ledger.accounts.receipts(session.id)
    assert (receipt.id, receipt.body, receipt.prefix_digest) == (number, body, "ab12")
    with pytest.raises(NotStorable):
        ledger.accounts.add_receipt(session.id, {"a": float("nan")}, prefix_digest="0")
