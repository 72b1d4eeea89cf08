"""The file of the wire journal: opened for its owner alone, begun anew if it is no good."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw
import msgspec

from sightline.context.ledger.sqlite.rows import fetch
from sightline.errors import LedgerUnavailable

APPLICATION_ID: Final = int.from_bytes(b"SLGW", "big")
FORMAT: Final = 2

_SCHEMA: Final = """
CREATE TABLE requests (
    id INTEGER PRIMARY KEY, session_id INTEGER, group_id INTEGER, turn INTEGER, number INTEGER,
    receipt_id INTEGER, segment INTEGER, base INTEGER, place INTEGER, sent_at TEXT, model TEXT,
    digest TEXT, bytes INTEGER, boundary INTEGER, prompt BLOB, tools BLOB, profile BLOB,
    options BLOB, world BLOB, receipt BLOB, size INTEGER, outcome TEXT, timings BLOB);
CREATE INDEX requests_by_place ON requests (session_id, turn, number);
CREATE INDEX requests_by_segment ON requests (segment);
CREATE TABLE pieces (digest BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID;
"""
# Beside the requests, in files of before there were any too: nobody else looks for them.
_TAILS: Final = """
CREATE TABLE IF NOT EXISTS tails (
    id INTEGER PRIMARY KEY, session TEXT, sent_at TEXT, data BLOB);
CREATE INDEX IF NOT EXISTS tails_by_session ON tails (session);
"""
# Format 1 held what is in the ledger since its format 5 (`context.ledger.takeover`).
_WITHOUT_WORK: Final = """
DROP TABLE partials;
DROP TABLE calls;
DROP TABLE owners;
DROP TABLE strategy_states;
DROP TABLE notes;
"""


def open_journal(path: Path, *, read_only: bool) -> apsw.Connection:
    """Open the file; one that is damaged or of another format is begun anew."""
    if read_only:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"{path.absolute().as_uri()}?mode=ro", flags=flags)
    try:
        return _configured(path)
    except (apsw.NotADBError, apsw.CorruptError, OtherFormatError):
        for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            name.unlink(missing_ok=True)
        return _configured(path)


class OtherFormatError(Exception):
    """The file is not a journal of this format."""


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise whatever goes wrong with the file as one error, in one sentence."""
    try:
        yield
    except (apsw.Error, OSError, msgspec.DecodeError) as error:
        raise LedgerUnavailable(f"{path}: {error}") from error


def _configured(path: Path) -> apsw.Connection:
    if not path.exists():
        # A ledger in a database has no directory here that somebody would have made.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The log of a file that was deleted is no log of the one that is made now.
        for end in ("-wal", "-shm"):
            path.with_name(f"{path.name}{end}").unlink(missing_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(10_000)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        # Survives the death of the program; the power may take the last second of it.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        _found(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _found(connection: apsw.Connection) -> None:
    """Make the tables of a new file; raise if there are others."""
    [(version,)] = fetch(connection, "PRAGMA user_version")
    [(tables,)] = fetch(connection, "SELECT count(*) FROM sqlite_schema")
    if version == FORMAT:
        connection.execute(_TAILS)
        return
    if version == 1:
        connection.execute(_WITHOUT_WORK)
    elif version or tables:
        raise OtherFormatError
    else:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(_SCHEMA)
    connection.execute(_TAILS)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
