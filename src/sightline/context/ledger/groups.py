"""What a person does to a conversation by hand: undo, redo, drop, restore, remove; pop, clear.

Undo, remove and drop are those of std::slop, context management §6 and §7. Each is one
transaction on one session. A dropped group stays in the ledger and leaves every window.
An undone or removed group leaves `messages`; its row in `groups` stays behind, without
salt, so that the chain still closes over the gap. What was undone waits in `undone` until
the next turn begins. Pop and clear are what stores of frameworks do; they shorten the chain
from its end, and nothing stays behind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from sightline.context.ledger.attachments import entries_of, is_row, names_in
from sightline.context.ledger.codec import ENTRY_COLUMNS, KEPT, entry_of, kept_in, without_bytes
from sightline.context.ledger.history import group_rows
from sightline.context.ledger.rows import Row, RowReader, at_most, first, marks
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import ZERO, group_chain, seal
from sightline.context.ledger.store import Noun, Transaction
from sightline.context.ledger.writer import LEFT, leave
from sightline.context.messages.parts import Entry
from sightline.context.messages.state import extract_state
from sightline.errors import InvalidInput, LedgerDamaged, NotFound

GroupStatus: TypeAlias = Literal["live", "dropped", "undone", "removed"]

_STORED: Final = tuple(name for name in TABLES["messages"].names if name != "status")
_RANGE: Final = "session_id = ? AND seq >= ? AND seq < ?"
_PREVIEW: Final = 200
# One column for each field of `Group`, in their order.
_LISTED: Final = (
    "id, seq, status, messages, tokens, "
    "(SELECT prompt_tokens + completion_tokens FROM usage "
    " WHERE usage.session_id = groups.session_id AND usage.group_id = groups.id "
    " AND prompt_tokens + completion_tokens > 0 "
    " ORDER BY usage.id DESC LIMIT 1) AS snapshot, created_at, "
    f"coalesce((SELECT substr(content, 1, {_PREVIEW}) FROM messages "
    " WHERE messages.session_id = groups.session_id AND messages.seq = first_seq"
    "), '') AS prompt"
)


class Group(msgspec.Struct, frozen=True):
    """A group as it is in lists.

    `tokens` is its own weight; `snapshot` what the session weighed when its last
    request was made (prompt and completion together), None if nobody reported it.
    `prompt` is the beginning of its first message.
    """

    id: int
    seq: int
    status: GroupStatus
    messages: int
    tokens: int
    snapshot: int | None
    created_at: str
    prompt: str


class _Undone(msgspec.Struct, frozen=True):
    """The body of a row of `undone`: all that it takes to bring the group back."""

    salt: bytes
    tokens: int
    messages: list[list[Any]]  # the columns of _STORED; digests in base64
    state: list[str]  # content and created_at, or nothing


class Groups(Noun):
    """The groups of a ledger's sessions."""

    def undone_prompts(self, session_id: int) -> list[str]:
        """List what the user said in groups that wait to be brought back."""
        bodies = self._fetch("SELECT body FROM undone WHERE session_id = ?", session_id)
        stored = [
            dict(zip(_STORED, columns, strict=True))
            for (body,) in bodies
            for columns in _undone.decode(body).messages
        ]
        return [str(row["content"]) for row in stored if row["role"] == "user"]

    def every(self, session_id: int) -> list[tuple[int, int, GroupStatus, int, int]]:
        """List all groups in order, gone ones too: seq, id, status, messages, tokens."""
        sql = (
            "SELECT seq, id, status, messages, tokens FROM groups WHERE session_id = ? ORDER BY seq"
        )
        return self._fetch_of(sql, session_id)

    def at(self, session_id: int, seqs: Sequence[int]) -> list[Group]:
        """List some groups by their places, gone ones too; of those, no prompt is left."""
        return self._listed(f"seq IN ({marks(seqs)}) ORDER BY seq", session_id, *seqs)

    def calling(self, session_id: int, name: str) -> frozenset[int]:
        """Find the groups in which a tool, or an app's action, of this name was called."""
        wanted = name.casefold()
        words = re.sub(r"([%_!])", r"!\1", name)
        with self._store.read() as db:
            calls = db.scan(
                f"SELECT {ENTRY_COLUMNS} FROM messages WHERE session_id = ? "
                "AND outcome = 'tool_call' AND content LIKE ? ESCAPE '!'",
                (session_id, f"%{words}%"),
            )
            return frozenset(
                entry.group_id
                for entry in (entry_of(row, without_bytes) for row in calls)
                for call in entry.message.tool_calls
                if wanted in (call.name.casefold(), str(call.arguments.get("action")).casefold())
            )

    def recent(self, session_id: int, last: int = -1, *, dropped: bool = True) -> list[Group]:
        """List the newest groups of a session in order, with their weights; all by default."""
        shown = "('live', 'dropped')" if dropped else "('live')"
        newest_first = f"status IN {shown} ORDER BY seq DESC LIMIT ?"
        return self._listed(newest_first, session_id, at_most(last))[::-1]

    def _listed(self, chosen: str, session_id: int, *values: int) -> list[Group]:
        sql = f"SELECT {_LISTED} FROM groups WHERE session_id = ? AND {chosen}"
        return [Group(*row) for row in self._fetch_of(sql, session_id, *values)]

    def statuses(self, session_id: int, group_ids: Sequence[int]) -> dict[int, GroupStatus]:
        """Tell what became of some groups."""
        sql = f"SELECT id, status FROM groups WHERE session_id = ? AND id IN ({marks(group_ids)})"
        return dict(self._fetch(sql, session_id, *group_ids))

    def seqs(self, group_ids: Sequence[int]) -> dict[int, int]:
        """Tell where in their sessions some groups stand, as `seq`."""
        sql = f"SELECT id, seq FROM groups WHERE id IN ({marks(group_ids)})"
        return dict(self._fetch(sql, *group_ids))

    def goes_on(self, session_id: int) -> bool:
        """Tell whether a reply that is stored next joins a group, or has to be one of its own."""
        last = "SELECT status FROM groups WHERE session_id = ? ORDER BY seq DESC LIMIT 1"
        return self._fetch(last, session_id) == [("live",)]

    def show(self, session_id: int, group_id: int) -> list[Entry]:
        """Read the whole of one group, dropped or not."""
        with self._store.read() as db:
            rows = group_rows(db, session_id, group_id)
            entries = entries_of(db, self._store.attachments, rows)
        if not entries:
            raise NotFound(f"group {group_id} was removed")
        return entries

    def undo(self, session_id: int) -> int:
        """Take back the last live group; return its id. `redo` brings it back."""
        with self._changing(session_id) as (tx, session):
            group = _last(tx, session_id)
            if group is None:
                raise NotFound("there is nothing to undo")
            body = _pack(tx, group)
            _take_messages(tx, session, group, "undone")
            row: Row = {"group_id": group["id"], "body": body, "created_at": tx.now}
            tx.insert(session, "undone", row)
        return int(group["id"])

    def redo(self, session_id: int) -> int:
        """Bring back the group that was undone last; return its id."""
        with self._changing(session_id) as (tx, session):
            sql = "SELECT * FROM undone WHERE session_id = ? ORDER BY group_id LIMIT 1"
            waiting = tx.db.rows(sql, (session_id,))
            if not waiting:
                raise NotFound("there is nothing to redo")
            group = _get(tx, session_id, waiting[0]["group_id"])
            _unpack(tx, session, group, waiting[0])
            tx.delete(session, "undone", "group_id = ?", (group["id"],))
        return int(group["id"])

    def drop(self, session_id: int, group_id: int) -> None:
        """Take a group out of every window and of retrieval; `restore` brings it back."""
        self._mark(session_id, group_id, "live", "dropped")

    def restore(self, session_id: int, group_id: int) -> None:
        """Bring a dropped group back to its place."""
        self._mark(session_id, group_id, "dropped", "live")

    def remove(self, session_id: int, group_id: int) -> None:
        """Delete a group for good: its text is overwritten in the file, not only unlinked."""
        with self._changing(session_id) as (tx, session):
            group = _get(tx, session_id, group_id)
            if group["status"] not in ("live", "dropped"):
                raise NotFound(f"group {group_id} was removed already")
            _take_messages(tx, session, group, "removed")
            sweep(tx, session)
        self._store.scrub()

    def pop(self, session_id: int) -> Entry | None:
        """Take away the last message that windows show, and return it; None if there is none.

        Raise `InvalidInput` where a group behind it is dropped: that one can be restored.
        """
        with self._store.write() as tx:
            session = tx.session(session_id)
            forget_undone(tx, session)
            group = _last(tx, session_id)
            if group is None:
                return None
            _make_last(tx, session, group)
            [entry, before] = _last_two(tx, group)
            where = "session_id = ? AND seq = ?"
            tx.db.delete("messages", where, (session_id, entry.seq))
            session["next_seq"] = entry.seq
            session["tokens"] -= entry.tokens
            chain = _chain_before(tx, group)
            if before is None:
                _forget_group(tx, session, group)
                session["head"] = chain
            else:
                group["messages"] -= 1
                group["tokens"] -= entry.tokens
                group["content_digest"] = before
                session["head"] = group["chain"] = group_chain(chain, group)
                tx.update("groups", group)
                if entry.role == "assistant" and extract_state(entry.message.text):
                    _restate(tx, session, group)
            tx.touch(session)
            sweep(tx, session)
        return entry

    def clear(self, session_id: int) -> None:
        """Delete everything said in a session for good; its name, settings and costs stay."""
        with self._changing(session_id) as (tx, session):
            for table in ("session_state", "strategy_states", "undone"):
                tx.delete(session, table, "session_id = ?", (session_id,))
            for table in ("messages", "groups", "open_replies", "open_calls"):
                tx.db.delete(table, "session_id = ?", (session_id,))
            session.update(dict.fromkeys(("next_seq", "next_group", "live_groups", "tokens"), 0))
            session.update(head=ZERO, first_group=None)
            sweep(tx, session)
        self._store.scrub()

    def _mark(
        self, session_id: int, group_id: int, before: GroupStatus, after: GroupStatus
    ) -> None:
        with self._changing(session_id) as (tx, session):
            group = _get(tx, session_id, group_id)
            if group["status"] != before:
                raise InvalidInput(f"group {group_id} is {group['status']}, not {before}")
            live = after == "live"
            group["status"] = after
            tx.update("groups", group)
            tx.db.update("messages", "dropped = ?", _RANGE, (int(not live), *_range_of(group)))
            _weigh(tx, session, group, group["tokens"] if live else -group["tokens"])


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_undone: Final = msgspec.json.Decoder(_Undone)


