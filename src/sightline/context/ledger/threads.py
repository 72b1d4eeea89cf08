"""Threads of a framework's graph: the messages are the session's, the rest is kept unread.

A thread is the session of its name. Its messages are stored once each, in the order in which
they came, and found again by what they say; a checkpoint names those that it shows, in its
own order, and keeps everything else as one value. Both are stored in one transaction.

    get() of a checkpoint has the messages that it was put with, as they passed the gate

What was dropped or removed from the session is in no checkpoint any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from sightline.context.ledger.attachments import Attachments, fetching, names_in
from sightline.context.ledger.codec import from_columns
from sightline.context.ledger.groups import forget_undone
from sightline.context.ledger.history import HistoryReader
from sightline.context.ledger.rows import Row, RowReader, first, marks, portions
from sightline.context.ledger.sessions import delete_session, new_session
from sightline.context.ledger.store import Noun, Store, Transaction
from sightline.context.ledger.writer import Writer
from sightline.context.messages.gate import Gate, guarded
from sightline.context.messages.parts import Draft, Message
from sightline.context.tokens.tokens import ESTIMATE, counter_for
from sightline.errors import InvalidInput, TooLarge

_ONE: Final = "session_id = ? AND namespace = ? AND checkpoint = ?"
_STRATEGY: Final = "openai"  # whose form of tool calls replays to every vendor's dialect


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_runs: Final = msgspec.json.Decoder(list[tuple[int, int]])


class CheckpointKey(NamedTuple):
    """Names a checkpoint: the thread, the graph inside it (empty for itself), and its id."""

    thread: str
    namespace: str
    id: str


class Checkpoint(NamedTuple):
    """A checkpoint as a framework gives it, without its messages."""

    key: CheckpointKey
    parent: str | None
    kind: str
    body: bytes


class CleanMessage(NamedTuple):
    """A message that passed the gate, as `Threads.passed` returns it, and its digest."""

    message: Message
    digest: str


class CheckpointWrite(NamedTuple):
    """What a task wrote to a channel since a checkpoint; a negative number may be replaced."""

    task: str
    number: int
    path: str
    channel: str
    kind: str
    body: bytes


class Threads(Noun):
    """The checkpoints of a ledger's threads."""

    def __init__(self, store: Store, gate: Gate, history: HistoryReader) -> None:
        super().__init__(store, gate)
        self._history = history

    def passed(self, message: Message) -> CleanMessage:
        """Return a message as it is stored: mended, without context blocks and keys."""
        clean = self._gate.message(guarded(message))
        return CleanMessage(clean, sha256(msgspec.json.encode(clean)).hexdigest()[:32])

    def put(self, checkpoint: Checkpoint, messages: Sequence[CleanMessage] | None = None) -> None:
        """Store a checkpoint, and what of its messages is not stored yet, all or nothing.

        Without messages it is one of a graph that has no list of them.
        """
        thread, namespace, number = checkpoint.key
        with self._store.write() as tx:
            session = self._session(tx, thread)
            shown = None if messages is None else _ranges(self._stored(tx, session, messages))
            row: Row = {
                "namespace": namespace,
                "checkpoint": number,
                "parent": checkpoint.parent,
                "shown": None if shown is None else msgspec.json.encode(shown).decode(),
                "kind": checkpoint.kind,
                "body": self._bounded(checkpoint.body),
                "created_at": tx.now,
            }
            tx.delete(session, "checkpoints", _ONE, (session["id"], namespace, number))
            tx.insert(session, "checkpoints", row)
            tx.touch(session)

    def put_writes(self, key: CheckpointKey, writes: Sequence[CheckpointWrite]) -> None:
        """Store what a task did; a write that is there already stays, unless it may be replaced."""
        with self._store.write() as tx:
            session = self._session(tx, key.thread)
            for write in writes:
                where = f"{_ONE} AND task = ? AND number = ?"
                which = (session["id"], key.namespace, key.id, write.task, write.number)
                if write.number >= 0 and first(
                    tx.db, f"SELECT 1 FROM checkpoint_writes WHERE {where}", which
                ):
                    continue
                tx.delete(session, "checkpoint_writes", where, which)
                row: Row = {"namespace": key.namespace, "checkpoint": key.id, "created_at": tx.now}
                row |= write._asdict() | {"body": self._bounded(write.body)}
                tx.insert(session, "checkpoint_writes", row)

    def get(
        self, thread: str, namespace: str, number: str | None = None
    ) -> tuple[Checkpoint, tuple[Message, ...] | None, tuple[CheckpointWrite, ...]] | None:
        """Read a checkpoint, its messages and the writes since; without a number the latest."""
        with self._store.read() as db:
            session_id = _called(db, thread)
            chosen, values = ("", ()) if number is None else ("AND checkpoint = ? ", (number,))
            rows = db.rows(
                "SELECT checkpoint, parent, shown, kind, body FROM checkpoints WHERE "
                f"session_id = ? AND namespace = ? {chosen}ORDER BY checkpoint DESC LIMIT 1",
                (session_id, namespace, *values),
            )
            if session_id is None or not rows:
                return None
            row = rows[0]
            key = CheckpointKey(thread, namespace, row["checkpoint"])
            messages = None
            if row["shown"] is not None:
                objects = self._store.attachments
                messages = _messages(db, session_id, _numbers(row["shown"]), objects)
            writes = db.fetch(
                f"SELECT {', '.join(CheckpointWrite._fields)} FROM checkpoint_writes "
                f"WHERE {_ONE} ORDER BY path, task, number",
                (session_id, namespace, key.id),
            )
        found = Checkpoint(key, row["parent"], row["kind"], row["body"])
        return found, messages, tuple(map(CheckpointWrite._make, writes))

    def keys(
        self, thread: str | None = None, namespace: str | None = None, *, before: str | None = None
    ) -> list[CheckpointKey]:
        """Name the checkpoints of a thread, or of all, the newest first."""
        rules = {"name = ?": thread, "namespace = ?": namespace, "checkpoint < ?": before}
        chosen = {rule: value for rule, value in rules.items() if value is not None}
        rows = self._fetch(
            "SELECT name, namespace, checkpoint FROM checkpoints JOIN sessions ON "
            f"{' AND '.join(['sessions.id = session_id', *chosen])} ORDER BY checkpoint DESC",
            *chosen.values(),
        )
        return [CheckpointKey(*row) for row in rows]

    def delete(self, keys: Iterable[CheckpointKey]) -> None:
        """Delete checkpoints and the writes since them; what was said stays in the session."""
        with self._store.write() as tx:
            for thread, namespace, number in keys:
                session_id = _called(tx.db, thread)
                if session_id is not None:
                    session = tx.session(session_id)
                    for table in ("checkpoints", "checkpoint_writes"):
                        tx.delete(session, table, _ONE, (session_id, namespace, number))
        self._store.scrub()

    def delete_thread(self, thread: str) -> None:
        """Delete a thread's session for good, with all that was said in it; if there is one."""
        with self._store.write() as tx:
            session_id = _called(tx.db, thread)
            if session_id is not None:
                delete_session(tx, tx.session(session_id))
        self._store.scrub()

    def copy_thread(self, source: str, target: str) -> None:
        """Copy all checkpoints of a thread, and what was said, to another thread."""
        for key in reversed(self.keys(source)):
            if found := self.get(*key):
                kept, messages, writes = found
                copied = key._replace(thread=target)
                clean = None if messages is None else [self.passed(each) for each in messages]
                self.put(kept._replace(key=copied), clean)
                self.put_writes(copied, writes)

    def _session(self, tx: Transaction, thread: str) -> Row:
        """Load the session of a thread; the first who asks for it makes it."""
        session_id = _called(tx.db, thread)
        if session_id is not None:
            return tx.session(session_id)
        if self._gate.line(thread, "a thread's id") != thread:
            raise InvalidInput(f"a thread's id is the name of its session; not {thread[:60]!r}")
        tx.db.lock_names()
        session_id = _called(tx.db, thread)  # who came first made it meanwhile
        if session_id is not None:
            return tx.session(session_id)
        return new_session(tx, name=thread, project="")

    def _stored(self, tx: Transaction, session: Row, messages: Sequence[CleanMessage]) -> list[int]:
        """Return the id of each message in the session, where those that are new go last."""
        keys = list(_keys(messages))
        numbers: dict[str, int] = {}
        for some in portions(keys):
            sql = (
                "SELECT append_key, id FROM messages "
                f"WHERE session_id = ? AND append_key IN ({marks(some)})"
            )
            numbers.update(tx.db.fetch(sql, (session["id"], *some)))
        news = [
            (key, clean.message)
            for key, clean in zip(keys, messages, strict=True)
            if key not in numbers
        ]
        if news:
            forget_undone(tx, session)
            writer = Writer(tx, session, max_message=self._gate.limits.message)
            entries = []
            weights = counter_for(ESTIMATE).weigh([new for _, new in news], remember=False)
            for (key, message), tokens in zip(news, weights, strict=True):
                writer.open_group(message.role)
                entry = writer.add(Draft(message, tokens), strategy=_STRATEGY, key=key)
                numbers[key] = entry.id
                entries.append(entry)
            writer.finish()
            self._history.follow(session, writer.written, entries)
        return [numbers[key] for key in keys]

    def _bounded(self, body: bytes) -> bytes:
        limit = self._gate.limits.message
        if len(body) > limit:
            raise TooLarge(f"a checkpoint's value of {len(body):,} bytes; the limit is {limit:,}")
        return body


