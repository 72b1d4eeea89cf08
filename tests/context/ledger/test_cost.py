"""A turn takes the same work on message 100 and on message 100,000: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from context.ledger.helpers import file_of, fill, group_ids, turn
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.messages.window import TokenWindow, Window

SHORT, LONG = 60, 1500


def steps(ledger: Ledger, work: Callable[[Ledger], object]) -> int:
    """Count the steps that SQLite's machine takes for some work."""
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    connection = file_of(ledger)._connection
    connection.set_progress_handler(step, 1)
    try:
        work(ledger)
    finally:
        connection.set_progress_handler(None)
    return count


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> list[Ledger]:
    made = []
    for groups in (SHORT, LONG):
        ledger = Ledger(tmp_path_factory.mktemp("cost") / "l.db")
        session = ledger.sessions.create("s")
        batch = [draft for n in range(groups) for draft in turn(n, state=str(n), tokens=5)]
        ledger.append(session.id, batch, strategy="s")
        made.append(ledger)
    return made


def append_twice(ledger: Ledger) -> None:
    for _ in range(2):  # the second is a retry, found by its key
        ledger.append(1, turn(1, state="x"), strategy="s", key="k", usage=StoredUsage("m", 1, 1))


def undo_and_redo(ledger: Ledger) -> None:
    ledger.groups.undo(1)
    ledger.groups.redo(1)


WORK: dict[str, Callable[[Ledger], object]] = {
    "append": append_twice,
    "window": lambda ledger: ledger.window(1, Window(50)),
    "token window": lambda ledger: ledger.window(1, TokenWindow(1000)),
    "state": lambda ledger: ledger.states.current(1),
    "scratchpad": lambda ledger: ledger.scratchpad.append(1, "more"),
    "list": lambda ledger: ledger.groups.recent(1, 10),
    "undo": undo_and_redo,
}


@pytest.mark.parametrize("name", WORK)
def test_work_does_not_grow_with_the_conversation(ledgers: list[Ledger], name: str) -> None:
    short, long = (steps(ledger, WORK[name]) for ledger in ledgers)
    assert long <= short * 1.5


def test_dropped_groups_in_the_way_cost_nothing(tmp_path: Path) -> None:
    def first_read() -> int:
        with Ledger(tmp_path / "l.db", mode="read") as fresh:
            return steps(fresh, lambda each: each.window(1, Window(5)))

    with Ledger(tmp_path / "l.db") as ledger:
        session = ledger.sessions.create("s")
        fill(ledger, session.id, 10)
        before = first_read()
        fill(ledger, session.id, 40)
        for group in group_ids(ledger, session.id)[8:48]:
            ledger.groups.drop(session.id, group)
        assert first_read() <= before * 1.5


def test_the_harness_sees_work_that_grows(ledgers: list[Ledger]) -> None:
    short, long = (steps(ledger, lambda each: list(each.messages(1))) for ledger in ledgers)
    assert long > short * 10
