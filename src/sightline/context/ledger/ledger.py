"""The ledger: everything said, called, decided and planned, kept in order.

One file, readable with any SQLite tool. What `append` has returned from is on
the disk and stays; a turn costs the same on message 100 and on message 1,000,000;
nothing is stored twice, and nothing that looks like a key is stored at all.

    with Ledger("work.db") as ledger:
        session = ledger.sessions.create("refactoring")
        ledger.append(session.id, [Message.of("user", "hello")], strategy="openai")
        history = ledger.window(session.id, Window(50))

A ledger is synchronous and safe to use from threads. In an event loop, run a
whole turn's reading or writing in one `asyncio.to_thread`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from difflib import get_close_matches
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import msgspec

from sightline._keywords import names_keywords
from sightline.context.ledger.attachments import Attachments, entries_of
from sightline.context.ledger.codec import ENTRY_COLUMNS, bytes_in
from sightline.context.ledger.copying import CopyReport, copy_ledger
from sightline.context.ledger.exchanges import Exchanges
from sightline.context.ledger.groups import Groups, forget_undone, objects_of, sweep
from sightline.context.ledger.history import HistoryReader
from sightline.context.ledger.memos import Memos
from sightline.context.ledger.notes import Scratchpad, States, StrategyStates
from sightline.context.ledger.paths import database_url, expanded
from sightline.context.ledger.portable import export_session, import_session
from sightline.context.ledger.retrieval import QueryLimits, QueryResult, SearchHit, describe
from sightline.context.ledger.sessions import Session, Sessions, check_head
from sightline.context.ledger.sqlite.admission import remember_own
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.ledger.store import Clock, Mode, Store, Transaction, Watch, now_utc
from sightline.context.ledger.threads import Threads
from sightline.context.ledger.usage import Accounts, StoredUsage, add_usage
from sightline.context.ledger.verify import VerifyReport, verify
from sightline.context.ledger.work import Work
from sightline.context.ledger.writer import Writer
from sightline.context.messages.gate import Gate, LedgerLimits
from sightline.context.messages.given import message_given
from sightline.context.messages.parts import Draft, Entry, Message
from sightline.context.messages.window import TokenWindow, Window
from sightline.context.tokens.tokens import ESTIMATE, counter_for
from sightline.errors import InvalidInput, LedgerUnavailable, MissingExtra

DEFAULT_STRATEGY: Final = "openai"
IN_MEMORY: Final = ":memory:"


class Ledger:
    """A ledger, open. Its nouns are its attributes; its verbs are below.

    The path of a file, or `postgresql://user@host/database?tenant=name`. `:memory:` is one
    that is gone when it is closed. With `attachments`, the URL of an object store
    (`s3://bucket/prefix`, `file:///path`), the bytes of large files go there, else into a table.
    """

    @names_keywords
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "write",
        redact: bool = True,
        limits: LedgerLimits | None = None,
        clock: Clock = now_utc,
        engine: Callable[..., Store] | None = None,
        attachments: str = "",
    ) -> None:
        self._temporary = None
        self.source = os.fspath(path)  # what opens it again; a URL may have a password in it
        if os.fspath(path) == IN_MEMORY:
            # A file all the same: `query` reads it from a process of its own.
            self._temporary = TemporaryDirectory(prefix="sightline-")
            path = Path(self._temporary.name) / "ledger.db"
        kept = Attachments(attachments)
        self._store = (engine or _engine_for(path))(path, mode=mode, clock=clock)
        self._store.attachments = kept
        if self._store.new_id and self._temporary is None:
            remember_own(self._store.new_id)
        self._gate = Gate(limits or LedgerLimits(), redact)
        self._history = HistoryReader(self._store)
        self.sessions = Sessions(self._store, self._gate)
        self.groups = Groups(self._store, self._gate)
        self.states = States(self._store, self._gate, self._history)
        self.scratchpad = Scratchpad(self._store, self._gate)
        self.memos = Memos(self._store, self._gate)
        self.accounts = Accounts(self._store, self._gate)
        self.strategy_states = StrategyStates(self._store, self._gate)
        self.work = Work(self._store, self._gate)
        self.exchanges = Exchanges(self._store, self._gate)
        self.threads = Threads(self._store, self._gate, self._history)

    @property
    def path(self) -> Path:
        """The ledger's file; of one in a database the name for what this machine has beside it."""
        return self._store.path

    @property
    def name(self) -> str:
        """What people are told that it is: its path, or its URL without a password."""
        return self._store.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; one for `:memory:` is removed."""
        self._store.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def append(
        self,
        session_id: int,
        messages: Sequence[Draft | Message | Mapping[str, Any]],
        *,
        strategy: str = DEFAULT_STRATEGY,
        key: str | None = None,
        usage: StoredUsage | None = None,
        head: str | None = None,
    ) -> tuple[Entry, ...]:
        """Store messages at the end of a session, all or none; durable when it returns.

        Messages may be dicts, as `Slots.add` takes them; `strategy` says whose tool calls they
        hold. A user's message begins a new group; any other joins the last one. With a
        `key`, the same call may be made again after an unknown outcome: what is
        stored already is returned, not stored twice; the same key with other
        messages raises `InvalidInput`. `usage` is the request that the assistant's
        messages among these came of. With a `head` (`Session.head`), raise `SessionChanged`
        if another message is the last one by now.
        """
        if not messages:
            raise InvalidInput("there is nothing to append")
        drafts = [self._checked(item) for item in messages]
        strategy = _known(self._gate, strategy)
        if key is not None:
            key = self._gate.line(key, "an append key")
        attachments = self._store.attachments
        forgot = False

        def change(tx: Transaction) -> tuple[Entry, ...]:
            nonlocal forgot
            session = tx.session(session_id)
            if key is not None and (stored := _stored_under(tx, session_id, key, attachments)):
                if [entry.message for entry in stored] != [draft.message for draft in drafts]:
                    raise InvalidInput(f"the key {key!r} was used for other messages")
                return stored
            check_head(session, head)
            forgot = forget_undone(tx, session)
            writer = Writer(tx, session, max_message=self._gate.limits.message)
            entries = []
            usage_id = None
            for draft in drafts:
                writer.open_group(draft.message.role)
                if usage is not None and usage_id is None and draft.message.role == "assistant":
                    usage_id = add_usage(tx, self._gate, session, usage, writer.group_id)
                came_of = usage_id if draft.message.role == "assistant" else None
                entries.append(writer.add(draft, strategy=strategy, key=key, usage_id=came_of))
            if usage is not None and usage_id is None:
                raise InvalidInput("usage belongs to an assistant's message, and there is none")
            writer.finish()
            # What is stored is no longer under way: in one transaction, so never twice.
            tx.db.delete("open_replies", "session_id = ?", (session_id,))
            tx.touch(session)
            self._history.follow(session, writer.written, entries)
            return tuple(entries)

        if not self._keep_ahead(session_id, drafts):
            entries = self._store.append(change, key)
        else:
            with self._store.write() as tx:
                entries = change(tx)
        if forgot and attachments.is_open:
            # What cannot be deleted now goes with the next that is removed, or the session.
            with suppress(LedgerUnavailable), self._store.write() as tx:
                sweep(tx, tx.session(session_id))
        return entries

    def _keep_ahead(self, session_id: int, drafts: Sequence[Draft]) -> bool:
        """Bring large files to the object store while nobody waits for it; say if there are any.

        The change then finds them there, and keeps again what was swept meanwhile.
        """
        attachments = self._store.attachments
        if not attachments.is_open or self._store.mode == "read":
            return False
        large = [data for draft in drafts for data in bytes_in(draft.message)]
        owner = self.sessions.get(session_id).uuid if large else ""
        for data in large:
            if len(data) <= self._gate.limits.message:
                attachments.keep(owner, data)
        return bool(large)

    def window(
        self, session_id: int, window: Window | TokenWindow | None = None
    ) -> tuple[Entry, ...]:
        """Read the messages that a window shows, in order; by default the session's own window."""
        return self._history.window(session_id, window)

    def messages(self, session_id: int, *, whole: bool = True) -> Iterator[Entry]:
        """Read every message of a session in order, dropped ones included.

        If not `whole`, without the bytes of large files.
        """
        return self._history.messages(session_id, whole=whole)

    def reading(self) -> AbstractContextManager[object]:
        """Read what is read inside the block at one point in time; write nothing there."""
        return self._store.read()

    def message(self, message_id: int) -> Entry:
        """Read one message by its id, whole."""
        return self._history.message(message_id)

    def query(
        self, sql: str, *, session_id: int | None, limits: QueryLimits | None = None
    ) -> QueryResult:
        """Run untrusted SQL over a session's rows, or over all of them if it is None."""
        return self._store.query(sql, session_id, limits or QueryLimits())

    def find(self, session_id: int, text: str, *, limit: int, chars: int) -> list[tuple[int, str]]:
        """Find messages of a session that contain a text: their ids and what stands around it.

        The newest first, upper and lower case alike, none that were dropped. It runs where
        `query` does, so a session of any size costs it its time limit at most.
        """
        found = self._store.find(session_id, text, limit, chars)
        return [(number, str(excerpt)) for number, excerpt in found.rows]

    def search(
        self, text: str, *, session_id: int | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """Find what was said in any session by its words, the newest first.

        All words must be there, in any case and with or without accents; of the last one its
        beginning is enough. What was said since the last search is taken in first.
        """
        return self._store.search(text, session_id, limit)

    def describe(self) -> str:
        """Describe to a model what `query` can read."""
        return describe()

    def revision(self) -> int:
        """Return a number that is another one after a change, whoever made it."""
        return self._store.revision()

    def may_have_changed(self) -> bool:
        """Tell whether it is worth asking for the revision again; a file's always is.

        One in a database is told of changes, a moment later, and may miss one for some seconds.
        """
        return self._store.may_have_changed()

    def seals(self, session_id: int) -> tuple[str, str]:
        """Name the state of all sessions, and that of one of them and of the memos.

        A name is another one after a change of what is kept; what is under way is in neither.
        """
        with self._store.read() as db:
            sessions = db.fetch("SELECT id, digest FROM sessions ORDER BY id")
            memos = db.fetch("SELECT count(*), max(activity) FROM llm_memos")
        seal = [bytes(digest) for number, digest in sessions if number == session_id]
        every = b"".join(bytes(digest) for _, digest in sessions)
        return sha256(every).hexdigest(), sha256(repr((seal, memos)).encode()).hexdigest()

    def verify(
        self, watch: Watch | None = None, *, since: Mapping[int, str] | None = None
    ) -> VerifyReport:
        """Check every row against its seal, and let the engine check what is its own.

        `watch` is called now and then with how many messages were read, of how many. With the
        `seals` of an earlier report, sessions that have not changed `since` are passed over, and
        so is the engine's own check: damage to what lies still is found by a whole one.
        """
        return verify(self._store, watch, since)

    def size(self) -> int:
        """Say how many bytes it takes: its file, or its tenant's rows in a database."""
        return self._store.size()

    def shrink(self) -> None:
        """Give the room of what was deleted back to the disk; takes as long as a copy."""
        self._store.scrub(shrink=True)

    def export(self, session_id: int) -> Iterator[bytes]:
        """Write a session as JSON Lines: the session first, then its messages in order."""
        return export_session(self._store, session_id)

    def import_(self, lines: Iterable[bytes], *, name: str = "") -> Session:
        """Store exported lines as a new session, all or none."""
        return import_session(self._store, self._gate, lines, name=name)

    def backup(
        self,
        target: str | os.PathLike[str],
        watch: Watch | None = None,
        *,
        copying: Watch | None = None,
    ) -> Path:
        """Copy the whole ledger to a new file, as of one point in time, and verify the copy.

        `watch` is called as by `verify`, `copying` before that with how much is copied.
        """
        path = expanded(target)
        attachments = self._store.attachments
        self._store.backup(
            path,
            lambda copy: verify(copy, watch, attachments=attachments).raise_if_damaged(),
            copying,
        )
        return path

    def copy_into(
        self, target: Ledger, watch: Watch | None = None, *, copying: Watch | None = None
    ) -> CopyReport:
        """Copy the whole ledger into another, whatever engines keep the two, and verify the copy.

        A copy that ended too soon, or that the ledger has outgrown since, goes on where it was.
        Raise `InvalidInput` if the target has sessions or memos of its own, or no object store for
        attachments that are in one. What is in the same one is shared. `watch` and `copying` are
        called as by `backup`.
        """
        kept, into = self._store.attachments, target._store.attachments
        if not into.is_open:
            with self._store.read() as db:
                if objects_of(db):
                    raise InvalidInput(
                        f"{self.name} has attachments in an object store; the copy needs one, too"
                    )
        report = copy_ledger(self._store, target._store, copying)
        if into.url != kept.url:
            with target._store.read() as db:
                names = objects_of(db)
            for name in names:
                if not into.has(name):
                    into.keep(name.partition("/")[0], kept.get(name))
        verify(target._store, watch).raise_if_damaged()
        return report

    def _checked(self, item: Draft | Message | Mapping[str, Any]) -> Draft:
        draft = item if isinstance(item, Draft) else Draft(message_given(item))
        if draft.basis not in ("counted", "estimated", "reported"):
            raise InvalidInput(f"a basis is counted, estimated or reported; not {draft.basis!r}")
        message = self._gate.message(draft.message)
        if draft.tokens is None:
            [tokens] = counter_for(ESTIMATE).weigh([message], remember=False)
            return Draft(message, tokens, "estimated", draft.incomplete)
        self._gate.count(draft.tokens, "a message's tokens")
        return msgspec.structs.replace(draft, message=message)


def _engine_for(path: str | os.PathLike[str]) -> Callable[..., Store]:
    """Give the engine of a ledger. Raise `MissingExtra` where its package is not installed."""
    if database_url(path) is None:
        return SqliteStore
    try:
        # Imported here: only who has such a ledger needs the package.
        from sightline.context.ledger.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        from sightline._distribution import install

        raise MissingExtra(
            f"a ledger in PostgreSQL needs {error.name}: {install('postgres')}"
        ) from error
    return PostgresStore


@lru_cache(maxsize=64)
def _known(gate: Gate, strategy: str) -> str:
    """Pass a strategy's name; raise InvalidInput for what is almost a name of ours."""
    from sightline.context.dialects import STRATEGIES

    strategy = gate.line(strategy, "a strategy")
    close = get_close_matches(strategy, STRATEGIES, n=1, cutoff=0.8)
    if close and strategy not in STRATEGIES:
        raise InvalidInput(f"there is no strategy {strategy!r}; did you mean {close[0]!r}?")
    return strategy


def _stored_under(
    tx: Transaction, session_id: int, key: str, attachments: Attachments
) -> tuple[Entry, ...]:
    # In order here and not there: an index by seq would be taken for the one by key.
    rows = tx.db.under_key(session_id, ENTRY_COLUMNS, key)
    stored = entries_of(tx.db, attachments, rows)
    return tuple(sorted(stored, key=lambda entry: entry.seq))
