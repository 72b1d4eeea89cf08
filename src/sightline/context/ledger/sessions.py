"""Sessions: conversations that can be made, found, named, cloned and deleted.

A clone is a session of its own: its groups and messages have ids of their own,
and nothing done in one of the two touches the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, TypeAlias, TypeVar
from uuid import uuid4

import msgspec

from sightline.context.ledger.attachments import entries_of
from sightline.context.ledger.codec import ENTRY_COLUMNS
from sightline.context.ledger.groups import objects_of
from sightline.context.ledger.rows import Row, RowReader, RowWriter, at_most, find_session
from sightline.context.ledger.schema import HELD
from sightline.context.ledger.seal import ZERO
from sightline.context.ledger.store import Noun, Transaction
from sightline.context.ledger.writer import LEFT, Writer, leave
from sightline.context.messages.gate import Gate
from sightline.context.messages.parts import Draft
from sightline.context.messages.window import Window
from sightline.errors import InvalidInput, NotFound, SessionChanged

# What is nearly all that a session weighs.
_WEIGHED: Final = {
    "messages": "length(content) + coalesce(length(parts), 0)", "receipts": "length(body)",
    "undone": "length(body)", "exchanges": "length(request) + length(reply)",
    "checkpoints": "length(body)", "checkpoint_writes": "length(body)", "attachments": "size",
}  # fmt: skip
_COUNTED: Final = (
    "context_size", "context_slack", "next_seq", "next_group", "live_groups", "tokens", "largest",
)  # fmt: skip
# The columns that a `Session` shows as they are.
_SHOWN: Final = (
    "id", "uuid", "name", "project", "created_at", "updated_at", "tokens", "cloned_from", "parent",
)  # fmt: skip
_T = TypeVar("_T")
_MIN_PREFIX: Final = 4
_TITLE_CHARS: Final = 60
_FIRST_QUESTION: Final = (
    "SELECT substr(content, 1, 400) FROM messages "
    "WHERE session_id = sessions.id AND role = 'user' ORDER BY seq LIMIT 1"
)
_REQUESTS: Final = "FROM usage WHERE session_id = sessions.id AND inherited = 0"
_GONE_ON_WITH: Final = (
    "NOT (coalesce(kind, '') = 'ask' AND next_group < 2) AND parent IS NULL "
    "AND NOT (coalesce(kind, '') LIKE 'gateway%' AND live_groups = 0)"
)
_COST: Final = f"SELECT sum(cost_nanousd) {_REQUESTS}"
_UNPRICED: Final = f"SELECT count(*) - count(cost_nanousd) {_REQUESTS}"


class Session(msgspec.Struct, frozen=True):
    """A session as it is in lists. `groups` and `tokens` count what windows can show.

    Groups before `first_group` are folded away. `parent` is the uuid of the session that
    started it.
    """

    id: int
    uuid: str
    name: str
    project: str
    created_at: str
    updated_at: str
    groups: int
    tokens: int
    window: Window
    cloned_from: str | None
    head: str
    first_group: int = 0
    parent: str | None = None
    title: str = ""
    kind: str = ""

    @property
    def is_foreign(self) -> bool:
        """Whether it holds what a gateway saw of another agent, and nothing to go on from."""
        return self.kind.startswith("gateway") and not self.groups


class SessionOverview(msgspec.Struct, frozen=True):
    """A session as somebody looks for it: what it is about, and what it cost.

    The title is the one that it was given, or else the beginning of its first question.
    Requests of unknown cost are in `unpriced`, not in the cost. It is None if no cost is known.
    """

    session: Session
    title: str
    cost_nanousd: int | None
    unpriced: int


# Inside the class `list` is its method.
Found: TypeAlias = list[Session]
Overviews: TypeAlias = list[SessionOverview]


class Sessions(Noun):
    """The sessions of a ledger."""

    def create(
        self,
        name: str = "",
        *,
        project: str = "",
        parent: str | None = None,
        title: str = "",
        kind: str = "",
    ) -> Session:
        """Begin a session; without a name it is called by its number.

        `parent` is the uuid of the session that starts it, in this ledger or another; `kind` is
        `ask` for one that a single question begins. Raise `InvalidInput` for the name of
        another session.
        """
        if parent is not None:
            parent = self._gate.line(parent, "a session's parent")
        with self._store.write() as tx:
            project = self._gate.text(project, "a session's project", 4096)
            row = new_session(tx, name="", project=project)
            row["name"] = name_for(tx.db, self._gate, name, f"session {row['id']}")
            row["parent"], row["title"] = parent, self._title(title)
            row["kind"] = self._gate.line(kind, "a session's kind") if kind else None
        return session_of(row)

    def named(self, name: str) -> Session:
        """Find the session of exactly this name, or begin it; who asks at once gets the same.

        Raise `InvalidInput` for a name that the ledger could not keep as it is.
        """
        found = self.find(name)
        if found is not None:
            return found
        if self._gate.line(name, "a session's name") != name:
            raise InvalidInput(f"a session cannot be called exactly {name[:80]!r}")
        with self._store.write() as tx:
            tx.db.lock_names()
            rows = _called(tx.db, name) or [new_session(tx, name=name, project="")]
        return session_of(rows[0])

    def find(self, name: str) -> Session | None:
        """Find the session of exactly this name; None if there is none."""
        with self._store.read() as db:
            rows = _called(db, name)
        return session_of(rows[0]) if rows else None

    def get(self, session_id: int) -> Session:
        """Read one session."""
        with self._store.read() as db:
            return session_of(find_session(db, session_id))

    def list(self, *, project: str | None = None, limit: int = -1) -> Found:
        """List sessions, the most recent first: `recent` by another name."""
        return self.recent(project=project, limit=limit)

    def recent(self, *, project: str | None = None, limit: int = -1) -> Found:
        """List sessions, the most recent first."""
        chosen, values = ("", []) if project is None else ("WHERE project = ? ", [project])
        sql = f"SELECT * FROM sessions {chosen}ORDER BY activity DESC LIMIT ?"
        return [session_of(row) for row in self._rows(sql, *values, at_most(limit))]

    def overview(self, *, project: str = "", single: bool = False, limit: int = -1) -> Overviews:
        """List sessions to choose from: those of a project first, then the most recent.

        Without `single`, a question that nobody came back to is left out, and so are another
        agent's sessions, and those that another one started; with it, these stand behind the one
        that did.
        """
        chosen = "" if single else f"WHERE {_GONE_ON_WITH} "
        rows = self._rows(
            f"SELECT sessions.*, ({_FIRST_QUESTION}) AS question, "
            f"({_COST}) AS cost, ({_UNPRICED}) AS unpriced FROM sessions {chosen}"
            "ORDER BY CASE WHEN project = ? THEN 0 ELSE 1 END, activity DESC LIMIT ?",
            project,
            at_most(limit),
        )
        listed = [
            SessionOverview(
                session_of(row),
                row["title"] or _short(row["question"] or ""),
                row["cost"] if row["unpriced"] else row["cost"] or 0,
                row["unpriced"],
            )
            for row in rows
        ]
        return nested(listed, lambda one: one.session)

    def weight(self, session_id: int) -> int:
        """Say about how many bytes a session's words, files, receipts and exchanges take."""
        with self._store.read() as db:
            find_session(db, session_id)
            sums = (
                f"SELECT coalesce(sum({weight}), 0) FROM {table} WHERE session_id = ?"
                for table, weight in _WEIGHED.items()
            )
            return sum(int(db.fetch(sql, (session_id,))[0][0]) for sql in sums)

    def family(self, session_id: int) -> Found:
        """List a session and those that it began, itself or through others; it is the first."""
        begun = "SELECT * FROM sessions WHERE parent = ? ORDER BY id"
        with self._store.read() as db:
            family = [session_of(find_session(db, session_id))]
            for session in family:  # which grows
                rows = db.rows(begun, (session.uuid,))
                known = {one.id for one in family}
                family += [session_of(row) for row in rows if row["id"] not in known]
        return family

    def latest(self, *, project: str | None = None) -> Session:
        """Find the session to continue: the most recent of our own that no other began."""
        for session in self.recent(project=project):
            if session.parent is None and not session.is_foreign:
                return session
        raise NotFound("there is no session to continue")

    def resolve(self, reference: str) -> Session:
        """Find a session by its number, its name, or its uuid or the beginning of it.

        Raise `NotFound`, or `InvalidInput` where several answer to the reference.
        """
        with self._store.read() as db:
            rows = _matching(db, reference)
        if not rows:
            raise NotFound(f"no session {reference[:80]!r}")
        if len(rows) > 1:
            numbers = ", ".join(str(row["id"]) for row in rows[:5])
            raise InvalidInput(f"{reference[:80]!r} names several sessions: {numbers}")
        return session_of(rows[0])

    def switch(self, session_id: int) -> Session:
        """Make a session the most recent one, so that it is the one to continue."""
        with self._store.write() as tx:
            row = tx.session(session_id)
            tx.touch(row)
        return session_of(row)

    def rename(self, session_id: int, name: str) -> Session:
        """Give a session another name. Raise `InvalidInput` for the name of another one."""
        with self._changing(session_id) as (tx, row):
            if name != row["name"]:
                row["name"] = name_for(tx.db, self._gate, name, "")
        return session_of(row)

    def set_title(self, session_id: int, title: str) -> Session:
        """Say in a few words what a session is about; nothing takes them away."""
        with self._changing(session_id) as (_, row):
            row["title"] = self._title(title)
        return session_of(row)

    def _title(self, title: str) -> str | None:
        return self._gate.line(title, "a session's title") if title else None

    def fold(self, session_id: int, first_group: int) -> Session:
        """Fold away the groups before one: they stay, and are shown to no model any more."""
        self._gate.count(first_group, "the first group")
        with self._store.write() as tx:
            row = tx.session(session_id)
            row["first_group"] = first_group
        return session_of(row)

    def set_window(self, session_id: int, window: Window) -> Session:
        """Set the window that the session is read with."""
        with self._store.write() as tx:
            row = tx.session(session_id)
            row["context_size"], row["context_slack"] = window.size, window.slack
        return session_of(row)

    def clone(self, session_id: int, name: str = "") -> Session:
        """Copy a session: its live and dropped groups, states, scratchpad and settings."""
        with self._store.write() as tx:
            source = tx.session(session_id)
            name = name_for(tx.db, self._gate, name, f"{source['name']} (clone)")
            copy = new_session(tx, name=name, project=source["project"])
            copy["cloned_from"] = source["uuid"]
            for setting in ("scratchpad", "context_size", "context_slack", "title"):
                copy[setting] = source[setting]
            _copy_groups(tx, source, copy)
        return session_of(copy)

    def delete(self, session_id: int, *, confirm: str, head: str | None = None) -> None:
        """Delete a session for good. `confirm` must be its name or uuid, as shown to the user.

        With a `head`, raise `SessionChanged` if another message is the last one by now.
        """
        with self._store.write() as tx:
            row = tx.session(session_id)
            if confirm not in (row["name"], row["uuid"]):
                raise InvalidInput(
                    f"to delete session {session_id}, confirm with its name: {row['name']!r}"
                )
            check_head(row, head)
            delete_session(tx, row)
        self._store.scrub()


