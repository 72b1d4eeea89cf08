"""Rows in PostgreSQL: few round trips, whatever a change consists of.

A transaction begins with the first question, in the same trip. Changes wait for the next question
or the end of the block and go with that: a change of the record costs a trip for each thing that
it has to know, and one for all that it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple

from psycopg import generators, pq

from sightline.context.ledger.postgres.calls import LedgerConnection, ServerAnswer, bound
from sightline.context.ledger.postgres.steps import KEYS, NUMBERED
from sightline.context.ledger.rows import Row, Statement, Values, marks, rewriting, rewritten
from sightline.context.ledger.seal import ZERO, Value
from sightline.errors import SessionBusy

_PAGE: Final = 1000
_AT_ONCE: Final = 500  # changes that wait at most
# A function of its own before the statements that it is for: inside one it would come too late.
_SETTINGS: Final = (
    "SELECT set_config('sightline.tenant', ?, true), "
    "set_config('search_path', 'sightline', true), set_config('synchronous_commit', ?, true)"
)
RESERVED: Final = {"messages": 8, "groups": 2}  # numbers at once; of other tables one
_FENCED: Final = ("open_replies", "open_calls")
_ENDS: Final = ("groups", "messages", "undone")  # with a session's row, what its end is
_OURS: Final = ("tenant", "epoch")  # columns that the ledger knows nothing of


LOCK: Final = "SELECT * FROM sessions WHERE id = ? FOR UPDATE"
UNLESS_THERE: Final = "ON CONFLICT DO NOTHING"
LAST_GROUPS: Final = "SELECT * FROM groups WHERE session_id = ? ORDER BY seq DESC LIMIT 2"


class Recency:
    """Numbers that grow with the time and never stand still; nobody has to wait for another's."""

    def __init__(self) -> None:
        self._last = 0

    def see(self, number: int) -> None:
        """Stay ahead of a number that somebody else gave."""
        self._last = max(self._last, number)

    def next(self, now: datetime) -> int:
        """Give a number: microseconds, or one more than the last if that is later."""
        self._last = max(self._last + 1, int(now.timestamp() * 1_000_000))
        return self._last