def forget_undone(tx: Transaction, session: Row) -> bool:
    """Give up what waits for a redo; the next turn has begun. Say whether there was anything."""
    rows = tx.delete(session, "undone", "session_id = ?", (session["id"],))
    for row in rows:
        group = _get(tx, session["id"], row["group_id"])
        group["status"] = "removed"
        tx.update("groups", group)
        tx.delete(session, "strategy_states", "group_id = ?", (group["id"],))
    if any(KEPT in row["body"] for row in rows):
        _sweep_rows(tx, session)
    return bool(rows)


def kept_by(db: RowReader, session_id: int | None = None) -> set[str]:
    """Name the files of a session, or of all, that are kept apart, undone groups included."""
    where, values = ("", ()) if session_id is None else ("session_id = ? AND ", (session_id,))
    having = (*values, f"%{KEPT}%")
    parts = db.scan(f"SELECT parts FROM messages WHERE {where}parts LIKE ?", having)
    names = set(names_in(text for (text,) in parts))
    bodies = db.fetch(f"SELECT body FROM undone WHERE {where}body LIKE ?", having)
    return names.union(*(kept_in_undone(body) for (body,) in bodies))


def objects_of(db: RowReader, session_id: int | None = None) -> set[str]:
    """Name the files of a session, or of all, that are in an object store."""
    return {name for name in kept_by(db, session_id) if not is_row(name)}


