"""Rows: how the ledger reads and changes them, whatever engine keeps them.

*Reading* is SELECT in words that every engine takes: `?` for a value, no engine's own
functions, no negative LIMIT. *Changing* is rows, never statements, so that an engine may
gather what a change does and send it at once. What every change of a file would touch (the
count of changes, the sum over all sessions and memos) is asked for by name: an engine with
many writers keeps it otherwise. So is what an append has to know, which whoever wrote last to
the session knows. A test runs both rules against every module of this room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from sightline.context.ledger.seal import Value
from sightline.errors import NotFound

# One row by column name. The engine decides the types; its tables hold it to them.
Row: TypeAlias = dict[str, Any]
Values: TypeAlias = Sequence[Value]
Statement: TypeAlias = tuple[str, Values]
_NO_LIMIT: Final = 2**53
_AT_ONCE: Final = 500
_T = TypeVar("_T")


class RowReader(Protocol):
    """A ledger at one point in time."""

    def fetch(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Read rows as tuples, which is the fast way for the hot paths."""

    def fetch_each(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Read several things at once, where none has to be known to ask for another."""

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        """Read rows by column name."""

    def scan(self, sql: str, values: Values = ()) -> Iterator[tuple[Any, ...]]:
        """Read rows one after the other, for results that are too large to hold."""

    def total_findings(self, total: bytes) -> list[str]:
        """Tell where the sum over all sessions and memos is not the one that is kept, if any is."""


class RowWriter(RowReader, Protocol):
    """A change of a ledger: all of it when its block ends, nothing if that raises."""

    def lock_session(self, session_id: int) -> list[Row]:
        """Read a session's row; nobody else changes that session until this change ends."""

    def last_group(self, session_id: int) -> tuple[Row, bytes] | None:
        """Read a session's last group, and the chain of the one before it; None if it has none."""

    def under_key(self, session_id: int, columns: str, key: str) -> list[tuple[Any, ...]]:
        """Read columns of the messages that were appended to a session under a key."""

    def lock_names(self) -> None:
        """Let nobody else look for a session's name to give until this change ends."""

    def next_id(self, table: str) -> int:
        """Give the id of a new row of a table; none is given twice, and later ones are larger."""

    def count_from(self, table: str, number: int) -> None:
        """Give no number up to this one any more: rows came with theirs. `activity` is one, too."""

    def next_activity(self) -> int:
        """Count one more change; what gets the number is the most recent."""

    def move_total(self, *, add: bytes, take: bytes) -> None:
        """Move the sum over all sessions and memos by one digest in and one out."""

    def insert(self, table: str, row: Mapping[str, Value]) -> None:
        """Store a row."""

    def insert_once(self, table: str, row: Mapping[str, Value]) -> None:
        """Store a row, unless there is one with the same key."""

    def put(self, table: str, row: Mapping[str, Value]) -> None:
        """Store a row in place of the one with the same key, if there is one."""

    def update(self, table: str, changes: str, where: str, values: Values) -> None:
        """Change the rows that a condition names: `update(t, "a = ?", "id = ?", (a, id))`."""

    def rewrite(self, table: str, row: Mapping[str, Value]) -> None:
        """Store a row as it is now, in place of the one with its id."""

    def delete(self, table: str, where: str, values: Values) -> None:
        """Delete the rows that a condition names."""

    def take(self, table: str, where: str, values: Values) -> list[Row]:
        """Delete the rows that a condition names, and return them."""


def find_session(db: RowReader, session_id: int) -> Row:
    """Read a session's row, or raise `NotFound`."""
    return the_session(db.rows("SELECT * FROM sessions WHERE id = ?", (session_id,)), session_id)


def the_session(rows: list[_T], session_id: int) -> _T:
    """Give the one session that was found, or raise `NotFound`."""
    if not rows:
        raise NotFound(f"no session {session_id}")
    return rows[0]


def first(db: RowReader, sql: str, values: Values = ()) -> Any:
    """Read the first value of the first row; None if there is no row."""
    rows = db.fetch(sql, values)
    return rows[0][0] if rows else None


@lru_cache(maxsize=64)
def rewriting(names: tuple[str, ...]) -> str:
    """Write what changes in a row that is rewritten: all but its id."""
    return ", ".join(f"{name} = ?" for name in names if name != "id")


def rewritten(row: Mapping[str, Value]) -> list[Value]:
    """List the values for `rewriting(names)` and `id = ?`."""
    return [*(value for name, value in row.items() if name != "id"), row["id"]]


def at_most(limit: int) -> int:
    """Write how many rows there may be; a negative limit is none."""
    return _NO_LIMIT if limit < 0 else limit


def scan_table(
    db: RowReader, table: str, names: Sequence[str], where: str = "", values: Values = ()
) -> Iterator[Row]:
    """Read columns of a table one row after the other, by their names."""
    for row in db.scan(f"SELECT {', '.join(names)} FROM {table} {where}", values):
        yield dict(zip(names, row, strict=True))


def with_json(row: Sequence[Any], at: int) -> list[Any]:
    """Give the values of a row with the JSON of one of them read; null stays null."""
    values = list(row)
    if values[at] is not None:
        values[at] = msgspec.json.decode(values[at])
    return values


def portions(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Split values into as many as one statement takes: engines bound how many it may have."""
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def marks(values: Sequence[object]) -> str:
    """Write one `?` for each value; for none what no value is equal to: `IN (NULL)`."""
    return ", ".join("?" * len(values)) or "NULL"
