"""Large files in an object store: there as they were said, once, found damaged, and forgotten."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from context.ledger.helpers import file, said
from sightline.cli.main import cli
from sightline.context.ledger import Ledger, Session
from sightline.context.messages.parts import File, Message
from sightline.errors import (
    InvalidInput,
    LedgerDamaged,
    LedgerUnavailable,
    LedgerUnusable,
    MissingExtra,
)
from support import s3


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "shelf"


@pytest.fixture
def url(shelf: Path) -> str:
    return f"file://{shelf}"


@pytest.fixture
def ledger(where: str | Path, url: str) -> Iterator[Ledger]:
    with Ledger(where, attachments=url) as opened:
        yield opened


def objects(shelf: Path, *sessions: Session) -> list[Path]:
    owners = [shelf / session.uuid for session in sessions] or [shelf]
    return sorted(path for owner in owners for path in owner.rglob("*") if path.is_file())


def test_a_message_comes_back_as_it_was_said(
    ledger: Ledger, where: str | Path, session: Session, shelf: Path, url: str
) -> None:
    odd = File(
        "data:image/png;base64," + "QQ" * 4000 + "=", "image/png"
    )  # not as we would write it
    messages = [said(1, 1), said(2), Message("user", (file(3, 99), odd)), said(1)]
    for number, message in enumerate(messages):
        for _ in range(2):  # a retry finds what is stored
            [stored] = ledger.append(session.id, [message], key=f"{number}")
            assert stored.message == message
    assert [path.parent.name for path in objects(shelf)] == [session.uuid] * 2
    assert shelf.stat().st_mode & 0o077 == 0
    imported = ledger.import_(ledger.export(session.id))
    cloned = ledger.sessions.clone(session.id)
    with Ledger(where, mode="read", attachments=url) as again:
        for one in (session, imported, cloned):
            assert [entry.message for entry in again.window(one.id)] == messages
            assert [entry.message for entry in again.messages(one.id)] == messages
            assert len(objects(shelf, one)) == 2
        assert again.verify().ok
        rows = again.query("SELECT parts FROM messages ORDER BY id", session_id=session.id).rows
        assert len(str(rows[0])) < 600


def test_what_is_lost_or_altered_is_found_and_never_shown(
    ledger: Ledger, where: str | Path, session: Session, shelf: Path, url: str
) -> None:
    ledger.append(session.id, [said(1)])
    ledger.append(session.id, [said(2)])
    ledger.groups.undo(session.id)  # what waits for a redo is looked at, too
    seals = ledger.verify().seals
    altered, lost = objects(shelf)
    altered.write_bytes(altered.read_bytes()[:-1] + b"!")
    lost.unlink()
    report = ledger.verify()
    assert sorted(report.findings) == sorted([
        f"session {session.id}: attachment {session.uuid}/{altered.name} in {url} was altered",
        f"session {session.id}: attachment {session.uuid}/{lost.name} is not in {url}",
    ])  # fmt: skip
    assert ledger.verify(since=seals).ok  # damage to what lies still is a whole one's to find
    with Ledger(where, mode="read", attachments=url) as again:
        with pytest.raises(LedgerDamaged):
            list(again.messages(session.id))
        assert [entry.message.text for entry in again.messages(session.id, whole=False)]
    with Ledger(where) as elsewhere:
        for ask in (elsewhere.verify, lambda: list(elsewhere.messages(session.id))):
            with pytest.raises(LedgerUnusable, match=r"ledger\.attachments"):
                ask()
        with pytest.raises(LedgerUnusable, match=r"ledger\.attachments"):
            elsewhere.sessions.delete(session.id, confirm=session.uuid)
        assert elsewhere.sessions.get(session.id).groups == 1
    ledger.sessions.delete(session.id, confirm=session.uuid)


def test_what_is_removed_is_gone_from_the_store_and_nothing_else(
    ledger: Ledger, session: Session, shelf: Path
) -> None:
    for seed in (1, 2, 2, 3):
        ledger.append(session.id, [said(seed)])
    clone = ledger.sessions.clone(session.id)
    first, second, *_ = [group.id for group in ledger.groups.recent(session.id)]
    ledger.groups.remove(session.id, first)
    ledger.groups.remove(session.id, second)  # another message has the same file
    assert len(objects(shelf, session)) == 2
    ledger.groups.undo(session.id)
    assert len(objects(shelf, session)) == 2
    assert ledger.groups.redo(session.id)
    ledger.groups.undo(session.id)
    ledger.append(session.id, [Message("user", "on")])
    assert len(objects(shelf, session)) == 1
    while popped := ledger.groups.pop(session.id):
        assert popped.message in (said(2), Message("user", "on"))
    assert objects(shelf, session) == []
    assert len(objects(shelf, clone)) == 3
    ledger.groups.clear(clone.id)
    assert objects(shelf) == []
    ledger.append(clone.id, [said(1)])
    (shelf / clone.uuid / "0").write_bytes(b"of an append that was killed")
    ledger.sessions.delete(clone.id, confirm=clone.uuid)
    assert objects(shelf) == []


def test_what_came_to_nothing_leaves_nothing(ledger: Ledger, session: Session, shelf: Path) -> None:
    ledger.append(session.id, [said(1)])
    lines = list(ledger.export(session.id))
    with pytest.raises(InvalidInput):
        ledger.import_([*lines, b"no line"])
    assert objects(shelf) == objects(shelf, session)


def test_a_copy_brings_what_it_names_into_its_own_store(
    ledger: Ledger, session: Session, shelf: Path, url: str, tmp_path: Path
) -> None:
    ledger.append(session.id, [said(1)])
    ledger.append(session.id, [said(2)])
    ledger.groups.undo(session.id)
    with Ledger(tmp_path / "copy.db") as copy, pytest.raises(InvalidInput, match="needs one"):
        ledger.copy_into(copy)
    for target, copies in ((f"file://{tmp_path / 'other'}", 2), (url, 0)):
        before = len(objects(tmp_path))
        with Ledger(tmp_path / f"copy{copies}.db", attachments=target) as copy:
            for _ in range(2):
                ledger.copy_into(copy)
            copy.groups.redo(session.id)
            assert [entry.message for entry in copy.window(session.id)] == [said(1), said(2)]
        assert len(objects(tmp_path / "other")) == 2
        assert len(objects(shelf)) == 2
        assert len(objects(tmp_path)) >= before + copies
    backup = ledger.backup(tmp_path / "backup.db")
    with Ledger(backup, mode="read", attachments=url) as again:
        assert [entry.message for entry in again.messages(session.id)] == [said(1)]


def test_a_name_cannot_lead_out_of_the_store(
    ledger: Ledger, session: Session, tmp_path: Path
) -> None:
    attachments = ledger._store.attachments
    for owner in ("..", "../..", "/etc", "", f"{session.uuid}/..", session.uuid.upper() + "\n"):
        for ask in (lambda owner=owner: attachments.keep(owner, b"x"),
                    lambda owner=owner: attachments.get(f"{owner}/{'0' * 64}"),
                    lambda owner=owner: attachments.sweep(owner)):  # fmt: skip
            with pytest.raises(LedgerDamaged, match="no name"):
                ask()
    assert not list(tmp_path.glob("x*"))


@pytest.mark.of_a_file
def test_a_bucket_of_s3_keeps_them_and_one_that_is_away_loses_nothing(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"s3://{s3.BUCKET}/of/ours"
    with s3.bucket() as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        bucket.objects["of/others"] = b"theirs"
        with Ledger(where, attachments=address) as ledger:
            session = ledger.sessions.create()
            ledger.append(session.id, [said(1)])
            ledger.append(session.id, [said(2)])
            kept = [key for key in bucket.objects if key != "of/others"]
            assert all(key.startswith(f"of/ours/{session.uuid}/") for key in kept)
            [group, _] = ledger.groups.recent(session.id)
            ledger.groups.remove(session.id, group.id)
            assert len(bucket.objects) == 2
            assert ledger.verify().ok
    with Ledger(where, attachments=address) as ledger:
        before = list(ledger.messages(session.id, whole=False))
        for ask in (
            lambda: ledger.append(session.id, [said(3)], key="k"),
            lambda: list(ledger.messages(session.id)),
            lambda: ledger.sessions.delete(session.id, confirm=session.uuid),
            ledger.verify,
        ):
            with pytest.raises(LedgerUnavailable, match=address):
                ask()
        assert list(ledger.messages(session.id, whole=False)) == before
        ledger.append(session.id, [Message("user", "what has no files goes on")])


@pytest.mark.of_a_file
def test_an_address_that_cannot_be_is_one_clear_line(
    where: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("")
    for address in ("ftp://x/y", "s3:", f"file://{tmp_path}/taken", "file://host/x", "file:x"):
        with pytest.raises(InvalidInput, match=r"attachments|directory") as refused:
            Ledger(where, attachments=address)
        assert "\n" not in str(refused.value)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(MissingExtra, match=r"\[attachments\]"):
        Ledger(where, attachments="s3://b")


@pytest.mark.of_a_file
def test_the_commands_use_the_store_of_the_settings(
    where: Path, shelf: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(where, attachments=url) as ledger:
        session = ledger.sessions.create("kept")
        ledger.append(session.id, [said(1)])
    settings = tmp_path / "home" / "sightline" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'ledger.attachments = "{url}"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    other = f"file://{tmp_path / 'other'}"
    runner = CliRunner()
    for command in (
        ["verify", "--db", str(where)],
        ["copy", str(where), str(tmp_path / "copy.db"), "--attachments", other],
        ["sessions", "--db", str(where), "delete", "kept", "--yes"],
    ):
        result = runner.invoke(cli, ["ledger", *command])
        assert result.exit_code == 0, (command, result.output, result.exception)
    assert objects(shelf) == []
    assert len(objects(tmp_path / "other")) == 1