class PostgresReader:
    """A transaction of a connection, for reading."""

    def __init__(
        self, connection: LedgerConnection, tenant: str, begin: str, sync: str = "on"
    ) -> None:
        self._connection = connection
        self._waiting: list[Statement] = [(begin, ()), (_SETTINGS, (tenant, sync))]
        self._is_open = False
        self._scans = count()

    def fetch(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self._ask(sql, values).rows()

    def fetch_each(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        return [answer.rows() for answer in self._ask_all(*statements)]

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        return named(self._ask(sql, values))

    def scan(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        name = f"scan_{next(self._scans)}"
        self._ask(f"DECLARE {name} BINARY NO SCROLL CURSOR FOR {sql}", values)
        more = True
        while more:
            rows = self._ask(f"FETCH {_PAGE} FROM {name}", ()).rows()
            yield from rows
            more = len(rows) == _PAGE
        self._ask(f"CLOSE {name}", ())

    def total_findings(self, total: bytes) -> list[str]:
        return []

    def finish(self) -> None:
        """End the transaction, if it has begun. Nobody waits for that: nothing was changed."""
        if self._is_open:
            self._connection.pgconn.send_query_params(b"COMMIT", None)
            self._connection.pgconn.flush()

    def abandon(self) -> None:
        """Undo the transaction; where its connection is gone the server does."""
        self._waiting.clear()
        if self._is_open and not self._connection.closed:
            self._connection.execute("ROLLBACK")

    def _ask(self, sql: str, values: Values) -> ServerAnswer:
        """Send what waits and one statement more, in one round trip."""
        return self._ask_all((sql, values))[0]

    def _ask_all(self, *questions: Statement) -> list[ServerAnswer]:
        """Send what waits and some statements more, in one round trip."""
        statements = [*self._waiting, *questions]
        self._waiting = []
        begins, self._is_open = not self._is_open, True
        going = [bound(*statement) for statement in statements]
        answers = self._connection.exchange(going, begins=begins)
        return answers[len(statements) - len(questions) :]


def settle(connection: LedgerConnection) -> None:
    """Take the answer to the end of a transaction that nobody waited for."""
    server = connection.pgconn
    if server.transaction_status == pq.TransactionStatus.ACTIVE:
        server.consume_input()
        if server.is_busy():
            connection.wait(generators.fetch_many(server))
        while server.get_result() is not None:
            pass


def named(answer: ServerAnswer) -> list[Row]:
    """Read rows by column name, without the columns that the ledger knows nothing of."""
    names = answer.names()
    rows = [dict(zip(names, row, strict=True)) for row in answer.rows()]
    for row in rows:
        for name in _OURS:
            row.pop(name, None)
    return rows


class Tip(NamedTuple):
    """The end of a session: its row, its last group, and the chain of the one before that."""

    session: Row
    group: Row
    before: bytes


@dataclass
class Known:
    """What a host knows without asking: all of it is checked, or given to nobody else.

    The ends of sessions as it left them, the epochs in which sessions are its own, and numbers
    that were reserved. Those of a session must grow: whoever reads its end reserves new ones.
    """

    tips: dict[int, Tip] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    holders: dict[int, str] = field(default_factory=dict)  # the owner's name, of each epoch
    contended: dict[int, int] = field(default_factory=dict)  # appends that had better ask first
    numbers: dict[str, deque[int]] = field(default_factory=dict)
    recency: Recency = field(default_factory=Recency)


class PostgresWriter(PostgresReader):
    """A transaction of a connection, for changes."""

    def __init__(
        self,
        connection: LedgerConnection,
        tenant: str,
        known: Known,
        *,
        durable: bool,
        now: datetime,
    ) -> None:
        super().__init__(connection, tenant, "BEGIN", "on" if durable else "off")
        self._before = len(self._waiting)
        self._tenant = tenant
        self._known = known
        self._now = now
        self._epochs: dict[int, int] = {}  # of the sessions that are locked
        self._claimed: dict[int, tuple[int, str] | None] = {}
        self._tips: dict[int, Tip] = {}  # ends that are still as they were known, so far

    def lock_session(self, session_id: int) -> list[Row]:
        tip = self._known.tips.pop(session_id, None)
        rows = self._locked(self._ask(LOCK, (session_id,)))
        if tip is not None and rows and rows[0]["digest"] == tip.session["digest"]:
            self._tips[session_id] = tip
        else:
            self._known.numbers.clear()
        return rows

    def _locked(self, answer: ServerAnswer) -> list[Row]:
        names = answer.names()
        rows = [dict(zip(names, row, strict=True)) for row in answer.rows()]
        for row in rows:
            self._known.recency.see(row["activity"])
            self._epochs[row["id"]] = row.pop("epoch")
            del row["tenant"]
        return rows

    def last_group(self, session_id: int) -> tuple[Row, bytes] | None:
        return last_group(self.rows(LAST_GROUPS, (session_id,)))

    def under_key(self, session_id: int, columns: str, key: str) -> list[tuple[Any, ...]]:
        sql = f"SELECT {columns} FROM messages WHERE session_id = ? AND append_key = ?"
        return self.fetch(sql, (session_id, key))

    def lock_names(self) -> None:
        lock = "SELECT pg_advisory_xact_lock(hashtextextended('sightline names ' || ?, 0))"
        self._change(lock, (self._tenant,))

    def next_id(self, table: str) -> int:
        numbers = self._known.numbers.setdefault(table, deque())
        if not numbers:
            numbers.extend(number for (number,) in self._ask(reserving(table), ()).rows())
        return numbers.popleft()

    def count_from(self, table: str, number: int) -> None:
        if table == "activity":
            self._known.recency.see(number)
        elif table in NUMBERED:
            sequence = f"{table}_ids"
            higher = f"SELECT setval('{sequence}', ?) FROM {sequence} WHERE last_value < ?"
            self._change(higher, (number, number))

    def next_activity(self) -> int:
        return self._known.recency.next(self._now)

    def move_total(self, *, add: bytes, take: bytes) -> None:
        """Keep no sum: all who write would wait for it."""

    def insert(self, table: str, row: Mapping[str, Value]) -> None:
        self._forget(table)
        self._change(insertion(table, tuple(row)), tuple(row.values()))

    def insert_once(self, table: str, row: Mapping[str, Value]) -> None:
        self._change(f"{insertion(table, tuple(row))} {UNLESS_THERE}", tuple(row.values()))

    def put(self, table: str, row: Mapping[str, Value]) -> None:
        if table in _FENCED:
            self._fence(int(row["session_id"] or 0))
        self._change(_replacement(table, tuple(row)), tuple(row.values()))
        if table == "owners":
            self._claim(int(row["session_id"] or 0), str(row["owner"]))

    def _forget(self, table: str) -> None:
        """Know no ends of sessions any more where they move."""
        if table in _ENDS:
            self._tips.clear()

    def _claim(self, session_id: int, owner: str) -> None:
        """Begin an epoch of a session: who wrote in an earlier one cannot any more."""
        epoch = "UPDATE sessions SET epoch = nextval('epochs') WHERE id = ? RETURNING epoch"
        for (number,) in self._ask(epoch, (session_id,)).rows():
            self._claimed[session_id] = (number, owner)

    def _fence(self, session_id: int) -> None:
        """Let the change fail if a session that this host holds is another's by now."""
        held = self._known.epochs.get(session_id)
        if held is None:
            return
        locked = self._epochs.get(session_id)
        if locked is None:
            self._change("SELECT fence(?, ?)", (session_id, held))
        elif locked != held:
            raise SessionBusy(f"session {session_id} was taken over by another host")

    def update(self, table: str, changes: str, where: str, values: Values) -> None:
        if table == "sessions" or table in _FENCED:
            self._fence(int(values[-1] or 0))
        self._forget(table)
        if table == "sessions" and (tip := self._tips.get(int(values[-1] or 0))):
            names = [change.partition(" ")[0] for change in changes.split(", ")]
            row = {**tip.session, **dict(zip(names, values, strict=False))}
            self._tips[row["id"]] = tip._replace(session=row)
        self._change(f"UPDATE {table} SET {changes} WHERE {where}", values)

    def rewrite(self, table: str, row: Mapping[str, Value]) -> None:
        self.update(table, rewriting(tuple(row)), "id = ?", rewritten(row))

    def delete(self, table: str, where: str, values: Values) -> None:
        if table == "sessions":
            self._fence(int(values[-1] or 0))
            self._tips.clear()
        if table == "owners":
            self._claimed[int(values[0] or 0)] = None
        self._forget(table)
        self._change(f"DELETE FROM {table} WHERE {where}", values)

    def take(self, table: str, where: str, values: Values) -> list[Row]:
        self._forget(table)
        return self.rows(f"DELETE FROM {table} WHERE {where} RETURNING *", values)

    def renew_lease(self, name: str, seconds: float) -> None:
        """Let a host count as alive for so long from now, by the server's clock."""
        self._change(
            "INSERT INTO hosts (name, until) VALUES (?, now() + make_interval(secs => ?)) "
            "ON CONFLICT (tenant, name) DO UPDATE SET until = excluded.until",
            (name, seconds),
        )

    def finish(self) -> None:
        """Store what changed, if anything did."""
        if self._is_open or len(self._waiting) > self._before:
            self._ask("COMMIT", ())
        self._known.tips.update(self._tips)
        for session_id, claim in self._claimed.items():
            if claim is None:
                self._known.epochs.pop(session_id, None)
                self._known.holders.pop(session_id, None)
            else:
                self._known.epochs[session_id], self._known.holders[session_id] = claim

    def _change(self, sql: str, values: Values) -> None:
        self._waiting.append((sql, values))
        if len(self._waiting) > _AT_ONCE:
            self._ask("SELECT 1", ())


def reserving(table: str, times: int = 1) -> str:
    """Write the statement that reserves numbers of a table."""
    how_many = RESERVED.get(table, 1) * times
    return f"SELECT nextval('sightline.{table}_ids') FROM generate_series(1, {how_many})"


def last_group(rows: list[Row]) -> tuple[Row, bytes] | None:
    """Give the last of two groups, and the chain of the one before it."""
    return (rows[0], rows[1]["chain"] if len(rows) > 1 else ZERO) if rows else None


@lru_cache(maxsize=256)
def insertion(table: str, names: tuple[str, ...]) -> str:
    """Write the statement that stores a row."""
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks(names)})"


@lru_cache(maxsize=64)
def _replacement(table: str, names: tuple[str, ...]) -> str:
    keys = KEYS[table]
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    there = f"ON CONFLICT (tenant, {', '.join(keys)}) DO UPDATE SET {changed}"
    return f"{insertion(table, names)} {there}"
