"""How a ledger file is made and opened: private, for reading anywhere, never by mistake."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from context.ledger.helpers import file_of, fill
from sightline.context.ledger import Ledger
from sightline.context.ledger.paths import default_path
from sightline.context.ledger.sqlite import connect
from sightline.context.ledger.store import Mode
from sightline.errors import LedgerDamaged, LedgerUnavailable, LedgerUnusable


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A directory that others can look into, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


def test_file_log_and_shared_memory_are_private(tmp_path: Path) -> None:
    os.umask(os.umask(0))  # whatever the umask is, the mode is ours
    path = tmp_path / "deep" / "er" / "ledger.db"
    with Ledger(path) as ledger:
        fill(ledger, ledger.sessions.create("s").id, 1)
        modes = {
            file.name: stat.S_IMODE(file.stat().st_mode) for file in sorted(path.parent.iterdir())
        }
    assert modes == {"ledger.db": 0o600, "ledger.db-shm": 0o600, "ledger.db-wal": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_settings_are_those_that_keep_what_is_acknowledged(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        connection = file_of(ledger)._connection
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("secure_delete") == 1
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


def test_a_ledger_on_media_that_cannot_be_written_opens_for_reading(shelf: Path) -> None:
    path = shelf / "l.db"
    with Ledger(path) as ledger:
        fill(ledger, ledger.sessions.create("s").id, 2)
    path.chmod(0o444)
    shelf.chmod(0o555)
    ran = subprocess.run(
        [sys.executable, Path(__file__).parent / "read_only_media.py", path],
        capture_output=True,
        check=False,
        text=True,
    )
    assert ran.stdout.splitlines() == ["8 messages, ()", "ledger_unusable"], ran.stderr


def test_a_log_left_on_media_that_cannot_be_written_is_not_passed_over(shelf: Path) -> None:
    path = shelf / "l.db"
    ledger = Ledger(path)
    fill(ledger, ledger.sessions.create("s").id, 2)
    crashed = shelf / "crashed"
    crashed.mkdir()
    for file in ("l.db", "l.db-wal"):
        (crashed / file).write_bytes((shelf / file).read_bytes())
        (crashed / file).chmod(0o444)
    crashed.chmod(0o555)
    ledger.close()
    ran = subprocess.run(
        [sys.executable, Path(__file__).parent / "read_only_media.py", crashed / "l.db"],
        capture_output=True,
        check=False,
        text=True,
    )
    crashed.chmod(0o755)
    assert "ledger_unusable" in ran.stdout, ran.stderr
    assert "write-ahead log" in ran.stdout


def test_a_reader_sees_what_a_writer_stores(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as writer, Ledger(tmp_path / "l.db", mode="read") as reader:
        session = writer.sessions.create("s")
        fill(writer, session.id, 3)
        assert len(reader.window(session.id)) == 12
        with pytest.raises(LedgerUnusable, match="for reading only"):
            reader.sessions.rename(session.id, "x")


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_foreign_database_is_refused_and_untouched(tmp_path: Path, mode: Mode) -> None:
    path = tmp_path / "theirs.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerUnusable, match="not a ledger"):
        Ledger(path, mode=mode)
    assert path.read_bytes() == before


def test_what_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is a text, and long enough to be looked at as a header " * 20)
    with pytest.raises(LedgerDamaged, match="not a database"):
        Ledger(path)


def test_a_place_where_no_file_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerUnusable, match="is not a file"):
        Ledger(tmp_path)
    with pytest.raises(LedgerUnusable, match="cannot be made"):
        Ledger(tmp_path / "file" / "l.db")
    with pytest.raises(LedgerUnusable, match="no ledger at"):
        Ledger(tmp_path / "missing.db", mode="read")


def test_a_ledger_locked_for_too_long_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "BUSY_TIMEOUT_MS", 1)
    with Ledger(tmp_path / "l.db") as ledger:
        other = apsw.Connection(str(tmp_path / "l.db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailable, match="locked by another program"):
            ledger.sessions.create("s")
        other.execute("ROLLBACK")
        other.close()
        ledger.sessions.create("s")


def test_a_new_ledger_locked_for_too_long_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "BUSY_TIMEOUT_MS", 1)
    path = tmp_path / "l.db"
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerUnavailable, match="locked by another program"):
        Ledger(path)
    other.close()


def test_the_place_is_the_environments_or_the_users_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SIGHTLINE_LEDGER", str(tmp_path / "mine.db"))
    assert default_path() == tmp_path / "mine.db"
    monkeypatch.delenv("SIGHTLINE_LEDGER")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path().name == "ledger.db"
    assert "sightline" in default_path().parts
