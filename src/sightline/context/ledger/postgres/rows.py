"""Rows in PostgreSQL: few round trips, whatever a change consists of.

A transaction begins with the first question, in the same trip. Changes wait for the next question
or the end of the block and go with that: a change of the record costs a trip for each thing that
it has to know, and one for all that it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import count
from typing import Any, Final

import psycopg

from sightline.context.ledger.postgres.steps import KEYS, NUMBERED
from sightline.context.ledger.rows import Row, Values, marks
from sightline.context.ledger.seal import Value

__all__ = ["PostgresReader", "PostgresWriter", "Recency"]

_PAGE: Final = 1000
_AT_ONCE: Final = 500  # changes that wait at most
# A function of its own before the statements that it is for: inside one it would come too late.
_SETTINGS: Final = (
    "SELECT set_config('sightline.tenant', %s, true), set_config('search_path', 'sightline', true)"
)
_NUMBERS: Final = {"messages": 8}  # how many are reserved at once; of others one
_OURS: Final = ("tenant", "epoch")  # columns that the ledger knows nothing of


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

    def __init__(self, connection: psycopg.Connection[Any], tenant: str, begin: str) -> None:
        self._connection = connection
        self._waiting: list[tuple[str, Values]] = [(begin, ()), (_SETTINGS, (tenant,))]
        self._is_open = False
        self._scans = count()

    def fetch(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self._ask(_translated(sql), values).fetchall()

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        return self._rows(_translated(sql), values)

    def scan(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        name = f"scan_{next(self._scans)}"
        self._ask(f"DECLARE {name} BINARY NO SCROLL CURSOR FOR {_translated(sql)}", values)
        more = True
        while more:
            rows = self._ask(f"FETCH {_PAGE} FROM {name}", ()).fetchall()
            yield from rows
            more = len(rows) == _PAGE
        self._ask(f"CLOSE {name}", ())

    def total_findings(self, total: bytes) -> list[str]:
        return []

    def finish(self) -> None:
        """End the transaction, if it has begun."""
        if self._is_open:
            self._ask("COMMIT", ())

    def abandon(self) -> None:
        """Undo the transaction; where its connection is gone the server does."""
        self._waiting.clear()
        if self._is_open and not self._connection.closed:
            self._connection.execute("ROLLBACK")

    def _rows(self, sql: str, values: Values) -> list[Row]:
        cursor = self._ask(sql, values)
        names = [column.name for column in cursor.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        for row in found:
            for name in _OURS:
                row.pop(name, None)
        return found

    def _ask(self, sql: str, values: Values) -> psycopg.Cursor[Any]:
        """Send what waits and one statement more, in one round trip."""
        waiting, self._waiting = self._waiting, []
        self._is_open = True
        if not waiting:
            return self._connection.execute(sql, values, binary=True)
        with self._connection.pipeline():
            for statement, its_values in waiting:
                self._connection.execute(statement, its_values)
            return self._connection.execute(sql, values, binary=True)


class PostgresWriter(PostgresReader):
    """A transaction of a connection, for changes."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        tenant: str,
        *,
        durable: bool,
        now: datetime,
        recency: Recency,
    ) -> None:
        super().__init__(connection, tenant, "BEGIN")
        if not durable:
            self._waiting.append(("SET LOCAL synchronous_commit = off", ()))
        self._before = len(self._waiting)
        self._tenant = tenant
        self._now = now
        self._recency = recency
        self._numbers: dict[str, deque[int]] = {}

    def lock_session(self, session_id: int) -> list[Row]:
        rows = self._rows("SELECT * FROM sessions WHERE id = %s FOR UPDATE", (session_id,))
        for row in rows:
            self._recency.see(row["activity"])
        return rows

    def lock_names(self) -> None:
        lock = "SELECT pg_advisory_xact_lock(hashtextextended('sightline names ' || %s, 0))"
        self._change(lock, (self._tenant,))

    def next_id(self, table: str) -> int:
        numbers = self._numbers.setdefault(table, deque())
        if not numbers:
            how_many = _NUMBERS.get(table, 1)
            sql = f"SELECT nextval('{table}_ids') FROM generate_series(1, {how_many})"
            numbers.extend(number for (number,) in self._ask(sql, ()).fetchall())
        return numbers.popleft()

    def count_from(self, table: str, number: int) -> None:
        if table == "activity":
            self._recency.see(number)
        elif table in NUMBERED:
            sequence = f"{table}_ids"
            higher = f"SELECT setval('{sequence}', %s) FROM {sequence} WHERE last_value < %s"
            self._change(higher, (number, number))

    def next_activity(self) -> int:
        return self._recency.next(self._now)

    def move_total(self, *, add: bytes, take: bytes) -> None:
        """Keep no sum: all who write would wait for it."""

    def insert(self, table: str, row: Mapping[str, Value]) -> None:
        self._change(_insertion(table, tuple(row)), tuple(row.values()))

    def put(self, table: str, row: Mapping[str, Value]) -> None:
        self._change(_replacement(table, tuple(row)), tuple(row.values()))

    def update(self, table: str, changes: str, where: str, values: Values) -> None:
        self._change(_translated(f"UPDATE {table} SET {changes} WHERE {where}"), values)

    def delete(self, table: str, where: str, values: Values) -> None:
        self._change(_translated(f"DELETE FROM {table} WHERE {where}"), values)

    def take(self, table: str, where: str, values: Values) -> list[Row]:
        return self.rows(f"DELETE FROM {table} WHERE {where} RETURNING *", values)

    def renew_lease(self, name: str, seconds: float) -> None:
        """Let a host count as alive for so long from now, by the server's clock."""
        self._change(
            "INSERT INTO hosts (name, until) VALUES (%s, now() + make_interval(secs => %s)) "
            "ON CONFLICT (tenant, name) DO UPDATE SET until = excluded.until",
            (name, seconds),
        )

    def finish(self) -> None:
        """Store what changed, if anything did."""
        if self._is_open or len(self._waiting) > self._before:
            self._ask("COMMIT", ())

    def _change(self, sql: str, values: Values) -> None:
        self._waiting.append((sql, values))
        if len(self._waiting) > _AT_ONCE:
            self._ask("SELECT 1", ())


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    """Write a statement of the ledger's as psycopg takes it."""
    return sql.replace("%", "%%").replace("?", "%s")


@lru_cache(maxsize=256)
def _insertion(table: str, names: tuple[str, ...]) -> str:
    return _translated(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks(names)})")


@lru_cache(maxsize=64)
def _replacement(table: str, names: tuple[str, ...]) -> str:
    keys = KEYS[table]
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    there = f"ON CONFLICT (tenant, {', '.join(keys)}) DO UPDATE SET {changed}"
    return f"{_insertion(table, names)} {there}"