def delete_session(tx: Transaction, session: Row) -> None:
    """Delete a session with all that it holds, its attachments too."""
    if tx.attachments.is_open or objects_of(tx.db, session["id"]):
        tx.attachments.sweep(session["uuid"])
    for table in HELD:
        tx.db.delete(table, "session_id = ?", (session["id"],))
    tx.forget_session(session)


def check_head(session: Row, head: str | None) -> None:
    """Raise `SessionChanged` unless a session ends as its caller knows it, if the caller says."""
    if head is not None and session["head"].hex() != head:
        raise SessionChanged(f"something was said in session {session['id']} meanwhile")


def nested(listed: list[_T], session: Callable[[_T], Session]) -> list[_T]:
    """Put sessions behind the one that began them, in order; the others stay as they are."""
    known = {session(one).uuid for one in listed}
    begun: dict[str | None, list[_T]] = {}
    for one in listed:
        parent = session(one).parent
        begun.setdefault(parent if parent in known else None, []).append(one)
    ordered: list[_T] = []
    waiting = begun.pop(None, [])[::-1]
    while waiting:
        ordered.append(one := waiting.pop())
        waiting += sorted(
            begun.pop(session(one).uuid, []), key=lambda child: session(child).id, reverse=True
        )
    return ordered


def name_for(db: RowWriter, gate: Gate, given: str, otherwise: str) -> str:
    """A name that no session has yet: the one given, or else one that begins as said."""
    name = gate.line(given or otherwise, "a session's name")
    db.lock_names()
    if not (taken := _called(db, name)):
        return name
    if given:
        raise InvalidInput(f"session {taken[0]['id']} is called {name[:80]!r} already")
    candidates = (f"{name} {number}" for number in count(2))
    return next(candidate for candidate in candidates if not _called(db, candidate))


