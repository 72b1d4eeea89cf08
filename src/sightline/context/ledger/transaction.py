"""Changes and their seals, kept together so that no operation can forget one.

Rows that a tally covers go in and out through `insert` and `delete`; a session's
row, once loaded, is sealed and stored by `finish`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sightline.context.ledger.attachments import NOWHERE, Attachments
from sightline.context.ledger.rows import Row, RowWriter, Values, the_session
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import ZERO, Value, row_digest, tally_move
from sightline.errors import LedgerUnavailable, NotFound


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


def seal(table: str, row: Mapping[str, Value]) -> bytes:
    """Compute the digest of a row from its sealed columns."""
    return row_digest(table, [row.get(name) for name in TABLES[table].sealed])
