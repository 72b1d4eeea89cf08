"""Windows over a stored conversation."""

from __future__ import annotations

from pathlib import Path

import pytest

from context.ledger.helpers import fill, group_ids, prompts, tamper
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.history import HistoryReader
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.ledger.usage import StoredUsage
from sightline.context.messages.parts import Message, Role
from sightline.context.messages.window import TokenWindow, Window
from sightline.errors import InvalidInput, LedgerDamaged, NotFound, NotStorable


def test_a_window_is_the_last_groups_in_order(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 6)
    assert prompts(ledger, session.id, Window(2)) == ["question 5", "question 6"]
    assert len(prompts(ledger, session.id, Window(0))) == 6
    assert len(prompts(ledger, session.id, Window(99))) == 6


def test_the_sessions_own_window_is_the_default(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 6)
    ledger.sessions.set_window(session.id, Window(1))
    assert prompts(ledger, session.id) == ["question 6"]


def test_slack_lets_the_window_grow_and_folds_it_back_after_a_restart_too(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    sizes = []
    for number in range(1, 11):
        fill(ledger, session.id, 1, first=number)
        with Ledger(where, mode="read") as fresh:
            assert fresh.window(session.id, Window(3, slack=2)) == ledger.window(
                session.id, Window(3, slack=2)
            )
        sizes.append(len(prompts(ledger, session.id, Window(3, slack=2))))
    assert sizes == [1, 2, 3, 4, 5, 3, 4, 5, 3, 4]


def test_a_token_window_cuts_on_stored_weights(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 10, tokens=10)  # each group weighs 40
    assert len(prompts(ledger, session.id, TokenWindow(400))) == 10
    assert prompts(ledger, session.id, TokenWindow(100, step=0)) == ["question 9", "question 10"]
    # 300 over; in steps of 50 that is 300 left out, and only whole groups can be.
    assert len(prompts(ledger, session.id, TokenWindow(100, step=0.5))) == 2


def test_the_newest_group_is_shown_even_if_it_is_over_the_budget(
    ledger: Ledger, session: Session
) -> None:
    fill(ledger, session.id, 2, tokens=1000)
    assert prompts(ledger, session.id, TokenWindow(5)) == ["question 2"]


def test_a_group_that_grows_is_read_again(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    ledger.append(session.id, [Message.of("user", "q")], strategy="s")
    assert len(ledger.window(session.id)) == 1
    with Ledger(where) as other:
        other.append(session.id, [Message.of("assistant", "a")], strategy="s")
    assert [entry.message.text for entry in ledger.window(session.id)] == ["q", "a"]


def test_what_others_drop_is_seen_at_once(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    fill(ledger, session.id, 3)
    assert len(prompts(ledger, session.id)) == 3
    with Ledger(where) as other:
        other.groups.drop(session.id, group_ids(ledger, session.id)[1])
    assert prompts(ledger, session.id) == ["question 1", "question 3"]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_window_kept_up_with_appends_is_the_one_a_fresh_reader_sees(
    ledger: Ledger, session: Session, size: int, where: str | Path
) -> None:
    window = Window(size, slack=1)
    other_session = ledger.sessions.create("other")

    def agree() -> None:
        with Ledger(where, mode="read") as fresh:
            assert ledger.window(session.id, window) == fresh.window(session.id, window)

    def by_another(role: Role, text: str) -> None:
        with Ledger(where) as other:
            other.append(session.id, [Message.of(role, text)], strategy="s")

    for number in range(6):
        fill(ledger, session.id, 1, first=number)
        agree()
        ledger.append(session.id, [Message.of("assistant", "and more")], strategy="s")
        agree()
        by_another("assistant", "from another process")
        ledger.append(session.id, [Message.of("assistant", "after it")], strategy="s")
        agree()
        by_another("user", "a turn of another process")
        fill(ledger, other_session.id, 1)
        fill(ledger, session.id, 2, first=number)
        agree()
        ledger.groups.drop(session.id, group_ids(ledger, session.id)[-2])
        fill(ledger, session.id, 1, first=number)
        agree()
        ledger.groups.undo(session.id)
        ledger.append(session.id, [Message.of("assistant", "goes on")], strategy="s")
        agree()


def test_an_append_that_fails_leaves_no_trace_in_windows(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 2)
    before = ledger.window(session.id)
    with pytest.raises(NotStorable):
        ledger.append(
            session.id, [Message.of("user", "fine"), Message.of("user", "\x00")], strategy="s"
        )
    with pytest.raises(InvalidInput, match="usage belongs"):
        ledger.append(
            session.id, [Message.of("user", "q")], strategy="s", usage=StoredUsage("m", 1, 1)
        )
    assert ledger.window(session.id) == before


def test_a_cache_too_small_for_the_window_changes_nothing(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        session = ledger.sessions.create("s")
        fill(ledger, session.id, 20)
        expected = ledger.window(session.id)
    store = SqliteStore(tmp_path / "l.db")
    history = HistoryReader(store, cached_chars=3000)
    for size in (0, 5, 0, 1, 0):
        assert history.window(session.id, Window(size)) == expected[-4 * size :]
    store.close()


def test_all_messages_are_read_page_by_page_dropped_ones_too(
    ledger: Ledger, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightline.context.ledger.history._PAGE", 3)
    fill(ledger, session.id, 3)
    ledger.groups.drop(session.id, group_ids(ledger, session.id)[1])
    entries = list(ledger.messages(session.id))
    assert [entry.seq for entry in entries] == list(range(12))
    assert [entry.status for entry in entries[4:8]] == ["dropped"] * 4


def test_what_is_not_there_is_named(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="no session 9"):
        ledger.window(9)
    with pytest.raises(NotFound, match="no session 9"):
        list(ledger.messages(9))
    with pytest.raises(NotFound, match="no message 9"):
        ledger.message(9)


def test_a_window_over_lost_messages_says_damaged(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    fill(ledger, session.id, 2)
    tamper(where, "DELETE FROM messages WHERE seq >= 4")
    with (
        Ledger(where, mode="read") as fresh,
        pytest.raises(LedgerDamaged, match="lost messages"),
    ):
        fresh.window(session.id)