def _called(db: RowReader, name: str) -> list[Row]:
    return db.rows("SELECT * FROM sessions WHERE name = ?", (name,))


def new_session(tx: Transaction, *, name: str, project: str) -> Row:
    """Store an empty session, and return its row."""
    return tx.add_session(
        {
            **dict.fromkeys(("cloned_from", "first_group", "parent", "title", "kind")),
            **dict.fromkeys(_COUNTED, 0),
            **dict.fromkeys(("head", "tally"), ZERO),
            **dict.fromkeys(("created_at", "updated_at"), tx.now),
            "uuid": str(uuid4()),
            "name": name,
            "project": project,
            "activity": tx.db.next_activity(),
            "scratchpad": "",
        }
    )


def session_of(row: Row) -> Session:
    """Show a session's row as it is in lists."""
    return Session(
        **{column: row[column] for column in _SHOWN},
        groups=row["live_groups"],
        window=Window(row["context_size"], row["context_slack"]),
        head=row["head"].hex(),
        first_group=row["first_group"] or 0,
        title=row["title"] or "",
        kind=row["kind"] or "",
    )


def _short(question: str) -> str:
    """Make a title of a question: its first line that says something, cut between words."""
    lines = (" ".join(line.split()).lstrip("#> ") for line in question.splitlines())
    line = next((line for line in lines if any(map(str.isalnum, line))), "")
    if len(line) <= _TITLE_CHARS:
        return line
    return f"{line[:_TITLE_CHARS].rsplit(' ', 1)[0].rstrip(' ,;:.')}…"


