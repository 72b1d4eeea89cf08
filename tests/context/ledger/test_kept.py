"""Large files in the ledger itself: stored once, with their message, and gone with the last."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from context.ledger.helpers import behind, contents, file, said, tamper
from sightline.context.ledger import Ledger, Session, codec
from sightline.context.ledger.sqlite import connect, steps
from sightline.context.ledger.threads import Checkpoint, CheckpointKey
from sightline.context.ledger.writer import Writer
from sightline.context.messages.parts import File, Message
from sightline.errors import InvalidInput, LedgerDamaged, LedgerUnusable
from support import postgres

SIZE = 300_000


def stored(where: str | Path, session: Session | None = None) -> list[int]:
    """The sizes of the files that are in the ledger, of all sessions or of one."""
    chosen = "" if session is None else f"WHERE session_id = {session.id:d} "
    with behind(where) as execute:
        rows = execute(f"SELECT size, length(data) FROM attachments {chosen}ORDER BY 1").fetchall()
    assert all(size == length for size, length in rows)
    return [size for size, _ in rows]


def test_equal_bytes_are_stored_once_in_a_session_and_every_reader_has_them(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    picture = Message("user", (file(1, SIZE), file(2, 99)))
    [first] = ledger.append(session.id, [picture])
    before = ledger.sessions.weight(session.id)
    assert before > SIZE
    for number in range(3):
        for _ in range(2):  # a retry finds what is stored
            [entry] = ledger.append(session.id, [picture], key=f"{number}")
            assert entry.message == picture
    assert ledger.sessions.weight(session.id) - before < 3000
    clone = ledger.sessions.clone(session.id)
    imported = ledger.import_(ledger.export(session.id))
    assert stored(where, session) == [SIZE]
    with Ledger(where, mode="read") as again:
        assert again.message(first.id).message == picture
        assert again.groups.show(session.id, first.group_id)[0].message == picture
        for one in (session, clone, imported):
            assert [entry.message for entry in again.window(one.id)] == [picture] * 4
            assert [entry.message for entry in again.messages(one.id)] == [picture] * 4
        short = [entry.message.parts[0] for entry in again.messages(session.id, whole=False)]
        assert all(isinstance(part, File) and len(part.uri) < 99 for part in short)
        assert again.verify().ok
        assert len(list(again.export(session.id))) == 5
    assert stored(where) == [SIZE] * 3


def test_a_small_file_and_one_that_is_written_otherwise_stay_in_their_message(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    odd = File("data:image/png;base64," + "QQ" * 4000 + "=", "image/png")
    message = Message("user", (file(1, 4095), odd, File("https://example.org/a.png", "image/png")))
    ledger.append(session.id, [message])
    assert stored(where) == []
    assert [entry.message for entry in ledger.messages(session.id)] == [message]


def test_what_nothing_names_any_more_is_gone_in_the_same_change_and_nothing_else(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    for seed in (1, 2, 2, 3):
        ledger.append(session.id, [said(seed)])
    clone = ledger.sessions.clone(session.id)
    first, second, *_ = [group.id for group in ledger.groups.recent(session.id)]
    ledger.groups.remove(session.id, first)
    ledger.groups.remove(session.id, second)  # another message has the same file
    assert len(stored(where, session)) == 2
    ledger.groups.undo(session.id)
    assert len(stored(where, session)) == 2
    ledger.groups.redo(session.id)
    assert ledger.window(session.id)[-1].message == said(3)
    ledger.groups.undo(session.id)
    ledger.append(session.id, [Message("user", "on")])
    assert len(stored(where, session)) == 1
    while popped := ledger.groups.pop(session.id):
        assert popped.message in (said(2), Message("user", "on"))
    assert stored(where, session) == []
    assert len(stored(where, clone)) == 3
    assert ledger.verify().ok
    ledger.groups.clear(clone.id)
    assert stored(where) == []
    ledger.append(clone.id, [said(1)])
    ledger.sessions.delete(clone.id, confirm=clone.uuid)
    assert stored(where) == []
    assert ledger.verify().ok


def test_a_file_that_was_undone_and_is_said_again_is_there(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    ledger.append(session.id, [said(1, 2)])
    ledger.groups.undo(session.id)
    ledger.append(session.id, [said(1)])
    assert len(stored(where)) == 1
    with Ledger(where, mode="read") as again:
        assert [entry.message for entry in again.window(session.id)] == [said(1)]
        assert again.verify().ok


def test_what_is_lost_altered_or_left_over_is_found_and_never_shown(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    for seed in (1, 2):
        ledger.append(session.id, [said(seed)])
    ledger.groups.undo(session.id)  # what waits for a redo is looked at, too
    rows = contents(where)["attachments"]
    names = [f"{session.id}/{digest}" for _, digest, *_ in rows]
    picture = f"WHERE sha256 = '{rows[0][1]}'"
    zero = "'\\000'" if isinstance(where, str) else "zeroblob(1)"
    shown = f"session {session.id}: attachment"
    for change, found in (
        (f"UPDATE attachments SET data = {zero} {picture}",
         f"{shown} {names[0]} in the ledger was altered"),
        (f"UPDATE attachments SET size = 1 {picture}",
         f"{shown} {names[0]} in the ledger was altered"),
        (f"DELETE FROM attachments {picture}", f"{shown} {names[0]} is not in the ledger"),
        (f"UPDATE attachments SET session_id = 99 {picture}",
         f"{shown} {names[0]} is not in the ledger"),
        ("INSERT INTO attachments (session_id, sha256, size, data) "
         f"VALUES ({session.id}, 'x', 1, {zero})",
         "3 rows in attachments, but the sessions have 2"),
    ):  # fmt: skip
        tamper(where, change)
        assert found in ledger.verify().findings, change
        tamper(where, "DELETE FROM attachments")
        for row in rows:
            with ledger._store.work(durable=True) as db:
                columns = ("session_id", "sha256", "size", "data")
                db.insert("attachments", dict(zip(columns, row, strict=True)))
        assert ledger.verify().ok
    tamper(where, "DELETE FROM attachments")
    with Ledger(where, mode="read") as again:
        for read in (again.window, again.messages, again.export):
            with pytest.raises(LedgerDamaged, match="not in the ledger"):
                list(read(session.id))
        assert [entry.message.text for entry in again.messages(session.id, whole=False)]


def test_a_change_that_comes_to_nothing_leaves_no_bytes(
    ledger: Ledger, session: Session, where: str | Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append(session.id, [said(1)])
    lines = list(ledger.export(session.id))
    with pytest.raises(InvalidInput):
        ledger.import_([*lines, b"no line"])
    with monkeypatch.context() as broken:
        broken.setattr(Writer, "finish", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ledger.append(session.id, [said(2)])
    assert len(stored(where)) == 1
    assert ledger.verify().ok


KILLED = """
import sys
from context.ledger.helpers import said
from sightline.context.ledger import Ledger
with Ledger(sys.argv[1]) as ledger:
    for number in range(10**6):
        ledger.append(int(sys.argv[2]), [said(number % 7)])
        print(number, flush=True)
