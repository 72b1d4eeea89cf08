"""Find any row that is altered, missing, added or out of order.

An engine's own check sees the structure of a file, not the text in it: most flipped bits
pass. So every row is read and its seal computed anew, message after message,
group after group, up to the one seal over the whole ledger; then the engine checks
what is its own (`Store.check`): SQLite its pages and indexes, through which the rows are
found, and the numbers that it gives.

What this cannot see: changes after which somebody computed all the seals again,
the loss of the last committed turns together with the log that held them, and
numbers in `sqlite_sequence` that skip some, as if rows had been there and gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.ledger.attachments import Attachments, fetching, is_row
from sightline.context.ledger.codec import KEPT, kept_in
from sightline.context.ledger.groups import kept_in_undone
from sightline.context.ledger.memos import memo_stems
from sightline.context.ledger.rows import Row, RowReader, first, scan_table
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import ZERO, Value, broken_seals, group_chain, seal, tally_move
from sightline.context.ledger.store import Store, Watch
from sightline.errors import LedgerDamaged

_SEALED: Final = TABLES["messages"].sealed
_COLUMNS: Final = f"{', '.join(_SEALED)}, dropped, digest"
_END: Final = len(_SEALED)
_SEQ: Final = _SEALED.index("seq")
_PARTS: Final = _SEALED.index("parts")
_DIGEST: Final = _END + 1
_PAGE: Final = 500
_Row: TypeAlias = tuple[Any, ...]  # the columns of _COLUMNS
_group_id: Final = itemgetter(_SEALED.index("group_id"))
_tokens: Final = itemgetter(_SEALED.index("tokens"))
_dropped: Final = itemgetter(_END)
_MAX_FINDINGS: Final = 1000
_TALLIED: Final = (
    "session_state", "usage", "receipts", "undone", "strategy_states", "checkpoints",
    "checkpoint_writes",
)  # fmt: skip


class VerifyReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was looked at, and what is wrong with it; nothing, if `findings` is empty.

    `seals` has that of each session in which nothing is wrong, for the next one's `since`.
    `additions` names the tables, views and indexes that the user added to an own ledger.
    """

    sessions: int
    groups: int
    messages: int
    memos: int
    findings: tuple[str, ...]
    seals: dict[int, str] = {}
    additions: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.findings

    def raise_if_damaged(self) -> None:
        """Raise `LedgerDamaged` with the findings, if there are any."""
        if self.findings:
            raise LedgerDamaged(self.findings)


def verify(
    store: Store,
    watch: Watch | None = None,
    since: Mapping[int, str] | None = None,
    attachments: Attachments | None = None,
) -> VerifyReport:
    """Check the whole ledger as of one point in time; tell `watch` of messages that were read.

    With the seals of an earlier report, only what changed since. A copy that is not open as its
    original is has no `attachments` of its own.
    """
    with ThreadPoolExecutor(1) as aside, store.read() as db:
        # The engine's own check, which reads everything, runs beside ours.
        others = aside.submit(store.check) if since is None else None
        check = _Check(db, store.damage, watch, since, attachments or store.attachments)
        check.run()
        for finding in others.result() if others is not None else ():
            check.find(finding)
        return msgspec.structs.replace(check.report(), additions=store.additions)


