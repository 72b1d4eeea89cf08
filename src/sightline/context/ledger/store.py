"""The store: everything that a ledger asks of the engine that keeps it.

A ledger's nouns know this class and nothing below it. SQLite's is `sqlite.store`,
PostgreSQL's `postgres.store`; the nouns, the seals and the tests are the same.

    read()     a point in time
    write()    a change of the record, sealed; durable when the block ends
    work()     a change of working state, which no seal covers; may be lost with the power

Changes and their seals are kept together in a `Transaction`, so that no operation can forget one.
Rows that a tally covers go in and out through its `insert` and `delete`; a session's row, once
loaded, is sealed and stored by `finish`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from sightline.context.ledger.attachments import NOWHERE, Attachments
from sightline.context.ledger.retrieval import QueryLimits, QueryResult, SearchHit
from sightline.context.ledger.rows import (
    Row,
    RowReader,
    RowWriter,
    Values,
    find_session,
    the_session,
)
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import ZERO, Value, seal, tally_move
from sightline.context.messages.gate import Gate
from sightline.errors import LedgerUnavailable, LedgerUnusable, NotFound

Clock: TypeAlias = Callable[[], datetime]
Mode: TypeAlias = Literal["write", "read"]
# Told how much of long work is done, of how much.
Watch: TypeAlias = Callable[[int, int], None]
_T = TypeVar("_T")


def now_utc() -> datetime:
    """Tell the time; the default clock of a store."""
    return datetime.now(UTC)


def written(moment: datetime) -> str:
    """Write a moment as every row has it: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Transaction:
    """The changes of one `write()` block, with their seals. `db` has what needs none."""

    def __init__(self, db: RowWriter, now: str, attachments: Attachments = NOWHERE) -> None:
        self.db = db
        self.now = now
        self.attachments = attachments
        self._begun: list[str] = []  # the uuids of new sessions
        self._sessions: dict[int, tuple[Row, bytes]] = {}

    def session(self, session_id: int) -> Row:
        """Load a session's row; what is changed in it is sealed and stored at the end."""
        if session_id not in self._sessions:
            row = the_session(self.db.lock_session(session_id), session_id)
            self._sessions[session_id] = (row, row["digest"])
        return self._sessions[session_id][0]

    def touch(self, session: Row) -> None:
        """Make the session the most recent one."""
        session["updated_at"] = self.now
        session["activity"] = self.db.next_activity()

    def add_session(self, row: Row) -> Row:
        """Store a new session."""
        row["id"] = self.db.next_id("sessions")
        row["digest"] = ZERO
        self.db.insert("sessions", row)
        self._sessions[row["id"]] = (row, ZERO)
        self._begun.append(row["uuid"])
        return row

    def forget_session(self, session: Row) -> None:
        """Delete a session's own row; the caller has deleted all it holds."""
        _, stored = self._sessions.pop(session["id"])
        self.db.delete("sessions", "id = ?", (session["id"],))
        self.db.move_total(add=ZERO, take=stored)

    def insert(self, session: Row, table: str, row: Mapping[str, Value]) -> int:
        """Store a row that belongs to a session's tally; return its id, if it has one."""
        sealed = self._insert(table, {**row, "session_id": session["id"]})
        session["tally"] = tally_move(session["tally"], add=sealed["digest"])
        return int(sealed.get("id", 0))

    def delete(self, session: Row, table: str, where: str, values: Values) -> list[Row]:
        """Delete rows of a session's tally, and return them."""
        rows = self.db.take(table, where, values)
        for row in rows:
            session["tally"] = tally_move(session["tally"], take=row["digest"])
        return rows

    def insert_memo(self, row: Mapping[str, Value]) -> Row:
        """Store a memo, and return its row."""
        memo = self._insert("llm_memos", row)
        self.db.move_total(add=memo["digest"], take=ZERO)
        return memo

    def delete_memo(self, memo_id: int) -> Row:
        """Delete a memo, and return it."""
        rows = self.db.take("llm_memos", "id = ?", (memo_id,))
        if not rows:
            raise NotFound(f"no memo {memo_id}")
        self.db.move_total(add=ZERO, take=rows[0]["digest"])
        return rows[0]

    def update(self, table: str, row: Mapping[str, Value]) -> bytes:
        """Seal a changed row anew and store it by its id; return the new digest."""
        digest = seal(table, row)
        self.db.rewrite(table, {**row, "digest": digest})
        return digest

    def abandon(self) -> None:
        """Leave nothing in an object store for sessions that were begun and will not be."""
        for owner in self._begun if self.attachments.is_open else ():
            with suppress(LedgerUnavailable):
                self.attachments.sweep(owner)

    def finish(self) -> None:
        """Store the sessions that changed, and move the sum over all of them."""
        for session, stored in self._sessions.values():
            if (digest := seal("sessions", session)) != stored:
                self.db.rewrite("sessions", {**session, "digest": digest})
                self.db.move_total(add=digest, take=stored)

    def _insert(self, table: str, row: Mapping[str, Value]) -> Row:
        """Store a sealed row; give it the next id first, for the digest covers it."""
        sealed = dict(row)
        if "id" in TABLES[table].names and "id" not in row:
            sealed["id"] = self.db.next_id(table)
        sealed["digest"] = seal(table, sealed)
        self.db.insert(table, sealed)
        return sealed