"""


def test_who_is_killed_leaves_no_message_without_its_bytes_and_no_bytes_without_a_message(
    ledger: Ledger, session: Session, where: str | Path
) -> None:
    known = 0
    for acknowledged in (1, 3, 9):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(where), str(session.id)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert child.stdout is not None
        for _ in range(acknowledged):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        known += acknowledged + len(child.communicate()[0].splitlines())
        assert ledger.verify().ok
        messages = [entry.message for entry in ledger.messages(session.id)]
        assert len(messages) >= known
        assert all(message in [said(number) for number in range(7)] for message in messages)
        known = len(messages)
    assert len(stored(where)) <= 7


def test_copies_of_any_kind_have_the_bytes(
    ledger: Ledger, session: Session, server: postgres.Server | None, tmp_path: Path
) -> None:
    ledger.append(session.id, [said(1)])
    ledger.append(session.id, [said(2)])
    ledger.groups.undo(session.id)
    back = tmp_path / "back.db" if server is None else server.url(uuid4().hex)
    target = f"file://{tmp_path / 'shelf'}"  # which a copy may have: what is there stays there
    with Ledger(tmp_path / "copy.db", attachments=target) as copy, Ledger(back) as again:
        for _ in range(2):
            ledger.copy_into(copy)
            copy.copy_into(again)
        for one in (copy, again):
            one.groups.redo(session.id)
            assert [entry.message for entry in one.window(session.id)] == [said(1), said(2)]
            one.sessions.delete(session.id, confirm=session.uuid)
    for place in (tmp_path / "copy.db", back):
        assert stored(place) == []
    with Ledger(ledger.backup(tmp_path / "backup.db"), mode="read") as kept:
        assert [entry.message for entry in kept.messages(session.id)] == [said(1)]


def test_an_object_store_that_comes_later_takes_what_is_new(
    where: str | Path, tmp_path: Path
) -> None:
    with Ledger(where) as ledger:
        session = ledger.sessions.create()
        ledger.append(session.id, [said(1)])
    with Ledger(where, attachments=f"file://{tmp_path / 'shelf'}") as ledger:
        ledger.append(session.id, [said(2)])
        assert [entry.message for entry in ledger.window(session.id)] == [said(1), said(2)]
        assert ledger.verify().ok
        assert len(stored(where)) == 1
        for group in ledger.groups.recent(session.id):
            ledger.groups.remove(session.id, group.id)
    assert stored(where) == []
    assert not [path for path in (tmp_path / "shelf").rglob("*") if path.is_file()]


def test_a_checkpoint_of_a_graph_has_the_bytes_of_its_messages(
    ledger: Ledger, where: str | Path
) -> None:
    threads = ledger.threads
    messages = [said(1), Message("assistant", "a picture"), said(1)]
    for number in ("1", "2"):
        checkpoint = Checkpoint(CheckpointKey("t", "", number), None, "k", b"body")
        threads.put(checkpoint, [threads.passed(message) for message in messages])
    threads.copy_thread("t", "u")
    for thread in ("t", "u"):
        found = threads.get(thread, "")
        assert found is not None
        assert found[1] == tuple(messages)
    assert len(stored(where)) == 2
    threads.delete_thread("t")
    assert len(stored(where)) == 1


@pytest.mark.of_a_file
def test_a_ledger_of_the_format_before_goes_on_with_files_in_their_messages(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as then:
        then.setattr(connect, "migrate", partial(steps.migrate, upto=10))
        then.setattr(codec, "_LARGE", 10**9)
        with Ledger(where) as older:
            session = older.sessions.create()
            for seed in (1, 2):
                older.append(session.id, [said(seed)])
            older.groups.undo(session.id)
    rows = "SELECT id, parts, digest FROM messages ORDER BY id"
    with Ledger(where) as ledger, behind(where) as execute:
        before = execute(rows).fetchall()
        ledger.groups.redo(session.id)
        ledger.append(session.id, [said(1)])
        assert execute(rows).fetchall()[:1] == before
        copies = [ledger.sessions.clone(session.id), ledger.import_(ledger.export(session.id))]
        for one in (session, *copies):
            assert [entry.message for entry in ledger.messages(one.id)] == [*map(said, (1, 2, 1))]
        assert ledger.verify().ok
    assert len(stored(where)) == 1 + 2 + 2
    with monkeypatch.context() as then:
        then.setattr(steps, "FORMAT", 10)
        with pytest.raises(LedgerUnusable, match=r"format \d+; .* reads up to 10"):
            Ledger(where)
