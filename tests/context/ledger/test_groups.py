"""Undo, redo, drop, restore, remove: each takes its group alone, and the right state is back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.ledger.helpers import fill, group_ids, prompts, tamper
from sightline.context.ledger import Ledger, Session, StoredUsage
from sightline.context.messages.parts import Message, Role
from sightline.context.messages.window import TokenWindow, Window
from sightline.errors import InvalidInput, LedgerDamaged, NotFound


def goal(ledger: Ledger, session: Session) -> str:
    return (ledger.states.current(session.id) or "").removeprefix("### STATE\nGoal: goal ")


def test_undo_takes_the_last_group_and_its_state(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 3)
    last = group_ids(ledger, session.id)[-1]
    assert ledger.groups.undo(session.id) == last
    assert prompts(ledger, session.id) == ["question 1", "question 2"]
    assert goal(ledger, session) == "2"
    gone = ledger.query(
        f"SELECT count(*) FROM messages WHERE group_id = {last}", session_id=session.id
    )
    assert gone.rows == ((0,),)


def test_redo_brings_back_exactly_what_was_undone(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 4, tokens=5)
    before = ledger.window(session.id)
    undone = [ledger.groups.undo(session.id) for _ in range(3)]
    assert prompts(ledger, session.id) == ["question 1"]
    assert [ledger.groups.redo(session.id) for _ in range(3)] == undone[::-1]
    assert ledger.window(session.id) == before
    assert goal(ledger, session) == "4"
    assert ledger.verify().ok


def test_after_the_next_turn_there_is_nothing_to_redo(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 2)
    ledger.groups.undo(session.id)
    fill(ledger, session.id, 1, first=3)
    with pytest.raises(NotFound, match="nothing to redo"):
        ledger.groups.redo(session.id)
    assert prompts(ledger, session.id) == ["question 1", "question 3"]
    assert ledger.verify().ok


def test_undo_in_an_empty_session_says_so(ledger: Ledger, session: Session) -> None:
    with pytest.raises(NotFound, match="nothing to undo"):
        ledger.groups.undo(session.id)


def test_undo_survives_a_restart(ledger: Ledger, session: Session, where: str | Path) -> None:
    fill(ledger, session.id, 2)
    ledger.groups.undo(session.id)
    ledger.close()
    with Ledger(where) as again:
        again.groups.redo(session.id)
        assert prompts(again, session.id) == ["question 1", "question 2"]


def test_undo_passes_over_a_dropped_last_group(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 3)
    ledger.groups.drop(session.id, group_ids(ledger, session.id)[-1])
    ledger.groups.undo(session.id)
    assert prompts(ledger, session.id) == ["question 1"]
    ledger.groups.redo(session.id)
    assert prompts(ledger, session.id) == ["question 1", "question 2"]
    assert ledger.verify().ok


def test_an_undone_group_that_was_altered_is_not_brought_back(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    fill(ledger, session.id, 1)
    ledger.groups.undo(session.id)
    tamper(where, "UPDATE undone SET body = replace(body, 'question', 'answers!')")
    with pytest.raises(LedgerDamaged, match="was altered"):
        ledger.groups.redo(session.id)


def test_a_dropped_group_leaves_windows_and_retrieval_but_not_the_ledger(
    ledger: Ledger, session: Session
) -> None:
    fill(ledger, session.id, 4)
    second = group_ids(ledger, session.id)[1]
    ledger.groups.drop(session.id, second)
    assert prompts(ledger, session.id) == ["question 1", "question 3", "question 4"]
    assert prompts(ledger, session.id, Window(3))[0] == "question 1"
    found = ledger.query("SELECT content FROM messages WHERE role = 'user'", session_id=session.id)
    assert "question 2" not in str(found.rows)
    assert ledger.groups.show(session.id, second)[0].status == "dropped"
    assert [g.status for g in ledger.groups.recent(session.id)][1] == "dropped"
    assert len(ledger.groups.recent(session.id, dropped=False)) == 3


def test_restore_puts_a_dropped_group_back_in_its_place(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 4)
    before = ledger.window(session.id)
    second = group_ids(ledger, session.id)[1]
    ledger.groups.drop(session.id, second)
    ledger.groups.restore(session.id, second)
    assert ledger.window(session.id) == before
    assert ledger.verify().ok


@pytest.mark.parametrize("way", ["drop", "remove"])
def test_the_state_of_a_group_that_goes_is_no_longer_in_force(
    ledger: Ledger, session: Session, way: str
) -> None:
    fill(ledger, session.id, 3)
    getattr(ledger.groups, way)(session.id, group_ids(ledger, session.id)[-1])
    assert goal(ledger, session) == "2"
    getattr(ledger.groups, way)(session.id, ledger.groups.recent(session.id, dropped=False)[0].id)
    assert goal(ledger, session) == "2"


@pytest.mark.of_a_file
def test_what_was_removed_is_gone_for_good_and_from_the_file(
    ledger: Ledger, session: Session
) -> None:
    fill(ledger, session.id, 2)
    ledger.append(session.id, [Message.of("user", "UNSPEAKABLE" * 2000)], strategy="s")
    fill(ledger, session.id, 1, first=4)
    third = group_ids(ledger, session.id)[2]
    ledger.groups.remove(session.id, third)
    assert prompts(ledger, session.id) == ["question 1", "question 2", "question 4"]
    assert not any(b"UNSPEAKABLE" in f.read_bytes() for f in ledger.path.parent.iterdir())
    with pytest.raises(NotFound, match="was removed"):
        ledger.groups.show(session.id, third)
    with pytest.raises(NotFound, match="removed already"):
        ledger.groups.remove(session.id, third)
    assert ledger.verify().ok


def test_a_group_can_be_removed_while_dropped(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 2, tokens=1)
    first = group_ids(ledger, session.id)[0]
    ledger.groups.drop(session.id, first)
    ledger.groups.remove(session.id, first)
    assert ledger.verify().ok
    assert ledger.sessions.get(session.id).tokens == 4


@pytest.mark.parametrize(
    ("first", "then", "reason"),
    [("drop", "drop", "is dropped, not live"), (None, "restore", "is live, not dropped")],
)
def test_a_group_that_is_not_as_expected_is_left_alone(
    ledger: Ledger, session: Session, first: str | None, then: str, reason: str
) -> None:
    fill(ledger, session.id, 1)
    group = group_ids(ledger, session.id)[0]
    if first:
        getattr(ledger.groups, first)(session.id, group)
    with pytest.raises(InvalidInput, match=reason):
        getattr(ledger.groups, then)(session.id, group)


@pytest.mark.parametrize("way", ["drop", "restore", "remove", "show"])
def test_a_group_that_is_not_there_is_named(ledger: Ledger, session: Session, way: str) -> None:
    with pytest.raises(NotFound, match=f"no group 99 in session {session.id}"):
        getattr(ledger.groups, way)(session.id, 99)


def test_the_list_shows_weights_snapshots_and_prompts(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 3, tokens=7)
    last = group_ids(ledger, session.id)[-1]
    ledger.accounts.record(session.id, StoredUsage("m", 100, 20), group_id=last)
    ledger.accounts.record(session.id, StoredUsage("m", 140, 30), group_id=last)
    groups = ledger.groups.recent(session.id, 2)
    assert [(g.prompt, g.tokens, g.messages, g.snapshot) for g in groups] == [
        ("question 2", 28, 4, None),
        ("question 3", 28, 4, 170),
    ]


def test_weights_follow_every_intervention(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 5, tokens=10)
    groups = group_ids(ledger, session.id)
    ledger.groups.drop(session.id, groups[1])
    ledger.groups.remove(session.id, groups[2])
    ledger.groups.undo(session.id)
    assert ledger.sessions.get(session.id).tokens == 80
    assert prompts(ledger, session.id, TokenWindow(40, step=0)) == ["question 4"]
    ledger.groups.redo(session.id)
    ledger.groups.restore(session.id, groups[1])
    assert prompts(ledger, session.id, TokenWindow(120, step=0)) == [
        "question 2",
        "question 4",
        "question 5",
    ]


changes = st.lists(
    st.sampled_from(["ask", "say", "state", "pop", "pop", "undo", "drop", "restore", "remove"]),
    max_size=25,
)


def test_a_pop_takes_the_last_message_that_is_shown_whatever_went_before() -> None:
    with Ledger(":memory:") as ledger:

        @settings(max_examples=25, deadline=None)
        @given(changes)
        def law(steps: list[str]) -> None:
            session = ledger.sessions.create().id
            for number, step in enumerate(steps):
                _change(ledger, session, step, number)
            shown = [entry.message.text for entry in ledger.window(session, Window(0))]
            states = [text for text in shown if text.startswith("### STATE")]
            assert ledger.states.current(session) == (states[-1] if states else None)
            if len(steps) % 2:
                ledger.groups.clear(session)
                assert (ledger.window(session), ledger.sessions.get(session).tokens) == ((), 0)
                ledger.append(session, [Message.of("user", "again")])
                assert prompts(ledger, session) == ["again"]

        law()
        assert ledger.verify().findings == ()


def _change(ledger: Ledger, session: int, step: str, number: int) -> None:
    before = [entry.id for entry in ledger.window(session)]
    groups = ledger.groups.recent(session)
    live = [group for group in groups if group.status == "live"]
    dropped = [group for group in groups if group.status == "dropped"]
    if step in ("ask", "say", "state"):
        role: Role = "user" if step == "ask" else "assistant"
        text = f"### STATE\nGoal: {number}" if step == "state" else str(number)
        ledger.append(session, [Message.of(role, text)])
    elif step == "pop" and live and groups[-1].status == "dropped":
        with pytest.raises(InvalidInput, match="dropped, and behind"):
            ledger.groups.pop(session)
    elif step == "pop":
        popped = ledger.groups.pop(session)
        assert (popped is None) == (not before)
        assert popped is None or popped.id == before.pop()
        assert [entry.id for entry in ledger.window(session)] == before
    elif step == "undo" and live:
        ledger.groups.undo(session)
    elif step == "restore" and dropped:
        ledger.groups.restore(session, dropped[0].id)
    elif step in ("drop", "remove") and live:
        getattr(ledger.groups, step)(session, live[number % len(live)].id)


def test_a_session_is_found_by_its_exact_name_or_begun(ledger: Ledger) -> None:
    found = ledger.sessions.named("thread 1")
    assert ledger.sessions.named("thread 1") == found
    assert ledger.sessions.named(str(found.id)).id != found.id
    for name in (" thread 1", "thread\n1", "", "sk-ant-api03-" + "a1B2" * 20):
        with pytest.raises(InvalidInput):
            ledger.sessions.named(name)
