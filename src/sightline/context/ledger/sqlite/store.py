"""One SQLite file, opened so that what is acknowledged stays.

A write is one `BEGIN IMMEDIATE … COMMIT` with `synchronous=FULL` in WAL mode:
when a `write()` block has ended, its change is on the disk; when it raises,
nothing was acknowledged, and a retry with the same key stores nothing twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar, Final, Self

import apsw

from sightline.context.ledger.paths import expanded
from sightline.context.ledger.retrieval import QueryLimits, QueryResult, SearchHit
from sightline.context.ledger.rows import RowReader, RowWriter
from sightline.context.ledger.sqlite.backup import backup
from sightline.context.ledger.sqlite.connect import (
    found,
    open_for_reading,
    open_for_writing,
    translated,
)
from sightline.context.ledger.sqlite.presence import attend, bury, is_held
from sightline.context.ledger.sqlite.process import QueryProcess
from sightline.context.ledger.sqlite.rows import SqliteReader, SqliteWriter, fetch
from sightline.context.ledger.sqlite.search import index_rest, search_messages
from sightline.context.ledger.sqlite.steps import NUMBERED
from sightline.context.ledger.store import Clock, Mode, Store, Watch, now_utc
from sightline.errors import SightlineError

_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError)


class SqliteStore(Store):
    """A connection to one ledger file."""

    damage: ClassVar[tuple[type[Exception], ...]] = _DAMAGE

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "write",
        clock: Clock = now_utc,
        vfs: str | None = None,
    ) -> None:
        super().__init__(expanded(path), mode=mode, clock=clock)
        self._lock = threading.RLock()
        self._level = "FULL"
        self._process = QueryProcess(self.path)
        with translated(self.path):
            if mode == "write":
                self._connection = open_for_writing(self.path, self.timestamp(), vfs)
                found(self._connection, self.timestamp())
            else:
                self._connection = open_for_reading(self.path)
        self._reading = SqliteReader(self._connection)

    def reader(self) -> Self:
        return type(self)(self.path, mode="read", clock=self._clock)

    def close(self) -> None:
        self._process.close()
        with self._lock, translated(self.path):
            self._connection.close()

    @contextmanager
    def read(self) -> Iterator[RowReader]:
        with self._lock, translated(self.path):
            if self._connection.in_transaction:  # a reader inside a reader sees the same
                yield self._reading
                return
            self._connection.execute("BEGIN")
            try:
                yield self._reading
            finally:
                self._connection.execute("COMMIT")

    @contextmanager
    def _change(self, *, durable: bool) -> Iterator[RowWriter]:
        with self._lock, translated(self.path):
            self._synchronise("FULL" if durable else "NORMAL")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                changing = SqliteWriter(self._connection)
                yield changing
                changing.finish()
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _synchronise(self, level: str) -> None:
        if self._level != level:
            # Not from the cache of statements: it takes effect when it is compiled.
            self._connection.execute(f"PRAGMA synchronous = {level}", can_cache=False)
            self._level = level

    def revision(self) -> int:
        with self.read() as db:
            [(activity,)] = db.fetch("SELECT activity FROM ledger")
            [(others,)] = db.fetch("PRAGMA data_version")
        return int(activity) + int(others)

    def scrub(self, *, shrink: bool = False) -> None:
        """Empty the write-ahead log into the file; what is removed is overwritten there.

        Readers may hold it back; then it happens when they are done.
        """
        with self._lock, translated(self.path):
            if shrink:
                self._connection.execute("VACUUM")
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def check(self) -> list[str]:
        try:
            with closing(self.reader()) as reader, reader.read():
                return [
                    *_guarded("numbers", lambda: _numbers(reader._connection)),
                    *_guarded("pages", lambda: _pages(reader._connection)),
                ]
        except SightlineError as error:
            return [str(error)]

    def backup(
        self, target: Path, check: Callable[[Store], None], copying: Watch | None = None
    ) -> None:
        def checked(partial: Path) -> None:
            with closing(type(self)(partial, mode="read")) as copy:
                check(copy)

        backup(target, lambda copy: self._copy_into(copy, copying), checked)

    def _copy_into(self, target: apsw.Connection, watch: Watch | None) -> None:
        with (
            self._lock,
            translated(self.path),
            target.backup("main", self._connection, "main") as copy,
        ):
            while not copy.done:
                copy.step(1000)
                if watch is not None:
                    watch(copy.page_count - copy.remaining, copy.page_count)

    def query(self, sql: str, session_id: int | None, limits: QueryLimits) -> QueryResult:
        return self._process.query(sql, session_id, limits)

    def find(self, session_id: int, text: str, limit: int, chars: int) -> QueryResult:
        return self._process.find(session_id, text, limit, chars)

    def search(self, text: str, session_id: int | None, limit: int) -> list[SearchHit]:
        if self.mode == "write":
            index_rest(self._connection, lambda: self._change(durable=False))
        with self.read():
            return search_messages(self._connection, text, session_id, limit)

    def attend(self, name: str) -> Callable[[], None]:
        return attend(self.path, name)

    def attends(self, name: str) -> bool:
        return is_held(self.path, name)

    def bury(self, name: str) -> None:
        bury(self.path, name)


def _guarded(what: str, look: Callable[[], list[str]]) -> list[str]:
    """Look at something; what is too broken to be read is a finding, not a crash."""
    try:
        return look()
    except _DAMAGE as error:
        return [f"the {what} cannot be read: {error}"]


def _pages(connection: apsw.Connection) -> list[str]:
    """Let SQLite check its pages and indexes."""
    rows = fetch(connection, "PRAGMA integrity_check(50)")
    return [f"SQLite: {finding}" for (finding,) in rows if finding != "ok"]


def _numbers(connection: apsw.Connection) -> list[str]:
    """Compare the highest number given with those in use; a lower one would be given again."""
    findings = []
    rows = fetch(connection, "SELECT name, seq FROM sqlite_sequence")
    given = dict(rows)
    if len(given) < len(rows) or not given.keys() <= set(NUMBERED):
        findings.append("sqlite_sequence has rows of no table, or two of one")
    for table in NUMBERED:
        highest = connection.execute(f"SELECT max(id) FROM {table}").get or 0
        last = given.get(table, 0)
        if not isinstance(last, int) or last < highest:
            findings.append(f"{table}: number {highest} is in use, sqlite_sequence says {last!r}")
    return findings
