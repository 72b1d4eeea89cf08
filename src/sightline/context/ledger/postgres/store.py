"""A ledger in PostgreSQL, for sessions that are opened on many hosts.

A change of the record is one transaction with `synchronous_commit` on: when a `write()` block has
ended it is on the server's disk; when it raises, nothing was acknowledged, and a retry with the
same key stores nothing twice. Whoever changes a session holds its row until the end, so two change
it one after the other, and nobody waits who changes another one. The tenant is set in every
transaction and row-level security does the rest, so that a pooler of transactions may stand before
the server.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, Self, TypeVar

import psycopg

import sightline.context.ledger.postgres.rows as rows
from sightline.context.ledger.copying import copy_ledger
from sightline.context.ledger.paths import address_of, database_url, user_path
from sightline.context.ledger.postgres.appends import AppendWriter, OutOfDate
from sightline.context.ledger.postgres.calls import LedgerConnection
from sightline.context.ledger.postgres.connect import DAMAGE, connect, translated
from sightline.context.ledger.postgres.lease import LEASE_S, Lease
from sightline.context.ledger.postgres.queries import SessionCopies
from sightline.context.ledger.postgres.search import search_messages
from sightline.context.ledger.postgres.steps import FORMAT, NUMBERED, check_role, format_of, migrate
from sightline.context.ledger.postgres.wake import EVERY_S, Listener, tell
from sightline.context.ledger.retrieval import QueryLimits, QueryResult, SearchHit
from sightline.context.ledger.rows import Row, RowReader
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.ledger.store import Clock, Mode, Store, Transaction, Watch, now_utc, written
from sightline.errors import LedgerUnusable, SessionChanged, SightlineError

_T = TypeVar("_T")

_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A question for each table: what its columns take as they are stored (compressed ones are not
# unpacked for that) and the head of each row.
_SIZES: Final = """
SELECT format('SELECT coalesce(sum(24 + %s), 0) FROM %I',
    string_agg(format('coalesce(pg_column_size(%I), 0)', column_name), ' + '), table_name)