def _matching(db: RowReader, reference: str) -> list[Row]:
    if reference.isascii() and reference.isdecimal() and len(reference) < 18:
        rows = db.rows("SELECT * FROM sessions WHERE id = ?", (int(reference),))
        if rows:
            return rows
    rows = db.rows("SELECT * FROM sessions WHERE name = ? OR uuid = ?", (reference,) * 2)
    if rows or len(reference) < _MIN_PREFIX:
        return rows
    return db.rows(
        "SELECT * FROM sessions WHERE substr(uuid, 1, ?) = ? ORDER BY id",
        (len(reference), reference),
    )


def _copy_groups(tx: Transaction, source: Row, copy: Row) -> None:
    groups = tx.db.rows(
        "SELECT * FROM groups WHERE session_id = ? AND status IN ('live', 'dropped') ORDER BY seq",
        (source["id"],),
    )
    writer = Writer(tx, copy, max_message=source["largest"])
    for group in groups:
        new_id = writer.start_group(
            dropped=group["status"] == "dropped", created_at=group["created_at"]
        )
        requests = _copy_usage(tx, copy, group, new_id)
        rows = tx.db.fetch(
            f"SELECT {ENTRY_COLUMNS}, outcome FROM messages "
            "WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq",
            (source["id"], group["first_seq"], group["first_seq"] + group["messages"]),
        )
        for *columns, outcome in rows:
            [entry] = entries_of(tx.db, tx.attachments, [tuple(columns)])
            writer.add(
                Draft(entry.message, entry.tokens, entry.basis, outcome == "incomplete"),
                strategy=entry.parsing_strategy,
                created_at=entry.created_at,
                usage_id=requests.get(entry.usage_id),
            )
        _copy_state(tx, copy, group["id"], new_id)
        if copy["first_group"] is None and 0 < (source["first_group"] or 0) <= group["id"]:
            copy["first_group"] = new_id
    writer.finish()


def _copy_usage(tx: Transaction, copy: Row, group: Row, new_id: int) -> dict[int | None, int]:
    """Copy a group's requests, marked as paid for elsewhere; return their new ids by the old."""
    copied: dict[int | None, int] = {}
    rows = tx.db.rows(
        "SELECT * FROM usage WHERE session_id = ? AND group_id = ? ORDER BY id",
        (group["session_id"], group["id"]),
    )
    for row in rows:
        old = row.pop("id")
        del row["digest"]
        copied[old] = tx.insert(copy, "usage", {**row, "group_id": new_id, "inherited": 1})
    return copied


def _copy_state(tx: Transaction, copy: Row, group_id: int, new_id: int) -> None:
    """Copy what a group left: its state, which may be another than its last message says."""
    for table, column in LEFT.items():
        sql = f"SELECT {column}, created_at FROM {table} WHERE group_id = ?"
        for text, at in tx.db.fetch(sql, (group_id,)):
            leave(tx, copy, table, new_id, text, at)
