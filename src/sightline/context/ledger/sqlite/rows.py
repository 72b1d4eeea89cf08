"""Rows in SQLite: the statements that read and change them, and the ledger's own row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import apsw

from sightline.context.ledger.rows import Row, Statement, Values, marks, rewriting, rewritten
from sightline.context.ledger.seal import ZERO, Value, seal, tally_move

_LAST_ID: Final = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"


_TICK_STEPS: Final = 1_000
_SCHEMA_TICKS: Final = 20  # The schema of a ledger takes less than one.
_LEAST_TICKS: Final = 20_000  # less than a second
_BYTES_PER_TICK: Final = 20  # Reading a whole ledger takes about one step per byte.


class StepLimit:
    """A deadline for each statement, in steps of SQLite's own machine.

    The limit does not depend on the speed or the load of the computer. Until `extend`, all
    statements together may do what reading the schema needs.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._ticks = self._left = _SCHEMA_TICKS
        connection.set_progress_handler(self._tick, _TICK_STEPS)

    def extend(self, connection: apsw.Connection, size: int) -> None:
        """Allow each statement the work that a file of this size in bytes needs."""
        self._ticks = _LEAST_TICKS + size // _BYTES_PER_TICK
        connection.exec_trace = self._begin

    def remove(self, connection: apsw.Connection) -> None:
        """Let statements take any time."""
        connection.set_progress_handler(None)

    def _begin(self, cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        """Start to count again. Queries in one transaction share the limit.

        Otherwise a scan without end would get new steps from the queries between its rows.
        """
        if not (cursor.connection.in_transaction and sql.startswith("SELECT")):
            # Each row that Sightline stored makes the file larger.
            self._left = self._ticks + cursor.connection.total_changes()
        return True

    def _tick(self) -> bool:
        self._left -= 1
        return self._left < 0


def fetch(connection: apsw.Connection, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
    """Read rows as tuples."""
    return connection.execute(sql, values).fetchall()


class SqliteReader:
    """A transaction of a connection, for reading."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def fetch(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, values).fetchall()

    def fetch_each(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        return [self.fetch(*statement) for statement in statements]

    def scan(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        return self._connection.execute(sql, values)

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        cursor = self._connection.execute(sql, values)
        names: list[str] = []
        rows = []
        for row in cursor:
            names = names or [column[0] for column in cursor.get_description()]
            rows.append(dict(zip(names, row, strict=True)))
        return rows

    def total_findings(self, total: bytes) -> list[str]:
        rows = self.rows("SELECT * FROM ledger")
        if len(rows) != 1 or seal("ledger", rows[0]) != rows[0]["digest"]:
            return ["the ledger's own row was altered"]
        return [] if rows[0]["tally"] == total else ["a session or a memo is missing or added"]


class SqliteWriter(SqliteReader):
    """A transaction of a connection, for changes.

    The one row of `ledger` is loaded when it is asked for, and sealed and stored at the end.
    All who write to a file wait for each other anyway, so it costs nothing that they share it.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._ledger: Row | None = None
        self._given: dict[str, int] = {}

    def lock_session(self, session_id: int) -> list[Row]:
        return self.rows("SELECT * FROM sessions WHERE id = ?", (session_id,))

    def last_group(self, session_id: int) -> tuple[Row, bytes] | None:
        sql = "SELECT * FROM groups WHERE session_id = ? ORDER BY seq DESC LIMIT 2"
        rows = self.rows(sql, (session_id,))
        return (rows[0], rows[1]["chain"] if len(rows) > 1 else ZERO) if rows else None

    def under_key(self, session_id: int, columns: str, key: str) -> list[tuple[Any, ...]]:
        sql = f"SELECT {columns} FROM messages WHERE session_id = ? AND append_key = ?"
        return self.fetch(sql, (session_id, key))

    def lock_names(self) -> None:
        """Do nothing: a file has one writer at a time."""

    def next_id(self, table: str) -> int:
        last = self._given.get(table)
        number: int = self._connection.execute(_LAST_ID, (table,)).get if last is None else last
        self._given[table] = number + 1
        return number + 1

    def count_from(self, table: str, number: int) -> None:
        if table == "activity":  # of tables SQLite knows the highest number by itself
            row = self._row()
            row["activity"] = max(row["activity"], number)

    def next_activity(self) -> int:
        row = self._row()
        row["activity"] += 1
        return int(row["activity"])

    def move_total(self, *, add: bytes, take: bytes) -> None:
        row = self._row()
        row["tally"] = tally_move(row["tally"], add=add, take=take)

    def insert(self, table: str, row: Mapping[str, Value]) -> None:
        self._connection.execute(_insertion("INSERT", table, tuple(row)), tuple(row.values()))

    def insert_once(self, table: str, row: Mapping[str, Value]) -> None:
        sql = f"{_insertion('INSERT', table, tuple(row))} ON CONFLICT DO NOTHING"
        self._connection.execute(sql, tuple(row.values()))

    def put(self, table: str, row: Mapping[str, Value]) -> None:
        sql = _insertion("INSERT OR REPLACE", table, tuple(row))
        self._connection.execute(sql, tuple(row.values()))

    def update(self, table: str, changes: str, where: str, values: Values) -> None:
        self._connection.execute(f"UPDATE {table} SET {changes} WHERE {where}", values)

    def rewrite(self, table: str, row: Mapping[str, Value]) -> None:
        self.update(table, rewriting(tuple(row)), "id = ?", rewritten(row))

    def delete(self, table: str, where: str, values: Values) -> None:
        self._connection.execute(f"DELETE FROM {table} WHERE {where}", values)

    def take(self, table: str, where: str, values: Values) -> list[Row]:
        return self.rows(f"DELETE FROM {table} WHERE {where} RETURNING *", values)

    def finish(self) -> None:
        """Seal and store the ledger's own row, if it changed."""
        row = self._ledger
        if row is None or (digest := seal("ledger", row)) == row["digest"]:
            return
        values = (row["activity"], row["tally"], digest)
        self.update("ledger", "activity = ?, tally = ?, digest = ?", "id = 1", values)

    def _row(self) -> Row:
        if self._ledger is None:
            [self._ledger] = self.rows("SELECT * FROM ledger")
        return self._ledger


@lru_cache(maxsize=256)
def _insertion(verb: str, table: str, names: tuple[str, ...]) -> str:
    return f"{verb} INTO {table} ({', '.join(names)}) VALUES ({marks(names)})"
