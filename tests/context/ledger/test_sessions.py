"""Sessions: made, found, named, cloned, deleted; one never touches another."""

from __future__ import annotations

from pathlib import Path

import pytest

from context.ledger.helpers import contents, fill, group_ids, prompts, tamper
from sightline.context.ledger import Ledger, Session, StoredUsage
from sightline.context.messages.window import Window
from sightline.errors import InvalidInput, NotFound, TooLarge


def test_a_session_has_a_name_or_its_number(ledger: Ledger) -> None:
    assert ledger.sessions.create("plans").name == "plans"
    assert ledger.sessions.create().name == "session 2"


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31mred", "a\x00"])
def test_a_name_is_one_printable_line(ledger: Ledger, session: Session, name: str) -> None:
    with pytest.raises(InvalidInput, match="one line of printable text"):
        ledger.sessions.create(name)
    with pytest.raises(InvalidInput):
        ledger.sessions.rename(session.id, name)
    with pytest.raises(TooLarge):
        ledger.sessions.rename(session.id, "x" * 300)


def test_no_two_sessions_have_one_name(ledger: Ledger) -> None:
    first, second = ledger.sessions.create("plan"), ledger.sessions.create("draft")
    with pytest.raises(InvalidInput, match=f"session {first.id} is called 'plan' already"):
        ledger.sessions.create("plan")
    with pytest.raises(InvalidInput, match="is called 'plan' already"):
        ledger.sessions.rename(second.id, "plan")
    with pytest.raises(InvalidInput, match="is called 'plan' already"):
        ledger.sessions.clone(second.id, "plan")
    assert ledger.sessions.rename(first.id, "plan").name == "plan"
    assert [ledger.sessions.clone(first.id).name for _ in range(3)] == [
        "plan (clone)", "plan (clone) 2", "plan (clone) 3",
    ]  # fmt: skip
    ledger.sessions.create(f"session {ledger.sessions.recent()[0].id + 2}")
    assert ledger.sessions.create().name.endswith(" 2")


def test_the_most_recently_used_comes_first_whatever_the_clock_says(ledger: Ledger) -> None:
    one, two = ledger.sessions.create("one"), ledger.sessions.create("two")
    assert ledger.sessions.latest().id == two.id
    fill(ledger, one.id, 1)
    assert ledger.sessions.latest().id == one.id
    ledger.sessions.switch(two.id)
    assert [session.id for session in ledger.sessions.recent()] == [two.id, one.id]


def test_a_project_continues_its_own_session(ledger: Ledger) -> None:
    here = ledger.sessions.create("a", project="/here")
    ledger.sessions.create("b", project="/there")
    assert ledger.sessions.latest(project="/here").id == here.id
    with pytest.raises(NotFound, match="no session to continue"):
        ledger.sessions.latest(project="/nowhere")


def test_a_session_is_found_by_number_name_or_uuid(ledger: Ledger, session: Session) -> None:
    for reference in ("1", "work", session.uuid, session.uuid[:8]):
        assert ledger.sessions.resolve(reference).id == session.id
    for nothing in ("2", "wor", "0" * 30, ""):
        with pytest.raises(NotFound):
            ledger.sessions.resolve(nothing)


def test_a_reference_that_fits_several_sessions_is_refused(
    ledger: Ledger, where: str | Path
) -> None:
    for name in ("same", "other"):
        ledger.sessions.create(name)
    # As files of earlier versions may have it.
    tamper(where, "UPDATE sessions SET name = 'same'")
    with pytest.raises(InvalidInput, match="several sessions: 1, 2"):
        ledger.sessions.resolve("same")


def test_a_renamed_session_survives_reopening(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    ledger.sessions.rename(session.id, "renamed")
    ledger.sessions.set_window(session.id, Window(7, slack=2))
    ledger.close()
    with Ledger(where) as again:
        assert again.sessions.get(session.id).name == "renamed"
        assert again.sessions.get(session.id).window == Window(7, slack=2)


def test_a_clone_says_the_same_with_groups_of_its_own(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 5, tokens=3)
    ledger.groups.drop(session.id, group_ids(ledger, session.id)[2])
    ledger.scratchpad.replace(session.id, "plan")
    clone = ledger.sessions.clone(session.id)
    assert clone.name == "work (clone)"
    assert clone.cloned_from == session.uuid
    assert prompts(ledger, clone.id) == prompts(ledger, session.id)
    assert ledger.states.current(clone.id) == ledger.states.current(session.id)
    assert ledger.scratchpad.read(clone.id) == "plan"
    assert not set(group_ids(ledger, clone.id)) & set(group_ids(ledger, session.id))
    assert [g.status for g in ledger.groups.recent(clone.id)] == [
        g.status for g in ledger.groups.recent(session.id)
    ]
    assert ledger.verify().ok


def test_nothing_done_in_a_clone_touches_the_original(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    fill(ledger, session.id, 4)
    clone = ledger.sessions.clone(session.id)
    before = contents(where, session_id=session.id)
    ledger.groups.undo(clone.id)
    ledger.groups.remove(clone.id, group_ids(ledger, clone.id)[0])
    ledger.scratchpad.replace(clone.id, "other")
    fill(ledger, clone.id, 1, first=9)
    with pytest.raises(NotFound):
        ledger.groups.drop(clone.id, group_ids(ledger, session.id)[0])
    assert contents(where, session_id=session.id) == before


def test_money_spent_is_not_counted_again_in_a_clone(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 1)
    group = group_ids(ledger, session.id)[0]
    ledger.accounts.record(session.id, StoredUsage("m", 10, 5, 0, 99), group_id=group)
    clone = ledger.sessions.clone(session.id)
    assert ledger.groups.recent(clone.id)[0].snapshot == 15
    assert ledger.accounts.totals(clone.id).requests == 0
    assert ledger.accounts.totals().cost_nanousd == 99


def test_deleting_needs_the_name_and_leaves_nothing(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    other = ledger.sessions.create("other")
    fill(ledger, session.id, 3)
    fill(ledger, other.id, 1)
    with pytest.raises(InvalidInput, match="confirm with its name: 'work'"):
        ledger.sessions.delete(session.id, confirm="yes")
    ledger.groups.undo(session.id)
    ledger.sessions.delete(session.id, confirm="work")
    with pytest.raises(NotFound):
        ledger.sessions.get(session.id)
    assert not any(contents(where, session_id=session.id).values())
    assert ledger.verify().ok
    assert prompts(ledger, other.id) == ["question 1"]


@pytest.mark.of_a_file
def test_what_was_deleted_is_not_in_the_file_any_more(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 1)
    other = ledger.sessions.create("other")
    fill(ledger, other.id, 1, first=777)
    ledger.sessions.delete(other.id, confirm=other.uuid)
    assert b"question 777" not in everything(ledger.path)
    assert b"question 1" in everything(ledger.path)


def everything(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir())