FROM information_schema.columns WHERE table_schema = 'sightline' AND table_name <> 'format'
GROUP BY table_name
"""


class PostgresStore(Store):
    """A connection to one tenant's rows in a database."""

    damage: ClassVar[tuple[type[Exception], ...]] = DAMAGE
    is_far = True

    def __init__(
        self, url: str | os.PathLike[str], *, mode: Mode = "write", clock: Clock = now_utc
    ) -> None:
        self._url = database_url(url) or os.fspath(url)
        self._address = address_of(self._url)
        # What is beside a ledger and can be deleted at any time is on this machine.
        digest = sha256(self._address.name.encode()).hexdigest()[:16]
        path = user_path().with_name(f"postgresql-{digest}.db")
        super().__init__(path, mode=mode, clock=clock, name=self._address.name)
        self._lock = threading.RLock()
        self._connection: LedgerConnection | None = None
        self._block: rows.PostgresReader | None = None
        self._known = rows.Known()
        # Until when each surely holds, by both clocks of this host: one stands still while it
        # sleeps, the other may be set back.
        self._leases: dict[str, tuple[float, float]] = {}
        self._next_word = 0.0
        self._listener: Listener | None = None
        self._copies = SessionCopies(self)
        try:
            with translated(self.name):
                self._prepare(self._connected())
        except SightlineError:
            self.close()
            raise

    def _prepare(self, connection: LedgerConnection) -> None:
        """Bring the tables to the current format; who only reads finds them so."""
        check_role(connection, self.name)
        if self.mode == "write":
            migrate(connection, self.name)
        elif (found := format_of(connection, self.name)) != FORMAT:
            raise LedgerUnusable(
                f"{self.name} has format {found}, not {FORMAT}; open it once for writing"
            )

    def reader(self) -> Self:
        return type(self)(self._url, mode="read", clock=self._clock)

    def close(self) -> None:
        self._copies.close()
        with self._lock:
            if self._listener is not None:
                self._listener.close()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _connected(self) -> LedgerConnection:
        """The connection; another one, where it was lost."""
        if self._connection is not None and not self._connection.closed:
            with suppress(psycopg.OperationalError):
                rows.settle(self._connection)
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._address)
        return self._connection

    @contextmanager
    def read(self) -> Iterator[RowReader]:
        with self._lock, translated(self.name):
            if self._block is not None:  # a reader inside a reader sees the same
                yield self._block
                return
            with self._transaction(
                rows.PostgresReader(self._connected(), self._address.tenant, _READING)
            ) as block:
                yield block

    @contextmanager
    def _change(self, *, durable: bool) -> Iterator[rows.PostgresWriter]:
        with self._unsaid_change(durable=durable) as writer:
            yield writer
        self._tell()

    def _tell(self) -> None:
        """Wake who watches, some times a second at most."""
        with self._lock, suppress(psycopg.Error):
            now = time.monotonic()
            if now >= self._next_word:
                self._next_word = now + EVERY_S
                tell(self._connected(), self._address.tenant)

    @contextmanager
    def _unsaid_change(self, *, durable: bool) -> Iterator[rows.PostgresWriter]:
        with self._lock, translated(self.name):
            writer = rows.PostgresWriter(
                self._connected(),
                self._address.tenant,
                self._known,
                durable=durable,
                now=self._clock(),
            )
            with self._transaction(writer):
                yield writer

    def append(self, change: Callable[[Transaction], _T], key: str | None = None) -> _T:
        """Change the end of a session, in one trip if this store was the last to write there."""
        try:
            result = self._append(change, key, ahead=True)
        except (OutOfDate, SessionChanged):  # by what is known, which may be no longer so
            try:
                result = self._append(change, key, ahead=False)
            except OutOfDate:  # by the name of the call, once
                result = self._append(change, key, ahead=False)
        self._tell()
        return result

    def _append(self, change: Callable[[Transaction], _T], key: str | None, *, ahead: bool) -> _T:
        self._check_mode()
        with self._lock, translated(self.name):
            tenant = self._address.tenant
            now = self._clock()
            writer = AppendWriter(
                self._connected(), tenant, self._known, key=key, ahead=ahead, now=now
            )
            with self._transaction(writer):
                transaction = Transaction(writer, written(now))
                result = change(transaction)
                transaction.finish()
            return result

    def at_hand(self, session_id: int) -> Row | None:
        tip = self._known.tips.get(session_id)
        until = self._leases.get(self._known.holders.get(session_id, ""))
        if tip is None or until is None or time.monotonic() >= until[0] or time.time() >= until[1]:
            return None
        return tip.session

    @contextmanager
    def _transaction(self, block: rows.PostgresReader) -> Iterator[rows.PostgresReader]:
        self._block = block
        try:
            yield block
            block.finish()
        except BaseException:
            with suppress(psycopg.Error):
                block.abandon()
            raise
        finally:
            self._block = None

    def revision(self) -> int:
        """Return a number that is another one after a change of any ledger on the server."""
        with self.read() as db:
            [(snapshot,)] = db.fetch("SELECT CAST(pg_current_snapshot() AS text)")
        return int.from_bytes(sha256(snapshot.encode()).digest()[:6], "big")

    def size(self) -> int:
        """Add up the tenant's rows as they are stored; indexes and free room are everybody's."""
        with self.read() as db:
            tables = db.fetch(_SIZES)
            return sum(int(db.fetch(sql)[0][0]) for (sql,) in tables)

    def may_have_changed(self) -> bool:
        with self._lock:
            self._listener = self._listener or Listener(self._address)
            return self._listener.heard(time.monotonic())

    def scrub(self, *, shrink: bool = False) -> None:
        """Leave it to the server: its vacuum overwrites what was removed."""

    def check(self) -> list[str]:
        """Compare the highest number given with those in use."""
        try:
            with closing(self.reader()) as reader, reader.read() as db:
                findings = []
                for table in NUMBERED:
                    [(last, highest)] = db.fetch(
                        f"SELECT last_value, (SELECT coalesce(max(id), 0) FROM {table}) "
                        f"FROM {table}_ids"
                    )
                    if highest > last:
                        findings.append(f"{table}: number {highest} is in use, {last} was given")
                return findings
        except SightlineError as error:
            return [str(error)]

    def backup(
        self, target: Path, check: Callable[[Store], None], copying: Watch | None = None
    ) -> None:
        """Copy to a new file, which is one of SQLite's."""
        if os.path.exists(target):
            raise LedgerUnusable(f"{target} exists already; a backup never overwrites")
        if not os.path.isdir(target.parent):
            raise LedgerUnusable(f"{target} cannot be made: there is no such directory")
        with (
            TemporaryDirectory(dir=target.parent) as beside,
            closing(SqliteStore(Path(beside) / target.name)) as copy,
        ):
            copy_ledger(self, copy, copying)
            copy.backup(target, check)

    def query(self, sql: str, session_id: int | None, limits: QueryLimits) -> QueryResult:
        return self._copies.of(session_id).query(sql, session_id, limits)

    def find(self, session_id: int, text: str, limit: int, chars: int) -> QueryResult:
        return self._copies.of(session_id).find(session_id, text, limit, chars)

    def search(self, text: str, session_id: int | None, limit: int) -> list[SearchHit]:
        with self.read() as db:
            return search_messages(db, text, session_id, limit)

    def attend(self, name: str) -> Callable[[], None]:
        def renew() -> None:
            # The server counts from a later moment.
            until = (time.monotonic() + LEASE_S, time.time() + LEASE_S)
            with self._unsaid_change(durable=False) as db:
                db.renew_lease(name, LEASE_S)
            self._leases[name] = until

        def give_up() -> None:
            self._leases.pop(name, None)
            with self._unsaid_change(durable=False) as db:
                db.delete("hosts", "name = ?", (name,))

        return Lease(renew, give_up).leave

    def attends(self, name: str) -> bool:
        with self.read() as db:
            return bool(db.fetch("SELECT 1 FROM hosts WHERE name = ? AND until > now()", (name,)))

    def bury(self, name: str) -> None:
        with self.work() as db:
            db.delete("hosts", "name = ? AND until <= now()", (name,))
