"""Untrusted SQL over what is in PostgreSQL: it never gets there.

What a query may see of a session is copied into a file of SQLite's and asked there, in the same
process of its own, in the same words and under the same limits as in any other ledger. The server
sees our own reading alone. Of messages only those of groups that changed are copied again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from sightline.context.ledger.rows import RowReader, RowWriter
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.process import QueryProcess
from sightline.context.ledger.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from sightline.context.ledger.store import Store


_SMALL: Final = tuple(name for name, table in TABLES.items() if table.shown and name != "messages")
_MESSAGE: Final = tuple(name for name in TABLES["messages"].names if name != "status")
# What a group holds is another thing when one of these is.
_GROUPS: Final = (
    "SELECT id, status, content_digest, session_id, first_seq, first_seq + messages FROM groups"
)


class _Copy:
    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.process = QueryProcess(path)
        self.revision = -1

    def close(self) -> None:
        self.process.close()
        self.store.close()


class SessionCopies:
    """The copy of the session that was asked about last, for queries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._directory: TemporaryDirectory[str] | None = None
        self._session_id: int | None = None
        self._copy: _Copy | None = None

    def of(self, session_id: int | None) -> QueryProcess:
        """Give where queries over a session (None: all) run, with what is in it now."""
        if self._copy is None or self._session_id != session_id:
            self.close()
            self._directory = TemporaryDirectory(prefix="sightline-")
            self._copy = _Copy(Path(self._directory.name) / "session.db")
            self._session_id = session_id
        revision = self._store.revision()
        if revision != self._copy.revision:
            with self._store.read() as source, self._copy.store.work() as target:
                _bring(source, target, session_id)
            self._copy.revision = revision
        return self._copy.process

    def close(self) -> None:
        """Remove it."""
        if self._copy is not None:
            self._copy.close()
        if self._directory is not None:
            self._directory.cleanup()
        self._copy = self._directory = None


def _bring(source: RowReader, target: RowWriter, session_id: int | None) -> None:
    """Make the rows of a copy those of the ledger."""
    here, values = ("", ()) if session_id is None else (" WHERE session_id = ?", (session_id,))
    now, then = set(source.fetch(f"{_GROUPS}{here}", values)), set(target.fetch(_GROUPS))
    for group in then - now:
        target.delete("messages", "group_id = ?", group[:1])
    messages = f"SELECT {', '.join(_MESSAGE)} FROM messages"
    changed: Iterator[Iterable[tuple[Any, ...]]]
    if then:
        some = f"{messages} WHERE session_id = ? AND seq >= ? AND seq < ?"
        changed = (source.fetch(some, group[-3:]) for group in now - then)
    else:
        changed = iter([source.scan(f"{messages}{here}", values)])
    for rows in changed:
        for row in rows:
            target.insert("messages", dict(zip(_MESSAGE, row, strict=True)))
    for table in _SMALL:
        target.delete(table, "1 = 1", ())
        column = {"sessions": "id", "llm_memos": ""}.get(table, "session_id")
        names = TABLES[table].names
        whole = session_id is None or not column
        where, which = ("", ()) if whole else (f" WHERE {column} = ?", (session_id,))
        for row in source.scan(f"SELECT {', '.join(names)} FROM {table}{where}", which):
            target.insert(table, dict(zip(names, row, strict=True)))
