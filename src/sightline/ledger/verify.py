"""Find any row that is altered, missing, added or out of order.

SQLite's own check sees the tree structure, not the text in it: most flipped bits
pass. So every row is read and its seal computed anew, message after message,
group after group, up to the one seal over the whole ledger; then SQLite checks
its pages and indexes, through which the rows are found.

What this cannot see: changes after which somebody computed all the seals again,
and the loss of the last committed turns together with the log that held them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import apsw
import msgspec

from sightline.context.memos import tag_words
from sightline.errors import LedgerDamaged
from sightline.ledger.schema import TABLES
from sightline.ledger.seal import ZERO, Value, message_digest, tally_move
from sightline.ledger.store import Store
from sightline.ledger.transaction import Row, fetch, seal
from sightline.ledger.writer import chain_of

__all__ = ["Report", "verify"]

_SEALED: Final = TABLES["messages"].sealed
_COLUMNS: Final = f"{', '.join(_SEALED)}, dropped, digest"
_END: Final = len(_SEALED)
_TOKENS: Final = _SEALED.index("tokens")
_PAGE: Final = 500
_MAX_FINDINGS: Final = 1000
_TALLIED: Final = ("session_state", "usage", "receipts", "undone")


class Report(msgspec.Struct, frozen=True):
    """What was looked at, and what is wrong with it; nothing, if `findings` is empty."""

    sessions: int
    groups: int
    messages: int
    memos: int
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.findings

    def raise_if_damaged(self) -> None:
        """Raise `LedgerDamaged` with the findings, if there are any."""
        if self.findings:
            raise LedgerDamaged(self.findings)


def verify(store: Store) -> Report:
    """Check the whole ledger as of one point in time."""
    with store.read() as connection:
        return _Check(connection).run()


class _Check:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._findings: list[str] = []
        self._total = ZERO  # of the digests of all sessions, then of memos too
        self._counts = dict.fromkeys(("sessions", "groups", "messages", "memos"), 0)

    def run(self) -> Report:
        for stage in (self._sessions, self._strays, self._memos, self._ledger, self._pages):
            self._guarded(stage)
        return Report(**self._counts, findings=tuple(self._findings))

    def _find(self, finding: str) -> None:
        if len(self._findings) < _MAX_FINDINGS:
            self._findings.append(finding)

    def _guarded(self, stage: Callable[[], None]) -> None:
        """Run a stage; a file too broken to be read is a finding, not a crash."""
        try:
            stage()
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError) as error:
            self._find(f"the {stage.__name__.strip('_')} cannot be read: {error}")

    def _sessions(self) -> None:
        tallies = self._tallies()
        for session in self._rows("sessions"):
            self._counts["sessions"] += 1
            self._total = tally_move(self._total, add=session["digest"])
            if seal("sessions", session) != session["digest"]:
                self._find(f"session {session['id']} was altered")
            self._chain(session)
            if tallies.pop(session["id"], ZERO) != session["tally"]:
                self._find(
                    f"session {session['id']}: a row of {', '.join(_TALLIED)} is missing or added"
                )
        for orphan in tallies:
            self._find(f"session {orphan} has rows but does not exist")

    def _chain(self, session: Row) -> None:
        """Follow a session's groups in order; every figure must come out as it is stored."""
        name = f"session {session['id']}"
        messages = _Ahead(self._messages(session["id"]))
        before, place, tokens, live = ZERO, 0, 0, 0
        next_seq: int | None = 0  # None after a group whose own figures cannot be trusted
        for group in self._rows("groups", "WHERE session_id = ? ORDER BY seq", (session["id"],)):
            intact = seal("groups", group) == group["digest"]
            self._group(name, group, messages, intact=intact)
            if not intact:
                self._find(f"{name}: group {group['id']} was altered")
                before, next_seq, place = group["chain"], None, place + 1
                continue
            if group["seq"] != place or next_seq not in (None, group["first_seq"]):
                self._find(f"{name}: a group before group {group['id']} is missing")
            if chain_of(before, group) != group["chain"]:
                self._find(f"{name}: the chain breaks at group {group['id']}")
            if group["tokens_before"] != tokens:
                self._find(f"{name}: group {group['id']} has a wrong tokens_before")
            if group["status"] == "live":
                tokens += group["tokens"]
                live += 1
            before, next_seq, place = (
                group["chain"],
                group["first_seq"] + group["messages"],
                place + 1,
            )
        self._counts["groups"] += place
        for message in messages:
            self._find(f"{name}: message {message[0]} belongs to no group of it")
        found = (before, place, live, tokens)
        if found != tuple(session[key] for key in ("head", "next_group", "live_groups", "tokens")):
            self._find(f"{name}: its groups do not add up to its row; the last may be missing")
        if next_seq not in (None, session["next_seq"]):
            self._find(f"{name}: messages at its end are missing")

    def _group(self, name: str, group: Row, messages: _Ahead, *, intact: bool) -> None:
        """Read a group's messages, each sealed to the one before it."""
        digest, count, tokens = group["salt"] or ZERO, 0, 0
        while messages.next is not None and messages.next[2] == group["id"]:
            message = next(messages)
            dropped, stored = message[_END:]
            if message_digest(digest, message[:_END]) != stored:
                self._find(
                    f"{name}: message {message[0]} (seq {message[3]}) was altered, or the one "
                    "before it is missing"
                )
            elif bool(dropped) != (group["status"] == "dropped"):
                self._find(f"{name}: message {message[0]} is not marked as its group is")
            else:
                tokens += message[_TOKENS]
            digest, count = stored, count + 1
        self._counts["messages"] += count
        if not intact:
            return
        if group["status"] in ("undone", "removed"):
            if count:
                self._find(f"{name}: group {group['id']} was removed but has messages")
        elif (count, digest, tokens) != (
            group["messages"],
            group["content_digest"],
            group["tokens"],
        ):
            self._find(f"{name}: group {group['id']} has other messages than were stored")

    def _messages(self, session_id: int) -> Iterator[tuple[Any, ...]]:
        last = -1
        while page := self._page(session_id, last):
            yield from page
            last = page[-1][3]

    def _page(self, session_id: int, after: int) -> list[tuple[Any, ...]]:
        where = f"WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT {_PAGE}"
        try:
            sql = f"SELECT {_COLUMNS} FROM messages {where}"
            return fetch(self._connection, sql, (session_id, after))
        except UnicodeDecodeError:
            known = f"SELECT id, session_id, group_id, seq FROM messages {where}"
            rows = fetch(self._connection, known, (session_id, after))
            return [self._one(row) for row in rows]

    def _one(self, known: tuple[Any, ...]) -> tuple[Any, ...]:
        """Read one message; without its texts, if they are no longer text."""
        try:
            sql = f"SELECT {_COLUMNS} FROM messages WHERE id = ?"
            return fetch(self._connection, sql, known[:1])[0]
        except UnicodeDecodeError:
            return (*known, *[None] * (_END - len(known)), 0, ZERO)

    def _strays(self) -> None:
        """Count what is there against what was seen from the sessions."""
        for table in ("groups", "messages"):
            there = self._connection.execute(f"SELECT count(*) FROM {table}").get
            if there != self._counts[table]:
                self._find(f"{there} rows in {table}, but the sessions have {self._counts[table]}")

    def _tallies(self) -> dict[int, bytes]:
        tallies: dict[int, bytes] = {}
        for table in _TALLIED:
            for row in self._rows(table):
                if seal(table, row) != row["digest"]:
                    self._find(f"{table}: a row of session {row['session_id']} was altered")
                before = tallies.get(row["session_id"], ZERO)
                tallies[row["session_id"]] = tally_move(before, add=row["digest"])
        return tallies

    def _memos(self) -> None:
        words = set()
        for memo in self._rows("llm_memos"):
            self._counts["memos"] += 1
            self._total = tally_move(self._total, add=memo["digest"])
            if seal("llm_memos", memo) != memo["digest"]:
                self._find(f"memo {memo['id']} was altered")
                continue
            tags = msgspec.json.decode(memo["tags"], type=list[str])
            words |= {(word, memo["id"]) for word in tag_words(tags)}
        if words != set(fetch(self._connection, "SELECT word, memo_id FROM memo_words")):
            self._find("the memos' tags are not what memo_words says")

    def _ledger(self) -> None:
        rows = list(self._rows("ledger"))
        if len(rows) != 1 or seal("ledger", rows[0]) != rows[0]["digest"]:
            self._find("the ledger's own row was altered")
        elif rows[0]["tally"] != self._total:
            self._find("a session or a memo is missing or added")

    def _pages(self) -> None:
        for (finding,) in fetch(self._connection, "PRAGMA integrity_check(50)"):
            if finding != "ok":
                self._find(f"SQLite: {finding}")

    def _rows(self, table: str, where: str = "", values: tuple[Value, ...] = ()) -> Iterator[Row]:
        names = TABLES[table].names
        for row in self._connection.execute(
            f"SELECT {', '.join(names)} FROM {table} {where}", values
        ):
            yield dict(zip(names, row, strict=True))


class _Ahead:
    """An iterator that shows its next row before it is taken."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self.next = next(rows, None)

    def __iter__(self) -> _Ahead:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self.next is None:
            raise StopIteration
        row, self.next = self.next, next(self._rows, None)
        return row