def _called(db: RowReader, thread: str) -> int | None:
    found: int | None = first(db, "SELECT id FROM sessions WHERE name = ?", (thread,))
    return found


def _keys(messages: Iterable[CleanMessage]) -> Iterable[str]:
    """Name messages by what they say; of equal ones in a list each has a key of its own."""
    seen: Counter[str] = Counter()
    for _, digest in messages:
        seen[digest] += 1
        yield f"checkpoint:{digest}:{seen[digest]}"


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Write numbers as runs of neighbours, [first, how many], in the order given."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][0] + runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def _numbers(shown: str) -> list[int]:
    return [
        number for start, count in _runs.decode(shown) for number in range(start, start + count)
    ]


def _messages(
    db: RowReader, session_id: int, numbers: list[int], objects: Attachments
) -> tuple[Message, ...]:
    known: dict[int, Message] = {}
    for some in portions(numbers):
        rows = db.fetch(
            "SELECT id, role, content, parts FROM messages "
            f"WHERE id IN ({marks(some)}) AND session_id = ? AND dropped = 0",
            (*some, session_id),
        )
        fetch = fetching(db, objects, names_in(parts for *_, parts in rows))
        known.update(
            (number, from_columns(role, content, parts, fetch))
            for number, role, content, parts in rows
        )
    return tuple(known[number] for number in numbers if number in known)