class Store(ABC):
    """An open ledger; safe to use from several threads. Opening it migrates it."""

    # What reading rows raises where they are damaged, besides our own errors.
    damage: ClassVar[tuple[type[Exception], ...]] = ()
    is_far: ClassVar[bool] = False  # every question is a journey: better ask for too much at once

    def __init__(self, path: Path, *, mode: Mode, clock: Clock, name: str = "") -> None:
        self.path = path
        self.name = name or str(path)  # what people are told
        self.mode = mode
        self.attachments: Attachments = NOWHERE  # where large files go; else into a table
        self.additions: tuple[str, ...] = ()  # tables, views and indexes that the user added
        self.new_id = ""  # the id of a file that this opening made a ledger
        self._clock = clock

    def timestamp(self) -> str:
        """Return the time by the store's clock, as rows have it."""
        return written(self._clock())

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Change the ledger: all of it, durably, when the block ends; nothing if it raises."""
        with self.work(durable=True) as db:
            transaction = Transaction(db, self.timestamp(), self.attachments)
            try:
                yield transaction
                transaction.finish()
            except BaseException:
                transaction.abandon()
                raise

    def append(self, change: Callable[[Transaction], _T], key: str | None = None) -> _T:
        """Change the end of a session as `write()` does; what the change does may be done twice.

        An engine may let it begin with what it knows, and again where that is out of date. It is
        told the key that the change will ask for.
        """
        with self.write() as transaction:
            return change(transaction)

    def at_hand(self, session_id: int) -> Row | None:
        """Give a session's row where nobody else writes to it now; None if it has to be read."""
        return None

    def work(self, *, durable: bool = False) -> AbstractContextManager[RowWriter]:
        """Change working state, which no seal covers, and wait for nothing.

        It survives the death of the program. The power may take the last of it; the next
        `write()` brings it to the disk with its own change.
        """
        self._check_mode()
        return self._change(durable=durable)

    def _check_mode(self) -> None:
        if self.mode == "read":
            raise LedgerUnusable(f"{self.name} was opened for reading only")

    @abstractmethod
    def _change(self, *, durable: bool) -> AbstractContextManager[RowWriter]:
        """Change rows in one transaction, one writer at a time."""

    @abstractmethod
    def read(self) -> AbstractContextManager[RowReader]:
        """Read at one point in time, whatever others write meanwhile."""

    @abstractmethod
    def reader(self) -> Self:
        """Open the same ledger once more, for reading at one's own pace."""

    @abstractmethod
    def close(self) -> None:
        """Close it; the store is of no use afterwards."""

    @abstractmethod
    def revision(self) -> int:
        """Return a number that is another one after a change, whoever made it."""

    def size(self) -> int:
        """Say how many bytes it takes: of an engine with a file, that and its log."""
        files = [self.path, self.path.with_name(f"{self.path.name}-wal")]
        return sum(file.stat().st_size for file in files if file.exists())

    def may_have_changed(self) -> bool:
        """Tell whether it is worth asking for the revision; an engine that is asked cheaply is."""
        return True

    @abstractmethod
    def scrub(self, *, shrink: bool = False) -> None:
        """Leave nothing of what was removed where it can be read, as soon as readers allow it.

        With `shrink`, give its room back.
        """

    @abstractmethod
    def check(self) -> list[str]:
        """Check what is the engine's own: its pages and indexes, the numbers that it gives."""

    @abstractmethod
    def backup(
        self, target: Path, check: Callable[[Store], None], copying: Watch | None = None
    ) -> None:
        """Copy to a new file, as of one point in time; it gets its name if `check` passes."""

    @abstractmethod
    def query(self, sql: str, session_id: int | None, limits: QueryLimits) -> QueryResult:
        """Run untrusted SQL over a session's rows (None: all), where it can do nothing else."""

    @abstractmethod
    def find(self, session_id: int, text: str, limit: int, chars: int) -> QueryResult:
        """Find the newest messages with a text, in any case: their ids and what is around it."""

    @abstractmethod
    def search(self, text: str, session_id: int | None, limit: int) -> list[SearchHit]:
        """Find the newest messages that have all words of a text, the last as a beginning too."""

    @abstractmethod
    def attend(self, name: str) -> Callable[[], None]:
        """Count as alive under a name until the process ends, or what is returned is called."""

    @abstractmethod
    def attends(self, name: str) -> bool:
        """Tell whether the process that attends under a name is alive."""

    @abstractmethod
    def bury(self, name: str) -> None:
        """Clear away what a dead process left behind that attended under a name."""


class Noun:
    """What the nouns of a ledger share: the store that keeps them, the gate that all texts pass."""

    def __init__(self, store: Store, gate: Gate) -> None:
        self._store = store
        self._gate = gate

    def _fetch(self, sql: str, *values: Value) -> list[tuple[Any, ...]]:
        """Read rows as they are now, as tuples."""
        with self._store.read() as db:
            return db.fetch(sql, values)

    def _rows(self, sql: str, *values: Value) -> list[Row]:
        """Read rows as they are now, by column name."""
        with self._store.read() as db:
            return db.rows(sql, values)

    def _fetch_of(self, sql: str, session_id: int, *values: Value) -> list[tuple[Any, ...]]:
        """Read rows of a session, whose id is the first value; raise `NotFound` without one."""
        with self._store.read() as db:
            find_session(db, session_id)
            return db.fetch(sql, (session_id, *values))

    @contextmanager
    def _changing(self, session_id: int) -> Iterator[tuple[Transaction, Row]]:
        """Change a session, which is the most recent one then: its transaction and its row."""
        with self._store.write() as tx:
            session = tx.session(session_id)
            yield tx, session
            tx.touch(session)
