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
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from sightline.context.memos import tag_words
from sightline.errors import LedgerDamaged, SightlineError
from sightline.ledger.schema import TABLES
from sightline.ledger.seal import ZERO, Value, broken_seals, row_digest, tally_move
from sightline.ledger.store import Store
from sightline.ledger.transaction import Row, fetch, seal
from sightline.ledger.writer import chain_of

__all__ = ["Report", "verify"]

_SEALED: Final = TABLES["messages"].sealed
_COLUMNS: Final = f"{', '.join(_SEALED)}, dropped, digest"
_END: Final = len(_SEALED)
_GROUP, _SEQ, _TOKENS = (_SEALED.index(name) for name in ("group_id", "seq", "tokens"))
_DROPPED, _DIGEST = _END, _END + 1
_PAGE: Final = 500
_Row: TypeAlias = tuple[Any, ...]  # the columns of _COLUMNS
_group_fields: Final = itemgetter(*TABLES["groups"].sealed)
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
    with ThreadPoolExecutor(1) as aside, store.read() as connection:
        # SQLite's check runs beside ours; neither needs the interpreter while it reads.
        pages = aside.submit(_pages, store)
        check = _Check(connection)
        check.run()
        for finding in pages.result():
            check.find(finding)
        return check.report()


class _Check:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._findings: list[str] = []
        self._total = ZERO  # of the digests of all sessions, then of memos too
        self._counts = dict.fromkeys(("sessions", "groups", "messages", "memos"), 0)

    def run(self) -> None:
        """Read every table and note what is wrong."""
        for stage in (self._sessions, self._strays, self._memos, self._ledger):
            self._guarded(stage)

    def report(self) -> Report:
        return Report(**self._counts, findings=tuple(self._findings))

    def find(self, finding: str) -> None:
        """Note what is wrong, up to a limit."""
        if len(self._findings) < _MAX_FINDINGS:
            self._findings.append(finding)

    def _guarded(self, stage: Callable[[], None]) -> None:
        """Run a stage; a file too broken to be read is a finding, not a crash."""
        try:
            stage()
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError) as error:
            self.find(f"the {stage.__name__.strip('_')} cannot be read: {error}")

    def _sessions(self) -> None:
        tallies = self._tallies()
        for session in self._rows("sessions"):
            self._counts["sessions"] += 1
            self._total = tally_move(self._total, add=session["digest"])
            if seal("sessions", session) != session["digest"]:
                self.find(f"session {session['id']} was altered")
            self._chain(session)
            if tallies.pop(session["id"], ZERO) != session["tally"]:
                self.find(
                    f"session {session['id']}: a row of {', '.join(_TALLIED)} is missing or added"
                )
        for orphan in tallies:
            self.find(f"session {orphan} has rows but does not exist")

    def _chain(self, session: Row) -> None:
        """Follow a session's groups in order; every figure must come out as it is stored."""
        name = f"session {session['id']}"
        messages = _Pages(lambda after: self._page(session["id"], after))
        before, place, tokens, live = ZERO, 0, 0, 0
        next_seq: int | None = 0  # None after a group whose own figures cannot be trusted
        for group in self._rows("groups", "WHERE session_id = ? ORDER BY seq", (session["id"],)):
            intact = row_digest("groups", _group_fields(group)) == group["digest"]
            self._group(name, group, messages, intact=intact)
            if not intact:
                self.find(f"{name}: group {group['id']} was altered")
                before, next_seq, place = group["chain"], None, place + 1
                continue
            if group["seq"] != place or next_seq not in (None, group["first_seq"]):
                self.find(f"{name}: a group before group {group['id']} is missing")
            if chain_of(before, group) != group["chain"]:
                self.find(f"{name}: the chain breaks at group {group['id']}")
            if group["tokens_before"] != tokens:
                self.find(f"{name}: group {group['id']} has a wrong tokens_before")
            if group["status"] == "live":
                tokens += group["tokens"]
                live += 1
            before, next_seq, place = (
                group["chain"],
                group["first_seq"] + group["messages"],
                place + 1,
            )
        self._counts["groups"] += place
        while stray := messages.next_row():
            self.find(f"{name}: message {stray[0]} belongs to no group of it")
            messages.of_group(stray[2])
        found = (before, place, live, tokens)
        if found != tuple(session[key] for key in ("head", "next_group", "live_groups", "tokens")):
            self.find(f"{name}: its groups do not add up to its row; the last may be missing")
        if next_seq not in (None, session["next_seq"]):
            self.find(f"{name}: messages at its end are missing")

    def _group(self, name: str, group: Row, messages: _Pages, *, intact: bool) -> None:
        """Read a group's messages, each sealed to the one before it."""
        rows = messages.of_group(group["id"])
        self._counts["messages"] += len(rows)
        broken = broken_seals(group["salt"] or ZERO, rows, _END)
        for place in broken:
            self.find(
                f"{name}: message {rows[place][0]} (seq {rows[place][_SEQ]}) was altered, or the "
                "one before it is missing"
            )
        if not {row[_DROPPED] for row in rows} <= {int(group["status"] == "dropped")}:
            self.find(f"{name}: messages of group {group['id']} are not marked as it is")
        if not intact:
            return
        if group["status"] in ("undone", "removed"):
            if rows:
                self.find(f"{name}: group {group['id']} was removed but has messages")
            return
        found = (len(rows), rows[-1][_DIGEST] if rows else None)
        if found != (group["messages"], group["content_digest"]):
            self.find(f"{name}: group {group['id']} has other messages than were stored")
        elif not broken and sum(row[_TOKENS] for row in rows) != group["tokens"]:
            self.find(f"{name}: group {group['id']} has a wrong weight")

    def _page(self, session_id: int, after: int) -> list[_Row]:
        where = f"WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT {_PAGE}"
        try:
            sql = f"SELECT {_COLUMNS} FROM messages {where}"
            return fetch(self._connection, sql, (session_id, after))
        except UnicodeDecodeError:
            known = f"SELECT id, session_id, group_id, seq FROM messages {where}"
            rows = fetch(self._connection, known, (session_id, after))
            return [self._one(row) for row in rows]

    def _one(self, known: _Row) -> _Row:
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
                self.find(f"{there} rows in {table}, but the sessions have {self._counts[table]}")

    def _tallies(self) -> dict[int, bytes]:
        tallies: dict[int, bytes] = {}
        for table in _TALLIED:
            for row in self._rows(table):
                if seal(table, row) != row["digest"]:
                    self.find(f"{table}: a row of session {row['session_id']} was altered")
                before = tallies.get(row["session_id"], ZERO)
                tallies[row["session_id"]] = tally_move(before, add=row["digest"])
        return tallies

    def _memos(self) -> None:
        words = set()
        for memo in self._rows("llm_memos"):
            self._counts["memos"] += 1
            self._total = tally_move(self._total, add=memo["digest"])
            if seal("llm_memos", memo) != memo["digest"]:
                self.find(f"memo {memo['id']} was altered")
                continue
            tags = msgspec.json.decode(memo["tags"], type=list[str])
            words |= {(word, memo["id"]) for word in tag_words(tags)}
        if words != set(fetch(self._connection, "SELECT word, memo_id FROM memo_words")):
            self.find("the memos' tags are not what memo_words says")

    def _ledger(self) -> None:
        rows = list(self._rows("ledger"))
        if len(rows) != 1 or seal("ledger", rows[0]) != rows[0]["digest"]:
            self.find("the ledger's own row was altered")
        elif rows[0]["tally"] != self._total:
            self.find("a session or a memo is missing or added")

    def _rows(self, table: str, where: str = "", values: tuple[Value, ...] = ()) -> Iterator[Row]:
        names = TABLES[table].names
        for row in self._connection.execute(
            f"SELECT {', '.join(names)} FROM {table} {where}", values
        ):
            yield dict(zip(names, row, strict=True))


