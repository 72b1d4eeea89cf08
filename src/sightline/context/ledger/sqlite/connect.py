"""Open a ledger file, and name what can go wrong with it.

For writing: the file is made with mode 0600 in directories of mode 0700, WAL,
`synchronous=FULL` (with the full barrier where the system has one), brought to
the current format. For reading: from read-only media too. Every SQLite error
leaves as one of ours, in one sentence.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from uuid import uuid4

import apsw

from sightline.context.ledger.attachments import sync
from sightline.context.ledger.rows import Row
from sightline.context.ledger.seal import ZERO, seal
from sightline.context.ledger.sqlite.admission import Admission, admit
from sightline.context.ledger.sqlite.rows import SqliteWriter
from sightline.context.ledger.sqlite.steps import FORMAT, bring, migrate
from sightline.errors import InvalidInput, LedgerDamaged, LedgerUnavailable, LedgerUnusable

BUSY_TIMEOUT_MS: Final = 60_000
_MAX_SQL_BYTES: Final = 100_000

Opened: TypeAlias = tuple[apsw.Connection, Admission]


def open_for_writing(path: Path, now: str, vfs: str | None = None) -> Opened:
    """Open a ledger and migrate it. Creates the file and its directories if they are missing."""
    _create(path)
    connection = apsw.Connection(str(path), vfs=vfs)
    with _closed_on_error(connection):
        _configure(connection)
        # Before the first change: a file that is rejected stays as it was.
        admission = admit(connection, path)
        if connection.readonly("main"):
            raise LedgerUnusable(f"{path} cannot be written; it can be opened for reading")
        _switch_to_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        # What is removed is overwritten, not merely unlinked from its page.
        connection.execute("PRAGMA secure_delete = ON")
        if admission.version < FORMAT:
            migrate(connection, reached=partial(bring, connection, path, now))
        if admission.ledger_id is None:
            admission = admission._replace(ledger_id=_found(connection, now))
    return connection, admission


def open_for_reading(path: Path) -> Opened:
    """Open without writing anything, from media that cannot be written too.

    A reader of a WAL database shares memory with writers through a file beside it.
    Where that file cannot be made nobody writes either, and the ledger is read as
    the immutable file it is, provided no write-ahead log waits beside it.
    """
    try:
        is_ledger = stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_ledger = False
    except OSError as error:
        raise LedgerUnusable(f"{path} cannot be opened: {error.strerror}") from error
    if not is_ledger:
        raise LedgerUnusable(f"there is no ledger at {path}")
    try:
        return _opened_for_reading(path, "mode=ro")
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        log = path.with_name(path.name + "-wal")
        if log.is_file() and log.stat().st_size:
            raise LedgerUnusable(
                f"{path} has a write-ahead log that cannot be read here; copy both files to a "
                "place that can be written"
            ) from error
        return _opened_for_reading(path, "immutable=1")


def _found(connection: apsw.Connection, now: str) -> str:
    """Return the id of a ledger. A ledger without one receives it."""
    row: Row = {"id": 1, "uuid": str(uuid4()), "created_at": now, "activity": 0, "tally": ZERO}
    SqliteWriter(connection).insert_once("ledger", {**row, "digest": seal("ledger", row)})
    return str(connection.execute("SELECT uuid FROM ledger").get)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite raises as an error of ours, in one sentence."""
    try:
        yield
    # SQL of ours is wrong only where the tables are not as we made them.
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError) as error:
        raise LedgerDamaged([f"{path}: {error}"]) from error
    except apsw.InterruptError as error:
        reason = "a statement takes more steps than a ledger of this size needs"
        raise LedgerDamaged([f"{path}: {reason}"]) from error
    except apsw.BusyError as error:
        raise LedgerUnavailable(f"{path} has been locked by another program too long") from error
    except apsw.FullError as error:
        raise LedgerUnavailable(f"no space left to write {path}; nothing was stored") from error
    except apsw.ReadOnlyError as error:
        raise LedgerUnusable(f"{path} cannot be written: {error}") from error
    except (apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError) as error:
        raise LedgerUnusable(f"{path} cannot be opened: {error}") from error
    except OverflowError as error:
        raise InvalidInput("a number of more than 64 bits names nothing in a ledger") from error
    except apsw.IOError as error:
        raise LedgerUnavailable(f"{path}: input/output error ({error})") from error


def sqlite_version() -> str:
    """Tell which SQLite ledgers are written by."""
    return apsw.sqlite_lib_version()


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            if not path.is_file():
                raise LedgerUnusable(f"{path} is not a file")
            return
        with contextlib.suppress(FileExistsError):  # another process made it meanwhile
            make_file(path)
        sync(path.parent)
    except OSError as error:
        raise LedgerUnusable(f"{path} cannot be made: {error.strerror}") from error


def make_file(path: Path) -> None:
    """Make an empty file that nobody else can read. Raises `FileExistsError` if there is one."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _opened_for_reading(path: Path, how: str) -> Opened:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{path.absolute().as_uri()}?{how}", flags=flags)
    with _closed_on_error(connection):
        _configure(connection)
        admission = admit(connection, path)
        if admission.version < FORMAT:
            raise LedgerUnusable(
                f"{path} has the older format {admission.version}; "
                "open it once for writing, or a copy of it"
            )
    return connection, admission


@contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _switch_to_wal(connection: apsw.Connection) -> None:
    """Turn WAL on; the first time needs the file alone, which SQLite does not wait for."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _configure(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    # Plans do not depend on bound values; without this each range read is planned anew.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("PRAGMA cell_size_check = ON")
    # SQLite reads the schema before anything can be compared.
    connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, _MAX_SQL_BYTES)
