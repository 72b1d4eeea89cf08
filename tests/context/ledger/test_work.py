"""What is under way: noted at once, without a key or a tail, gone when it is stored."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from context.ledger.helpers import contents, fill, group_ids
from sightline.context.ledger import Ledger
from sightline.context.ledger.exchanges import NewExchange
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.ledger.work import OpenWork
from sightline.context.messages.gate import Gate
from sightline.context.messages.parts import Message
from sightline.context.tokens.estimate import Calibrations
from sightline.errors import InvalidInput, LedgerUnusable

TAIL = "<slop-state>\n[root] notes: secret-of-the-tail\n</slop-state>"


@pytest.fixture
def ledger(where: str | Path) -> object:
    with Ledger(where) as ledger:
        ledger.sessions.create("s")
        yield ledger


def test_it_is_known_what_is_under_way(ledger: Ledger) -> None:
    work = ledger.work
    assert work.open(1) == OpenWork()
    work.begin_reply(1, 7, 3, "anthropic")
    work.note_words(1, "Hel ", "")
    work.note_words(1, "Hello ", "hm ")
    work.note_call(1, 7, "c1", "asked")
    work.note_call(1, 7, "c1", "running")
    assert work.open(1) == OpenWork(7, 3, "anthropic", "Hello ", "hm ", {"c1": "running"})
    work.settle(1)
    assert work.open(1) == OpenWork()


def test_a_reply_is_stored_and_no_longer_under_way_at_once(ledger: Ledger) -> None:
    ledger.append(1, [Message.of("user", "hi")], strategy="s")
    ledger.work.begin_reply(1, 1, 0, "s")
    ledger.work.note_words(1, "Hello ", "")
    ledger.append(1, [Message.of("assistant", "Hello there")], strategy="s")
    assert ledger.work.open(1) == OpenWork()


def test_the_words_of_a_reply_are_noted_without_a_key_or_the_beginning_of_one() -> None:
    key = "sk-ant-api03-" + "a1B2" * 8
    said = f"Use {key} for it."
    gate = Gate()
    for length in range(len(said) + 1):
        assert "sk-ant" not in gate.beginning(said[:length])
    assert gate.beginning(said) == "Use [redacted:anthropic-key] for "
    assert gate.beginning("密码是这个") == "密码是这个"


@pytest.mark.of_a_file
def test_the_words_of_a_reply_are_noted_without_a_tail_or_the_beginning_of_one(
    tmp_path: Path, ledger: Ledger
) -> None:
    said = f"I saw {TAIL} and more."
    ledger.work.begin_reply(1, 1, 0, "s")
    for length in range(len(said) + 1):
        ledger.work.note_words(1, said[:length], said[:length])
        assert "secret" not in str(ledger.work.open(1))
    assert ledger.work.open(1).text.startswith("I saw")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))
    assert b"secret-of-the-tail" not in stored


def test_one_owner_at_a_time(ledger: Ledger) -> None:
    work = ledger.work
    assert work.claim(1, "me", instead_of="")
    assert not work.claim(1, "you", instead_of="")
    assert work.owner(1) == "me"
    work.release(1, "you")
    assert work.owner(1) == "me"
    work.release(1, "me")
    assert work.owner(1) == ""


def test_what_was_learnt_is_kept_by_model_and_nobody_takes_what_another_learnt(
    ledger: Ledger,
) -> None:
    one = Calibrations().observe("a", 10, 20)
    ledger.work.learn(one)
    ledger.work.learn(Calibrations().observe("b", 10, 30))
    kept = ledger.work.calibrations()
    assert kept.models.keys() == {"a", "b"}
    assert kept.of("a") == one.of("a")


def test_working_state_touches_nothing_that_is_sealed(where: str | Path, ledger: Ledger) -> None:
    fill(ledger, 1, 2)
    before = contents(where)
    work = ledger.work
    work.claim(1, "me", instead_of="")
    work.begin_reply(1, 1, 0, "s")
    work.note_words(1, "so ", "")
    work.note_call(1, 1, "c", "asked")
    work.learn(Calibrations().observe("a", 10, 20))
    ledger.exchanges.add(1, NewExchange("anthropic", "m", (b"{}",), {}, {}))
    after = contents(where)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {name for name, table in TABLES.items() if not table.is_sealed}
    assert ledger.verify().ok


def test_a_session_takes_all_that_is_its_own_with_it(where: str | Path, ledger: Ledger) -> None:
    fill(ledger, 1, 2)
    ledger.work.claim(1, "me", instead_of="")
    ledger.work.begin_reply(1, 1, 0, "s")
    ledger.work.note_call(1, 1, "c", "asked")
    ledger.strategy_states.set(1, 1, {"a": 1})
    ledger.sessions.delete(1, confirm="s")
    assert not any(contents(where, session_id=1).values())
    assert ledger.verify().ok


@pytest.mark.usefixtures("ledger")
def test_who_reads_only_notes_nothing(where: str | Path) -> None:
    with (
        Ledger(where, mode="read") as reader,
        pytest.raises(LedgerUnusable, match="reading only"),
    ):
        reader.work.claim(1, "me", instead_of="")


def test_a_strategys_state_goes_with_its_group_and_comes_back_with_it(ledger: Ledger) -> None:
    fill(ledger, 1, 3)
    states = ledger.strategy_states
    one, two, three = group_ids(ledger, 1)
    assert states.current(1) == {}
    for group in (one, two, three):
        states.set(1, group, {"n": group})
    states.set(1, three, {"n": "again"})
    assert states.current(1) == {"n": "again"}
    assert states.before(1, three) == {"n": two}
    ledger.groups.undo(1)
    assert states.current(1) == {"n": two}
    ledger.groups.redo(1)
    assert states.current(1) == {"n": "again"}
    ledger.groups.remove(1, three)
    assert states.current(1) == {"n": two}
    ledger.groups.drop(1, two)
    assert states.current(1) == {"n": one}
    ledger.groups.undo(1)
    fill(ledger, 1, 1)  # the next turn gives up what was undone
    assert states.current(1) == {}
    assert ledger.verify().ok


def test_no_tail_and_no_key_enters_by_a_strategys_state(ledger: Ledger) -> None:
    fill(ledger, 1, 1)
    key = "sk-ant-api03-" + "a1B2" * 8
    ledger.strategy_states.set(1, 1, {"summary": f"saw {TAIL}", "key": [key]})
    assert "secret" not in str(ledger.strategy_states.current(1))
    assert key not in str(ledger.strategy_states.current(1))
    with pytest.raises(InvalidInput):
        ledger.strategy_states.set(1, 1, {"bad": float("nan")})
    assert ledger.strategy_states.current(1)["summary"] == "saw"


def test_a_clone_goes_on_where_its_session_was(ledger: Ledger) -> None:
    fill(ledger, 1, 4)
    groups = group_ids(ledger, 1)
    ledger.groups.remove(1, groups[0])
    ledger.sessions.fold(1, groups[2])
    ledger.strategy_states.set(1, groups[3], {"n": 3})
    clone = ledger.sessions.clone(1)
    assert clone.first_group == group_ids(ledger, clone.id)[1]
    assert ledger.strategy_states.current(clone.id) == {"n": 3}
    assert ledger.verify().ok


def test_a_session_has_a_parent_and_a_title(ledger: Ledger) -> None:
    parent = ledger.sessions.get(1)
    assert (parent.parent, parent.title, parent.first_group) == (None, "", 0)
    child = ledger.sessions.create("child", parent=parent.uuid, title="What the ducks eat")
    assert ledger.sessions.get(child.id) == child
    assert (child.parent, child.title) == (parent.uuid, "What the ducks eat")
    copy = ledger.import_(ledger.export(child.id))
    assert (copy.parent, copy.title) == (parent.uuid, "What the ducks eat")
    assert ledger.sessions.clone(child.id).title == "What the ducks eat"
    assert ledger.sessions.set_title(child.id, "").title == ""
    with pytest.raises(InvalidInput):
        ledger.sessions.set_title(child.id, "two\nlines")
    assert ledger.verify().ok


def test_an_owner_who_cannot_be_asked_is_not_declared_dead(tmp_path: Path) -> None:
    name = "0" * 32
    with closing(SqliteStore(tmp_path / "work.db")) as store:
        assert not store.attends(name)
        leave = store.attend(name)
        [lock] = [path for path in tmp_path.iterdir() if name in path.name]
        assert store.attends(name)
        lock.unlink()
        lock.symlink_to(lock.name)  # opening it fails, for another reason than that it is gone
        assert store.attends(name)
        leave()
        assert not store.attends(name)
