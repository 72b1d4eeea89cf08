"""Changes and their seals, kept together so that no operation can forget one.

Rows that a tally covers go in and out through `insert` and `delete`; a session's
row, once loaded, is sealed and stored by `finish`, and with it the ledger's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import apsw

from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import ZERO, Value, row_digest, tally_move
from sightline.errors import NotFound

__all__ = ["Row", "Transaction", "fetch", "find_session", "many", "one", "seal"]

# One row by column name. SQLite decides the types; STRICT tables hold it to them.
Row: TypeAlias = dict[str, Any]

_NEXT_ID: Final = "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = ?"


class Transaction:
    """The changes of one `write()` block, with their seals."""

    def __init__(self, connection: apsw.Connection, now: str) -> None:
        self.connection = connection
        self.now = now
        self._sessions: dict[int, tuple[Row, bytes]] = {}
        self._ledger = one(connection, "SELECT * FROM ledger")

    def execute(self, sql: str, values: tuple[Value, ...] = ()) -> apsw.Cursor:
        return self.connection.execute(sql, values)

    def next_id(self, table: str) -> int:
        """Tell the id that the next row of a table gets; no id is ever used twice."""
        number: int = self.execute(_NEXT_ID, (table,)).get
        return number

    def next_activity(self) -> int:
        """Count one more change; what gets the number is the most recent."""
        activity: int = self._ledger["activity"] + 1
        self._ledger["activity"] = activity
        return activity

    def session(self, session_id: int) -> Row:
        """Load a session's row; what is changed in it is sealed and stored at the end."""
        if session_id not in self._sessions:
            row = find_session(self.connection, session_id)
            self._sessions[session_id] = (row, row["digest"])
        return self._sessions[session_id][0]

    def touch(self, session: Row) -> None:
        """Make the session the most recent one."""
        session["updated_at"] = self.now
        session["activity"] = self.next_activity()

    def add_session(self, row: Row) -> Row:
        """Store a new session."""
        row["id"] = self.next_id("sessions")
        row["digest"] = ZERO
        self.insert_plain("sessions", row)
        self._sessions[row["id"]] = (row, ZERO)
        return row

    def forget_session(self, session: Row) -> None:
        """Delete a session's own row; the caller has deleted all it holds."""
        _, stored = self._sessions.pop(session["id"])
        self.execute("DELETE FROM sessions WHERE id = ?", (session["id"],))
        self._ledger["tally"] = tally_move(self._ledger["tally"], take=stored)

    def insert(self, session: Row, table: str, row: Mapping[str, Value]) -> int:
        """Store a row that belongs to a session's tally."""
        row = {**row, "session_id": session["id"]}
        session["tally"] = tally_move(session["tally"], add=self._insert(table, row))
        return self.connection.last_insert_rowid()

    def delete(self, session: Row, table: str, where: str, values: tuple[Value, ...]) -> list[Row]:
        """Delete rows of a session's tally, and return them."""
        rows = many(self.connection, f"DELETE FROM {table} WHERE {where} RETURNING *", values)
        for row in rows:
            session["tally"] = tally_move(session["tally"], take=row["digest"])
        return rows

    def insert_memo(self, row: Mapping[str, Value]) -> int:
        """Store a memo."""
        digest = self._insert("llm_memos", row)
        self._ledger["tally"] = tally_move(self._ledger["tally"], add=digest)
        return self.connection.last_insert_rowid()

    def delete_memo(self, memo_id: int) -> Row:
        """Delete a memo, and return it."""
        rows = many(self.connection, "DELETE FROM llm_memos WHERE id = ? RETURNING *", (memo_id,))
        if not rows:
            raise NotFound(f"no memo {memo_id}")
        self._ledger["tally"] = tally_move(self._ledger["tally"], take=rows[0]["digest"])
        return rows[0]

    def insert_plain(self, table: str, row: Mapping[str, Value]) -> None:
        """Store a row as it is; its seal is the caller's."""
        names = ", ".join(row)
        marks = ", ".join("?" * len(row))
        self.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))

    def update(self, table: str, row: Mapping[str, Value]) -> bytes:
        """Seal a changed row anew and store it by its id; return the new digest."""
        digest = seal(table, row)
        names = [name for name in row if name not in ("id", "digest")]
        changes = ", ".join(f"{name} = ?" for name in names)
        self.execute(
            f"UPDATE {table} SET {changes}, digest = ? WHERE id = ?",
            (*(row[name] for name in names), digest, row["id"]),
        )
        return digest

    def finish(self) -> None:
        """Store the sessions that changed, and the seal over all of them."""
        for session, stored in self._sessions.values():
            if seal("sessions", session) != stored:
                fresh = self.update("sessions", session)
                self._ledger["tally"] = tally_move(self._ledger["tally"], add=fresh, take=stored)
        if seal("ledger", self._ledger) != self._ledger["digest"]:
            self.update("ledger", self._ledger)

    def _insert(self, table: str, row: Mapping[str, Value]) -> bytes:
        """Store a sealed row; give it the next id first, for the digest covers it."""
        if "id" in TABLES[table].names and "id" not in row:
            row = {"id": self.next_id(table), **row}
        digest = seal(table, row)
        self.insert_plain(table, {**row, "digest": digest})
        return digest


def seal(table: str, row: Mapping[str, Value]) -> bytes:
    """Compute the digest of a row from its sealed columns."""
    return row_digest(table, [row.get(name) for name in TABLES[table].sealed])


def find_session(connection: apsw.Connection, session_id: int) -> Row:
    """Read a session's row, or raise `NotFound`."""
    rows = many(connection, "SELECT * FROM sessions WHERE id = ?", (session_id,))
    if not rows:
        raise NotFound(f"no session {session_id}")
    return rows[0]


def many(connection: apsw.Connection, sql: str, values: tuple[Value, ...] = ()) -> list[Row]:
    """Read rows by column name."""
    cursor = connection.execute(sql, values)
    names: list[str] = []
    rows = []
    for row in cursor:
        names = names or [column[0] for column in cursor.get_description()]
        rows.append(dict(zip(names, row, strict=True)))
    return rows


def fetch(
    connection: apsw.Connection, sql: str, values: tuple[Value, ...] = ()
) -> list[tuple[Any, ...]]:
    """Read rows as tuples, which is the fast way for the hot paths."""
    return connection.execute(sql, values).fetchall()


def one(connection: apsw.Connection, sql: str, values: tuple[Value, ...] = ()) -> Row:
    """Read exactly one row by column name."""
    (row,) = many(connection, sql, values)
    return row