class _Check:
    def __init__(
        self,
        db: RowReader,
        damage: tuple[type[Exception], ...],
        watch: Watch | None,
        since: Mapping[int, str] | None,
        attachments: Attachments,
    ) -> None:
        self._db = db
        self._attachments = attachments
        self._kept: dict[int, set[str]] = {}  # names of files by session
        self._files = 0  # of these, those in the ledger itself
        self._damage = damage
        self._watch = watch
        self._since = since
        self._seals: dict[int, str] = {}
        self._faults = 0
        self._read = self._whole = 0  # messages
        self._findings: list[str] = []
        self._total = ZERO  # of the digests of all sessions, then of memos too
        self._counts: dict[str, Any] = dict.fromkeys(("sessions", "groups", "messages", "memos"), 0)

    def run(self) -> None:
        """Read every table and note what is wrong."""
        stages = [self._sessions, self._strays, self._memos, self._ledger]
        if self._since is not None:
            stages.remove(self._strays)
        for stage in stages:
            try:
                stage()
            except self._damage as error:  # a file too broken to be read is a finding, not a crash
                self.find(f"the {stage.__name__.strip('_')} cannot be read: {error}")

    def report(self) -> VerifyReport:
        return VerifyReport(**self._counts, findings=tuple(self._findings), seals=self._seals)

    def find(self, finding: str) -> None:
        """Note what is wrong, up to a limit."""
        self._faults += 1
        if len(self._findings) < _MAX_FINDINGS:
            self._findings.append(finding)

    def _sessions(self) -> None:
        tallies = self._tallies() if self._since is None else {}
        if self._watch is not None:
            [(self._whole,)] = self._db.fetch("SELECT count(*) FROM messages")
        for session in self._rows("sessions"):
            self._counts["sessions"] += 1
            self._total = tally_move(self._total, add=session["digest"])
            faults, name = self._faults, session["digest"].hex()
            if seal("sessions", session) != session["digest"]:
                self.find(f"session {session['id']} was altered")
            elif self._since is not None:
                if self._since.get(session["id"]) == name:
                    self._seals[session["id"]] = name
                    continue
                tallies = self._tallies("WHERE session_id = ?", (session["id"],))
            self._chain(session)
            if tallies.pop(session["id"], ZERO) != session["tally"]:
                self.find(
                    f"session {session['id']}: a row of {', '.join(_TALLIED)} is missing or added"
                )
            for file in sorted(self._kept.pop(session["id"], ())):
                self._files += is_row(file)
                try:
                    fetching(self._db, self._attachments, [file])(file)
                except LedgerDamaged as error:
                    self.find(f"session {session['id']}: {error}")
            if self._faults == faults:
                self._seals[session["id"]] = name
        for orphan in tallies:
            self.find(f"session {orphan} has rows but does not exist")

    def _chain(self, session: Row) -> None:
        """Follow a session's groups in order; every figure must come out as it is stored."""
        name = f"session {session['id']}"
        runs = self._runs(session["id"])
        run = next(runs, None)
        before, position, tokens, live = ZERO, 0, 0, 0
        next_seq: int | None = 0  # None after a group whose own figures cannot be trusted
        for group in self._rows("groups", "WHERE session_id = ? ORDER BY seq", (session["id"],)):
            rows: list[_Row] = []
            if run is not None and run[0] == group["id"]:
                rows = run[1]
                run = next(runs, None)
            intact = seal("groups", group) == group["digest"]
            self._group(name, group, rows, intact=intact)
            if not intact:
                self.find(f"{name}: group {group['id']} was altered")
                before, next_seq, position = group["chain"], None, position + 1
                continue
            if group["seq"] != position or next_seq not in (None, group["first_seq"]):
                self.find(f"{name}: a group before group {group['id']} is missing")
            if group_chain(before, group) != group["chain"]:
                self.find(f"{name}: the chain breaks at group {group['id']}")
            if group["tokens_before"] != tokens:
                self.find(f"{name}: group {group['id']} has a wrong tokens_before")
            if group["status"] == "live":
                tokens += group["tokens"]
                live += 1
            before, position = group["chain"], position + 1
            next_seq = group["first_seq"] + group["messages"]
        self._counts["groups"] += position
        while run is not None:
            self.find(f"{name}: message {run[1][0][0]} belongs to no group of it")
            run = next(runs, None)
        found = (before, position, live, tokens)
        if found != tuple(session[key] for key in ("head", "next_group", "live_groups", "tokens")):
            self.find(f"{name}: its groups do not add up to its row; the last may be missing")
        if next_seq not in (None, session["next_seq"]):
            self.find(f"{name}: messages at its end are missing")

    def _group(self, name: str, group: Row, rows: list[_Row], *, intact: bool) -> None:
        """Check a group's messages, each sealed to the one before it."""
        self._counts["messages"] += len(rows)
        for row in rows:
            if KEPT in (row[_PARTS] or ""):
                self._keep(group["session_id"], kept_in, row[_PARTS])
        broken = broken_seals(group["salt"] or ZERO, rows, _END)
        for index in broken:
            self.find(
                f"{name}: message {rows[index][0]} (seq {rows[index][_SEQ]}) was altered, or the "
                "one before it is missing"
            )
        if not set(map(_dropped, rows)) <= {int(group["status"] == "dropped")}:
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
        elif not broken and sum(map(_tokens, rows)) != group["tokens"]:
            self.find(f"{name}: group {group['id']} has a wrong weight")

    def _keep(self, session_id: int, read: Callable[[str], Iterable[str]], text: str) -> None:
        """Note what a session keeps apart; what cannot be read is found by its seal."""
        with suppress(msgspec.DecodeError):
            self._kept.setdefault(session_id, set()).update(read(text))

    def _runs(self, session_id: int) -> Iterator[tuple[int, list[_Row]]]:
        """Read a session's messages in order, page by page, as runs of one group each."""
        last: tuple[int, list[_Row]] | None = None
        page = self._page(session_id, -1)
        while page:
            if self._watch is not None:
                self._read += len(page)
                self._watch(self._read, self._whole)
            for group_id, run in groupby(page, _group_id):
                if last is not None and last[0] == group_id:  # a page ended within the group
                    last[1].extend(run)
                    continue
                if last is not None:
                    yield last
                last = (group_id, list(run))
            page = self._page(session_id, page[-1][_SEQ])
        if last is not None:
            yield last

    def _page(self, session_id: int, after: int) -> list[_Row]:
        where = f"WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT {_PAGE}"
        try:
            sql = f"SELECT {_COLUMNS} FROM messages {where}"
            return self._db.fetch(sql, (session_id, after))
        except UnicodeDecodeError:
            known = f"SELECT id, session_id, group_id, seq FROM messages {where}"
            rows = self._db.fetch(known, (session_id, after))
            return [self._one(row) for row in rows]

    def _one(self, known: _Row) -> _Row:
        """Read one message; without its texts, if they are no longer text."""
        try:
            sql = f"SELECT {_COLUMNS} FROM messages WHERE id = ?"
            return self._db.fetch(sql, known[:1])[0]
        except UnicodeDecodeError:
            return (*known, *[None] * (_END - len(known)), 0, ZERO)

    def _strays(self) -> None:
        """Count what is there against what was seen from the sessions."""
        seen = {table: self._counts[table] for table in ("groups", "messages")}
        for table, count in (*seen.items(), ("attachments", self._files)):
            there = first(self._db, f"SELECT count(*) FROM {table}")
            if there != count:
                self.find(f"{there} rows in {table}, but the sessions have {count}")

    def _tallies(self, where: str = "", values: tuple[Value, ...] = ()) -> dict[int, bytes]:
        tallies: dict[int, bytes] = {}
        for table in _TALLIED:
            for row in self._rows(table, where, values):
                if seal(table, row) != row["digest"]:
                    self.find(f"{table}: a row of session {row['session_id']} was altered")
                if table == "undone" and KEPT in row["body"]:
                    self._keep(row["session_id"], kept_in_undone, row["body"])
                before = tallies.get(row["session_id"], ZERO)
                tallies[row["session_id"]] = tally_move(before, add=row["digest"])
        return tallies

    def _memos(self) -> None:
        known: Counter[str] = Counter()
        for memo in self._rows("llm_memos"):
            self._counts["memos"] += 1
            self._total = tally_move(self._total, add=memo["digest"])
            if seal("llm_memos", memo) != memo["digest"]:
                self.find(f"memo {memo['id']} was altered")
                continue
            for table, stems in memo_stems(memo["content"], memo["tags"]).items():
                known[table] += len(stems)
                found = f"SELECT word FROM {table} WHERE memo_id = ?"
                if stems != {word for (word,) in self._db.fetch(found, (memo["id"],))}:
                    self.find(f"the words of memo {memo['id']} are not what {table} says")
        for table in ("memo_words", "memo_content_words"):
            if first(self._db, f"SELECT count(*) FROM {table}") != known[table]:
                self.find(f"{table} has words of memos that are not there")

    def _ledger(self) -> None:
        for finding in self._db.total_findings(self._total):
            self.find(finding)

    def _rows(self, table: str, where: str = "", values: tuple[Value, ...] = ()) -> Iterator[Row]:
        return scan_table(self._db, table, TABLES[table].names, where, values)