def kept_in_undone(body: str) -> set[str]:
    """Name the files that are kept apart of a group that waits for a redo."""
    columns = _undone.decode(body).messages
    return {name for row in columns for name in kept_in(row[_STORED.index("parts")])}


def sweep(tx: Transaction, session: Row) -> None:
    """Delete the bytes of a session's files that nothing in it names any more."""
    _sweep_rows(tx, session)
    if tx.attachments.is_open:
        tx.attachments.sweep(session["uuid"], kept_by(tx.db, session["id"]))


def _sweep_rows(tx: Transaction, session: Row) -> None:
    """Delete those in the ledger itself; a session that has none is not asked what it names."""
    of_session, number = "session_id = ?", session["id"]
    rows = tx.db.fetch(f"SELECT sha256 FROM attachments WHERE {of_session}", (number,))
    kept = kept_by(tx.db, number) if rows else set()
    for (digest,) in rows:
        if f"{number}/{digest}" not in kept:
            tx.db.delete("attachments", f"{of_session} AND sha256 = ?", (number, digest))


def _get(tx: Transaction, session_id: int, group_id: int) -> Row:
    sql = "SELECT * FROM groups WHERE id = ? AND session_id = ?"
    rows = tx.db.rows(sql, (group_id, session_id))
    if not rows:
        raise NotFound(f"no group {group_id} in session {session_id}")
    return rows[0]


def _last(tx: Transaction, session_id: int) -> Row | None:
    rows = tx.db.rows(
        "SELECT * FROM groups WHERE session_id = ? AND status = 'live' ORDER BY seq DESC LIMIT 1",
        (session_id,),
    )
    return rows[0] if rows else None


