"""A ledger asks its engine for what the interface names, and goes around it nowhere."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from context.ledger.helpers import FakeClock, fill, group_ids, prompts, said, turn
from context.ledger.strict import CHANGING, READING, STORE, StrictStore
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.ledger.copying import copy_ledger
from sightline.context.ledger.threads import Checkpoint, CheckpointKey, CheckpointWrite
from sightline.context.ledger.work import Owner, hold_on
from sightline.context.messages.parts import Message
from sightline.context.messages.window import TokenWindow, Window
from sightline.context.tokens.estimate import Calibration, Calibrations
from sightline.errors import NotFound


def converse(ledger: Ledger) -> int:
    """Talk, and do by hand whatever can be done to a conversation."""
    session = ledger.sessions.create("talk", project="/p").id
    fill(ledger, session, 6, tokens=10)
    ledger.append(session, [said(1)], strategy="s")
    ledger.append(session, [Message("assistant", "and more")], strategy="s")
    drafts = turn(7, state="seven")
    for _ in range(2):
        ledger.append(session, drafts, strategy="s", key="k", usage=StoredUsage("m", 10, 5))
    groups = group_ids(ledger, session)
    ledger.groups.undo(session)
    ledger.groups.redo(session)
    ledger.groups.drop(session, groups[1])
    ledger.groups.restore(session, groups[1])
    ledger.groups.remove(session, groups[0])
    ledger.groups.show(session, groups[2])
    ledger.scratchpad.append(session, "- [ ] plan")
    ledger.states.set(session, "### STATE\nGoal: g")
    ledger.strategy_states.set(session, groups[3], {"n": 1})
    ledger.sessions.fold(session, groups[2])
    ledger.sessions.set_title(session, "a talk")
    ledger.accounts.record(session, StoredUsage("m", 3, 1), group_id=groups[2])
    ledger.accounts.add_receipt(session, {"slots": []}, prefix_digest="00")
    store = ledger.threads
    for number in ("1", "2", "3"):
        key = CheckpointKey("talk", "", number)
        store.put(Checkpoint(key, None, "k", b"body"), [store.passed(Message("user", "hello"))])
        store.put_writes(key, [CheckpointWrite("t", -1, "", "c", "k", b"w")] * 2)
    store.delete([CheckpointKey("talk", "", "3")])
    store.delete_thread("nobody")
    return session


def work(ledger: Ledger, session: int) -> None:
    """Run a turn as a host does, and remember things."""
    owner = Owner(ledger.work)
    assert not owner.claim(session)
    assert hold_on(ledger.work, session) == "alive"
    ledger.work.begin_reply(session, 1, 1, "s")
    ledger.work.note_words(session, "so far ", "thought ")
    ledger.work.note_call(session, 1, "c", "running")
    ledger.work.learn(Calibrations({"m": Calibration()}))
    ledger.work.settle(session)
    owner.release(session)
    owner.close()
    memo = ledger.memos.save("Ports begin at 4100.", ["ports"])
    ledger.memos.edit(memo.id, content="Ports begin at 4200.")
    assert [found.id for found in ledger.memos.relevant("which ports")] == [memo.id]
    ledger.memos.delete(ledger.memos.save("gone", ["gone"]).id)


def look(ledger: Ledger, session: int) -> list[object]:
    """Read everything that can be read, without what is random."""
    with pytest.raises(NotFound):
        ledger.sessions.get(99)
    last = ledger.window(session)[-1]
    return [
        prompts(ledger, session, Window(2, slack=1)),
        prompts(ledger, session, TokenWindow(40)),
        [entry.message for entry in ledger.messages(session)],
        ledger.message(last.id).message,
        [group.prompt for group in ledger.groups.recent(session)],
        ledger.groups.goes_on(session),
        ledger.states.current(session),
        [state.text for state in ledger.states.history(session)],
        ledger.states.rebuild(session),
        ledger.strategy_states.current(session),
        ledger.strategy_states.before(session, last.group_id),
        ledger.scratchpad.read(session),
        ledger.threads.keys("talk", before="9"),
        ledger.threads.get("talk", ""),
        ledger.accounts.requests(session),
        ledger.accounts.totals(),
        ledger.accounts.totals(session),
        ledger.accounts.by_group(session),
        ledger.accounts.outcomes(session),
        [receipt.body for receipt in ledger.accounts.receipts(session)],
        ledger.accounts.loose(session, 0),
        ledger.work.open(session),
        ledger.work.calibrations(),
        [memo.content for memo in ledger.memos.recent()],
        [memo.content for memo in ledger.memos.tagged(["ports"])],
        [memo.content for memo in ledger.memos.search("begin")],
        [(found.name, found.title) for found in ledger.sessions.recent()],
        ledger.sessions.latest(project="/p").name,
        ledger.sessions.resolve("talk").id,
        ledger.query("SELECT count(*) FROM messages", session_id=session).rows,
        ledger.find(session, "question 3", limit=3, chars=60),
        [(hit.role, hit.excerpt) for hit in ledger.search("question", session_id=session)],
        [found.title for found in ledger.sessions.overview(project="/p")],
    ]


def whole(path: Path, ledger: Ledger) -> list[object]:
    """Do everything that a ledger does; what was seen."""
    session = converse(ledger)
    work(ledger, session)
    clone = ledger.sessions.clone(session)
    copy = ledger.import_(ledger.export(session), name="a copy")
    seen: list[object] = [look(ledger, number) for number in (session, clone.id)]
    seen.append([entry.message for entry in ledger.messages(copy.id)])
    ledger.sessions.rename(copy.id, "copy")
    ledger.sessions.switch(session)
    ledger.sessions.set_window(session, Window(3))
    ledger.sessions.delete(copy.id, confirm="copy")
    assert ledger.revision() > 0
    assert ledger.verify().findings == ()
    assert ledger.backup(path.with_name("backup.db")).is_file()
    return seen


def test_a_second_engine_needs_what_the_interface_names_and_all_of_that(tmp_path: Path) -> None:
    StrictStore.used.clear()
    (tmp_path / "plain").mkdir()
    with Ledger(tmp_path / "l.db", clock=FakeClock(), engine=StrictStore) as ledger:
        seen = whole(tmp_path / "l.db", ledger)
    with Ledger(tmp_path / "plain" / "l.db", clock=FakeClock()) as plain:
        assert whole(tmp_path / "plain" / "l.db", plain) == seen
        with closing(StrictStore(tmp_path / "copy.db")) as copy:
            assert copy_ledger(plain._store, copy).copied == 3  # two sessions and a memo
    assert StrictStore.used == {*READING, *CHANGING, *STORE}
