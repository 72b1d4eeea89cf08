"""One SQLite file, opened so that what is acknowledged stays.

A write is one `BEGIN IMMEDIATE … COMMIT` with `synchronous=FULL` in WAL mode:
when a `write()` block has ended, its change is on the disk; when it raises,
nothing was acknowledged, and a retry with the same key stores nothing twice.

Words are found in an index that grows when somebody searches. `messages` is indexed up to a
number; whoever may write brings in the rest before it looks. Whoever may only read keeps an
index of the rest for itself, in a table of its connection.

Which processes are alive is told by locks: each holds one on a file of its own beside the ledger,
and the kernel lets go of it when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final, Self

import apsw

import sightline.context.ledger.sqlite.connect as connect
from sightline.context.ledger.attachments import sync
from sightline.context.ledger.paths import expanded, journal_path
from sightline.context.ledger.retrieval import QueryLimits, QueryResult, SearchHit, excerpt
from sightline.context.ledger.rows import RowReader, RowWriter
from sightline.context.ledger.sqlite.admission import compare_schema
from sightline.context.ledger.sqlite.process import QueryProcess
from sightline.context.ledger.sqlite.rows import SqliteReader, SqliteWriter, fetch
from sightline.context.ledger.sqlite.steps import FORMAT, NUMBERED
from sightline.context.ledger.store import Clock, Mode, Store, Watch, now_utc
from sightline.errors import InvalidInput, LedgerUnavailable, LedgerUnusable, SightlineError

_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError)
_NAME: Final = re.compile(r"[0-9a-f]{32}")  # of an owner
_BATCH: Final = 500  # messages in one transaction: nobody waits long to write between two
_REST: Final = "rest_text"
_LONGEST: Final = 1_000
_UNREADABLE: Final = re.compile("[\0\ud800-\udfff]")  # SQLite ends a text at one, takes no other
_INDEXED: Final = "SELECT coalesce(max(id), 0) FROM {index}_docsize"
_ADD: Final = (
    "INSERT INTO {index} (rowid, content) SELECT id, content FROM messages "
    "WHERE id > ? ORDER BY id LIMIT ?"
)
_MAKE_REST: Final = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_REST} USING fts5 (
    content, content = '', tokenize = 'unicode61 remove_diacritics 2'
)
"""


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
        with connect.translated(self.path):
            if mode == "write":
                opened = connect.open_for_writing(self.path, self.timestamp(), vfs)
            else:
                opened = connect.open_for_reading(self.path)
        self._connection, admission = opened
        self.additions = admission.additions
        self.new_id = "" if admission.version else admission.ledger_id or ""
        self._reading = SqliteReader(self._connection)

    def reader(self) -> Self:
        return type(self)(self.path, mode="read", clock=self._clock)

    def close(self) -> None:
        self._process.close()
        with self._lock, connect.translated(self.path):
            self._connection.close()

    @contextmanager
    def read(self) -> Iterator[RowReader]:
        with self._lock, connect.translated(self.path):
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
        with self._lock, connect.translated(self.path):
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
        with self._lock, connect.translated(self.path):
            if shrink:
                self._connection.execute("VACUUM")
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def check(self) -> list[str]:
        findings: list[str] = []
        try:
            with closing(self.reader()) as reader, reader.read():
                looks = (("schema", _schema), ("numbers", _numbers), ("pages", _pages))
                for what, look in looks:
                    try:
                        findings += look(reader._connection)
                    except _DAMAGE as error:  # too broken to be read: a finding, not a crash
                        findings.append(f"the {what} cannot be read: {error}")
        except SightlineError as error:
            return [str(error)]
        return findings

    def backup(
        self, target: Path, check: Callable[[Store], None], copying: Watch | None = None
    ) -> None:
        """Copy page by page to a file of mode 0600; under its name is a good copy or none.

        Raise `LedgerUnusable` if there is one already.
        """
        exists = f"{target} exists already; a backup never overwrites"
        if os.path.exists(target):
            raise LedgerUnusable(exists)
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            connect.make_file(partial)
        except OSError as error:
            raise LedgerUnusable(f"{target} cannot be made: {error.strerror}") from error
        try:
            with connect.translated(partial), closing(apsw.Connection(str(partial))) as copy:
                self._copy_into(copy, copying)
                # One file, read from anywhere; opening it for writing turns WAL on again.
                copy.execute("PRAGMA journal_mode = DELETE")
            with closing(type(self)(partial, mode="read")) as copied:
                check(copied)
            # A link, unlike a rename, fails if somebody made the target meanwhile.
            os.link(partial, target)
            sync(target.parent)
        except FileExistsError as error:
            raise LedgerUnusable(exists) from error
        finally:
            partial.unlink(missing_ok=True)

    def _copy_into(self, target: apsw.Connection, watch: Watch | None) -> None:
        with (
            self._lock,
            connect.translated(self.path),
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
            self._index_rest()
        match = _match(text)
        chosen = "SELECT rowid FROM message_text WHERE message_text MATCH :match"
        here = "" if session_id is None else "AND session_id = :session "
        with self.read():
            if self._connection.readonly("main"):
                _index_apart(self._connection)
                chosen += f" UNION SELECT rowid FROM temp.{_REST} WHERE {_REST} MATCH :match"
            rows = self._connection.execute(
                "SELECT id, session_id, group_id, role, created_at, content FROM messages "
                f"WHERE dropped = 0 {here}AND id IN ({chosen}) ORDER BY id DESC LIMIT :limit",
                {"match": match, "session": session_id, "limit": limit},
            )
            return [
                SearchHit(number, session, group, role, at, excerpt(content, text))
                for number, session, group, role, at, content in rows
            ]

    def _index_rest(self) -> None:
        """Bring into the index what was said since somebody last searched."""
        while True:
            with self._change(durable=False):
                upto = self._connection.execute(_INDEXED.format(index="message_text")).get
                self._connection.execute(_ADD.format(index="message_text"), (upto, _BATCH))
                if self._connection.changes() < _BATCH:
                    return

    def attend(self, name: str) -> Callable[[], None]:
        [path, _] = self._locks_of(name)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                raise
        except OSError as error:
            raise LedgerUnavailable(f"{path}: {error.strerror}") from error

        def leave() -> None:
            with suppress(OSError):
                path.unlink()
            with suppress(OSError):
                os.close(handle)

        return leave

    def attends(self, name: str) -> bool:
        return any(map(_is_held, self._locks_of(name)))

    def bury(self, name: str) -> None:
        for lock in self._locks_of(name):
            lock.unlink(missing_ok=True)

    def _locks_of(self, name: str) -> tuple[Path, ...]:
        """The files that an owner may hold; beside the wire file, if its program is an older one.

        None for a name that no host has: who can write a ledger must not choose what is deleted.
        """
        if not _NAME.fullmatch(name):
            return ()
        beside = (self.path, journal_path(self.path))
        return tuple(path.with_name(f"{path.name}-{name}.lock") for path in beside)


def _is_held(lock: Path) -> bool:
    """Tell whether somebody holds a lock; by a share of it, so that those who look do not."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # who cannot be asked is not declared dead
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(handle)


def _index_apart(connection: apsw.Connection) -> None:
    connection.execute(_MAKE_REST)
    upto = max(
        connection.execute(_INDEXED.format(index=index)).get
        for index in ("message_text", f"temp.{_REST}")
    )
    connection.execute(_ADD.format(index=f"temp.{_REST}"), (upto, -1))


def _match(text: str) -> str:
    """Write the words of a text as SQLite's FTS5 takes them: each as it is, the last may go on."""
    if len(text) > _LONGEST:
        raise InvalidInput(f"a search has at most {_LONGEST:,} characters")
    readable = _UNREADABLE.sub(" ", text)
    words = [word.replace('"', '""') for word in readable.split() if any(map(str.isalnum, word))]
    if not words:
        raise InvalidInput("a search needs a word to look for")
    return " ".join(f'"{word}"' for word in words) + "*"


def _pages(connection: apsw.Connection) -> list[str]:
    """Let SQLite check its pages and indexes."""
    rows = fetch(connection, "PRAGMA integrity_check(50)")
    return [f"SQLite: {finding}" for (finding,) in rows if finding != "ok"]


def _schema(connection: apsw.Connection) -> list[str]:
    """Compare the schema, in which a trigger can change what is stored."""
    return [name for name, can_add in compare_schema(connection, FORMAT).items() if not can_add]


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