def _range_of(group: Row) -> tuple[int, int, int]:
    return group["session_id"], group["first_seq"], group["first_seq"] + group["messages"]


def _weigh(tx: Transaction, session: Row, group: Row, tokens: int) -> None:
    """Move the weight of a group into the windows' reckoning, or out of it."""
    session["live_groups"] += 1 if group["status"] == "live" else -1
    session["tokens"] += tokens
    tx.db.update(
        "groups",
        "tokens_before = tokens_before + ?",
        "session_id = ? AND seq > ?",
        (tokens, group["session_id"], group["seq"]),
    )


def _take_messages(tx: Transaction, session: Row, group: Row, status: GroupStatus) -> None:
    """Delete a group's messages and state; what stays of its row closes the chain."""
    was_live = group["status"] == "live"
    weight = group["tokens"]
    tx.db.delete("messages", _RANGE, _range_of(group))
    tx.delete(session, "session_state", "group_id = ?", (group["id"],))
    if status == "removed":
        tx.delete(session, "strategy_states", "group_id = ?", (group["id"],))
    group.update(status=status, tokens=0, salt=None)
    tx.update("groups", group)
    if was_live:
        _weigh(tx, session, group, -weight)


def _make_last(tx: Transaction, session: Row, group: Row) -> None:
    """Forget the rows of groups that were removed behind one."""
    for row in tx.db.rows(
        "SELECT * FROM groups WHERE session_id = ? AND seq > ?", (session["id"], group["seq"])
    ):
        if row["status"] != "removed":
            raise InvalidInput(f"group {row['id']} is dropped, and behind the last message")
        tx.db.delete("groups", "id = ?", (row["id"],))
    session["next_group"] = group["seq"] + 1


def _last_two(tx: Transaction, group: Row) -> tuple[Entry, bytes | None]:
    """Read a group's last message, and the digest of the one before it in the group."""
    rows = tx.db.fetch(
        f"SELECT {ENTRY_COLUMNS}, digest FROM messages WHERE {_RANGE} ORDER BY seq DESC LIMIT 2",
        _range_of(group),
    )
    [entry] = entries_of(tx.db, tx.attachments, [rows[0][:-1]])
    return entry, rows[1][-1] if len(rows) > 1 else None


def _chain_before(tx: Transaction, group: Row) -> bytes:
    chain = "SELECT chain FROM groups WHERE session_id = ? AND seq = ?"
    found: bytes | None = first(tx.db, chain, (group["session_id"], group["seq"] - 1))
    return found or ZERO


def _forget_group(tx: Transaction, session: Row, group: Row) -> None:
    """Delete the session's last group, whose only message is gone."""
    for table in LEFT:
        tx.delete(session, table, "group_id = ?", (group["id"],))
    tx.db.delete("groups", "id = ?", (group["id"],))
    session["next_group"] -= 1
    session["live_groups"] -= 1


def _restate(tx: Transaction, session: Row, group: Row) -> None:
    """Let a group leave the state that its messages leave now."""
    rows = group_rows(tx.db, session["id"], group["id"])
    entries = [entry_of(row, without_bytes) for row in rows]
    spoken = (entry.message.text for entry in reversed(entries) if entry.role == "assistant")
    states = (state for text in spoken if (state := extract_state(text)))
    tx.delete(session, "session_state", "group_id = ?", (group["id"],))
    if state := next(states, None):
        leave(tx, session, "session_state", group["id"], state)


def _pack(tx: Transaction, group: Row) -> str:
    rows = tx.db.fetch(
        f"SELECT {', '.join(_STORED)} FROM messages WHERE {_RANGE} ORDER BY seq", _range_of(group)
    )
    state = tx.db.fetch(
        "SELECT content, created_at FROM session_state WHERE group_id = ?", (group["id"],)
    )
    body = _Undone(
        group["salt"],
        group["tokens"],
        [list(row) for row in rows],
        [str(value) for row in state for value in row],
    )
    return msgspec.json.encode(body).decode()


def _unpack(tx: Transaction, session: Row, group: Row, waiting: Row) -> None:
    if seal("undone", waiting) != waiting["digest"]:
        raise LedgerDamaged([f"the undone group {group['id']} was altered"])
    body = _undone.decode(waiting["body"])
    for columns in body.messages:
        row = dict(zip(_STORED, columns, strict=True))
        row["digest"] = msgspec.convert(row["digest"], bytes)
        tx.db.insert("messages", row)
    group.update(status="live", tokens=body.tokens, salt=body.salt)
    tx.update("groups", group)
    _weigh(tx, session, group, body.tokens)
    if body.state:
        leave(tx, session, "session_state", group["id"], *body.state)