class _Pages:
    """A session's messages in order, read page by page and handed out group by group."""

    def __init__(self, read: Callable[[int], list[_Row]]) -> None:
        self._read = read
        self._page = read(-1)
        self._at = 0

    def next_row(self) -> _Row | None:
        """Show the next message without taking it."""
        if self._at == len(self._page) and self._page:
            self._page, self._at = self._read(self._page[-1][_SEQ]), 0
        return self._page[self._at] if self._page else None

    def of_group(self, group_id: int) -> list[_Row]:
        """Take the messages that come next, as long as they are of this group."""
        taken: list[_Row] = []
        while (row := self.next_row()) is not None and row[_GROUP] == group_id:
            page, start = self._page, self._at
            end = start + 1
            while end < len(page) and page[end][_GROUP] == group_id:
                end += 1
            taken += page[start:end]
            self._at = end
        return taken


def _pages(store: Store) -> list[str]:
    """Let SQLite check its pages and indexes, on a connection of its own."""
    try:
        own = Store(store.path, mode="read")
    except SightlineError as error:
        return [str(error)]
    try:
        with own.read() as connection:
            rows = fetch(connection, "PRAGMA integrity_check(50)")
        return [f"SQLite: {finding}" for (finding,) in rows if finding != "ok"]
    except SightlineError as error:
        return [f"SQLite: {error}"]
    finally:
        own.close()
