"""A ledger's format in SQLite, and the numbered steps that made it so.

A ledger is one SQLite file (application id `SLGN`, `user_version` = the format's
number). `MIGRATIONS[n]` brings format n to n+1, in one transaction, and is never
edited once released: a ledger of any age opens by running what it lacks. `bring` does what a
step needs beyond its SQL, in the step's own transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from sightline.context.ledger.memos import index_memo
from sightline.context.ledger.paths import journal_path
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.seal import Value
from sightline.context.ledger.sqlite.rows import SqliteWriter, StepLimit, fetch
from sightline.context.ledger.store import Transaction
from sightline.context.ledger.writer import leave
from sightline.context.messages.gate import Gate
from sightline.context.tokens.estimate import Calibrations
from sightline.errors import InvalidInput, LedgerUnusable

APPLICATION_ID: Final = int.from_bytes(b"SLGN", "big")

MIGRATIONS: Final[tuple[str, ...]] = (
    # Conversations.
    """
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1), uuid TEXT NOT NULL, created_at TEXT NOT NULL,
    activity INTEGER NOT NULL, tally BLOB NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
    project TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    activity INTEGER NOT NULL, scratchpad TEXT NOT NULL, context_size INTEGER NOT NULL,
    context_slack INTEGER NOT NULL, next_seq INTEGER NOT NULL, next_group INTEGER NOT NULL,
    live_groups INTEGER NOT NULL, tokens INTEGER NOT NULL, largest INTEGER NOT NULL,
    cloned_from TEXT, head BLOB NOT NULL, tally BLOB NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX sessions_by_activity ON sessions (activity);
CREATE TABLE groups (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL, seq INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('live', 'dropped', 'undone', 'removed')),
    first_seq INTEGER NOT NULL, messages INTEGER NOT NULL, tokens INTEGER NOT NULL,
    created_at TEXT NOT NULL, salt BLOB, content_digest BLOB NOT NULL, chain BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX groups_in_order ON groups (session_id, seq);
CREATE INDEX groups_live ON groups (session_id, seq) WHERE status = 'live';
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL, group_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    content TEXT NOT NULL, parts TEXT, outcome TEXT NOT NULL, dropped INTEGER NOT NULL,
    parsing_strategy TEXT NOT NULL, tool_call_id TEXT, tokens INTEGER NOT NULL,
    tokens_basis TEXT NOT NULL, created_at TEXT NOT NULL, append_key TEXT, digest BLOB NOT NULL,
    status TEXT GENERATED ALWAYS AS (CASE dropped WHEN 0 THEN outcome ELSE 'dropped' END) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX messages_in_order ON messages (session_id, seq);
CREATE INDEX messages_by_key ON messages (session_id, append_key) WHERE append_key IS NOT NULL;
CREATE TABLE session_state (
    group_id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL, content TEXT NOT NULL,
    created_at TEXT NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX session_state_in_order ON session_state (session_id, group_id);
CREATE TABLE llm_memos (
    id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, tags TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT NOT NULL, activity INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
""",
    # What requests cost, and what was undone.
    """
CREATE TABLE usage (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL, group_id INTEGER,
    model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cost_nanousd INTEGER, basis TEXT NOT NULL,
    inherited INTEGER NOT NULL, created_at TEXT NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX usage_by_group ON usage (session_id, group_id);
CREATE TABLE receipts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL, group_id INTEGER,
    usage_id INTEGER, prefix_digest TEXT NOT NULL, body TEXT NOT NULL, created_at TEXT NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE INDEX receipts_by_session ON receipts (session_id);
CREATE TABLE undone (
    group_id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL, body TEXT NOT NULL,
    created_at TEXT NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX undone_by_session ON undone (session_id, group_id);
ALTER TABLE messages ADD COLUMN usage_id INTEGER;
""",
    # Weights, to cut a window by; words, to find memos by.
    """
ALTER TABLE groups ADD COLUMN tokens_before INTEGER NOT NULL DEFAULT 0;
UPDATE groups SET tokens_before = before.total FROM (
    SELECT id, sum(iif(status = 'live', tokens, 0)) OVER (
        PARTITION BY session_id ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS total FROM groups
) AS before WHERE groups.id = before.id AND before.total IS NOT NULL;
CREATE INDEX groups_by_weight ON groups (session_id, tokens_before) WHERE status = 'live';
CREATE TABLE memo_words (
    word TEXT NOT NULL, memo_id INTEGER NOT NULL, PRIMARY KEY (word, memo_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memo_words_by_memo ON memo_words (memo_id);
INSERT INTO memo_words
    WITH RECURSIVE
        tag (memo_id, value) AS (
            SELECT llm_memos.id, json_each.value FROM llm_memos, json_each(llm_memos.tags)
        ),
        piece (memo_id, word, rest) AS (
            SELECT memo_id, '', value || '-' FROM tag
            UNION ALL
            SELECT memo_id, substr(rest, 1, instr(rest, '-') - 1),
                   substr(rest, instr(rest, '-') + 1)
            FROM piece WHERE rest <> ''
        )
    SELECT value, memo_id FROM tag
    UNION SELECT word, memo_id FROM piece WHERE word <> '';
CREATE VIRTUAL TABLE memo_text USING fts5 (
    content, content = 'llm_memos', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
INSERT INTO memo_text (memo_text) VALUES ('rebuild');
""",
    # An index of words keeps those of deleted texts until it is told not to.
    """
INSERT INTO memo_text (memo_text, rank) VALUES ('secure-delete', 1);
INSERT INTO memo_text (memo_text) VALUES ('rebuild');
""",
    # Columns that are added are null in older rows, so that their seals hold.
    """
ALTER TABLE sessions ADD COLUMN first_group INTEGER;
ALTER TABLE sessions ADD COLUMN parent TEXT;
ALTER TABLE sessions ADD COLUMN title TEXT;
ALTER TABLE usage ADD COLUMN cache_write_tokens INTEGER;
ALTER TABLE usage ADD COLUMN cache_write_long_tokens INTEGER;
ALTER TABLE usage ADD COLUMN reasoning_tokens INTEGER;
ALTER TABLE usage ADD COLUMN cache_miss TEXT;
ALTER TABLE usage ADD COLUMN cache_missed_tokens INTEGER;
ALTER TABLE usage ADD COLUMN address TEXT;
ALTER TABLE usage ADD COLUMN outcome TEXT;
ALTER TABLE usage ADD COLUMN error TEXT;
CREATE TABLE strategy_states (
    group_id INTEGER PRIMARY KEY, session_id INTEGER NOT NULL, body TEXT NOT NULL,
    created_at TEXT NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX strategy_states_in_order ON strategy_states (session_id, group_id);
CREATE TABLE owners (session_id INTEGER PRIMARY KEY, owner TEXT NOT NULL) STRICT;
CREATE TABLE open_replies (
    session_id INTEGER PRIMARY KEY, group_id INTEGER NOT NULL, after_seq INTEGER NOT NULL,
    strategy TEXT NOT NULL, text TEXT NOT NULL, reasoning TEXT NOT NULL
) STRICT;
CREATE TABLE open_calls (
    session_id INTEGER NOT NULL, group_id INTEGER NOT NULL, call_id TEXT NOT NULL,
    state TEXT NOT NULL, PRIMARY KEY (session_id, group_id, call_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE calibrations (
    model TEXT PRIMARY KEY, body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
""",
    # The vendor's own account of a request.
    """
ALTER TABLE usage ADD COLUMN reported TEXT;
""",
    # The stems themselves are brought by whoever is told that this step is reached.
    """
DROP TABLE memo_text;
DELETE FROM memo_words;
CREATE TABLE memo_content_words (
    word TEXT NOT NULL, memo_id INTEGER NOT NULL, PRIMARY KEY (word, memo_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX memo_content_words_by_memo ON memo_content_words (memo_id);
""",
    # What was said, by its words. Messages come into it when somebody searches, and leave it with
    # their row; one that `/redo` brings back among older ones comes back here at once.
    """
ALTER TABLE sessions ADD COLUMN kind TEXT;
CREATE TABLE trusted (
    path TEXT PRIMARY KEY, agreed INTEGER NOT NULL, created_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE message_text USING fts5 (
    content, content = 'messages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
INSERT INTO message_text (message_text, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER message_text_forgets AFTER DELETE ON messages
WHEN old.id IN (SELECT id FROM message_text_docsize) BEGIN
    INSERT INTO message_text (message_text, rowid, content) VALUES ('delete', old.id, old.content);
END;
CREATE TRIGGER message_text_recalls AFTER INSERT ON messages
WHEN new.id < (SELECT max(id) FROM message_text_docsize) BEGIN
    INSERT INTO message_text (rowid, content) VALUES (new.id, new.content);
END;
""",
    # What other agents and their vendors said to each other.
    """
CREATE TABLE exchanges (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id INTEGER NOT NULL, created_at TEXT NOT NULL,
    api TEXT NOT NULL, model TEXT NOT NULL, bytes INTEGER NOT NULL, base INTEGER,
    depth INTEGER NOT NULL, request BLOB NOT NULL, usage_id INTEGER, reply BLOB NOT NULL,
    about TEXT NOT NULL
) STRICT;
CREATE INDEX exchanges_in_order ON exchanges (session_id, id);
""",
    # Where a framework's graph goes on from.
    """
CREATE INDEX sessions_by_name ON sessions (name);
CREATE TABLE checkpoints (
    session_id INTEGER NOT NULL, namespace TEXT NOT NULL, checkpoint TEXT NOT NULL, parent TEXT,
    shown TEXT, kind TEXT NOT NULL, body BLOB NOT NULL, created_at TEXT NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX checkpoints_in_order ON checkpoints (session_id, namespace, checkpoint);
CREATE TABLE checkpoint_writes (
    session_id INTEGER NOT NULL, namespace TEXT NOT NULL, checkpoint TEXT NOT NULL,
    task TEXT NOT NULL, number INTEGER NOT NULL, path TEXT NOT NULL, channel TEXT NOT NULL,
    kind TEXT NOT NULL, body BLOB NOT NULL, created_at TEXT NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX checkpoint_writes_in_order
    ON checkpoint_writes (session_id, namespace, checkpoint, task, number);
""",
    # The bytes last: who looks at what is there reads past none of them.
    """
CREATE TABLE attachments (
    session_id INTEGER NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX attachments_by_name ON attachments (session_id, sha256);
""",
    # Consent is in a file of the user's own: a ledger can be a stranger's.
    "DROP TABLE trusted;",
)
STEMS_FORMAT: Final = 7
_OWN_RECORD: Final = 5  # from here on, what is under way is in the ledger itself
_WIRE_FORMAT: Final = 1
_FOLD: Final = "fold "
FORMAT: Final = len(MIGRATIONS)
# One statement, so that a ledger being made right now is seen before or after, not between.
_HEADER: Final = (
    "SELECT user_version, application_id, {}, (SELECT count(*) FROM sqlite_schema) "
    "FROM pragma_user_version, pragma_application_id"
)
# The tables that never give a number twice; SQLite keeps their highest in `sqlite_sequence`.
NUMBERED: Final = ("sessions", "groups", "messages", "llm_memos", "usage", "receipts", "exchanges")


def migrate(
    connection: apsw.Connection,
    *,
    upto: int = FORMAT,
    reached: Callable[[int], None] = lambda _: None,
) -> None:
    """Bring a ledger to the format `upto`, one transaction for each step.

    `reached` is called inside each with the format it leads to, for what SQL cannot bring.
    Another process may be doing the same; whoever comes second finds it done.
    Raise `LedgerUnusable` for a file that is no ledger, or one of a newer format.
    """
    while (version := format_of(connection)) < upto:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if format_of(connection) == version:
                connection.execute(MIGRATIONS[version])
                connection.pragma("application_id", APPLICATION_ID)
                connection.pragma("user_version", version + 1)
                reached(version + 1)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def format_of(connection: apsw.Connection) -> int:
    """Read the number of a file's format, 0 if it is empty.

    Raise `LedgerUnusable` for a file that is no ledger, or one of a newer format.
    """
    return header_of(connection)[0]


def header_of(connection: apsw.Connection) -> tuple[int, str | None]:
    """Return a file's format and its id.

    Raises LedgerUnusable as `format_of` does.
    """
    try:
        row = connection.execute(_HEADER.format("(SELECT uuid FROM ledger)")).get
    except apsw.SQLError:  # There is no such table yet.
        row = connection.execute(_HEADER.format("NULL")).get
    version, known, ledger_id, objects = row
    if known != APPLICATION_ID and (version or known or objects):
        raise LedgerUnusable("this is a SQLite file, but not a ledger")
    if version > FORMAT:
        raise LedgerUnusable(
            f"this ledger has format {version}; this version of sightline reads up to {FORMAT}"
        )
    return int(version), ledger_id


def bring(connection: apsw.Connection, path: Path, now: str, reached: int) -> None:
    """Do what the migration to a format needs beyond its SQL."""
    _take_over(connection, path, now, reached)
    if reached == STEMS_FORMAT:
        writer = SqliteWriter(connection)
        for memo in fetch(connection, "SELECT id, content, tags FROM llm_memos"):
            with suppress(msgspec.DecodeError):  # tags that are damaged: verify says so
                index_memo(writer, *memo)


def _take_over(connection: apsw.Connection, ledger: Path, now: str, reached: int) -> None:
    """Take over what the wire file of a ledger knows; once, at the step to format 5.

    Up to format 4 of the ledger its wire file beside it (format 1) named the owners of sessions
    and kept replies and calls that were open, folds, strategies' states and calibrations. A wire
    file that cannot be read has nothing: it could always be deleted.
    """
    wire = journal_path(ledger)
    if reached != _OWN_RECORD or not wire.is_file():
        return
    if not fetch(connection, "SELECT 1 FROM ledger"):
        return  # a ledger that is only being made has no past
    try:
        rows = _wire_rows(wire)
    except (apsw.Error, UnicodeDecodeError):
        return
    if rows:
        changing = SqliteWriter(connection)
        _Taking(Transaction(changing, now)).take(rows)
        changing.finish()


def _wire_rows(wire: Path) -> dict[str, list[tuple[Any, ...]]]:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(f"{wire.absolute().as_uri()}?mode=ro", flags=flags)) as source:
        source.set_busy_timeout(10_000)
        source.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        StepLimit(source).extend(source, wire.stat().st_size)
        if fetch(source, "PRAGMA user_version") != [(_WIRE_FORMAT,)]:
            return {}
        tables = ("owners", "partials", "calls", "strategy_states", "notes")
        return {table: fetch(source, f"SELECT * FROM {table}") for table in tables}


class _Taking:
    """Rows of a wire file on their way into a ledger; of sessions that are there."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._gate = Gate()
        self._sessions = {number for (number,) in tx.db.fetch("SELECT id FROM sessions")}
        self._groups = set(
            tx.db.fetch("SELECT session_id, id FROM groups WHERE status IN ('live', 'dropped')")
        )

    def take(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        """Take everything, and seal what is sealed."""
        takers: dict[str, Callable[..., None]] = {
            "owners": self._owner,
            "partials": self._reply,
            "calls": self._call,
            "strategy_states": self._strategy_state,
            "notes": self._note,
        }
        for table, taken in takers.items():
            for row in rows[table]:
                try:
                    taken(*row)
                except (InvalidInput, ValueError, TypeError, msgspec.MsgspecError):
                    continue  # not what a host wrote
        self._tx.finish()

    def _put(self, table: str, *values: Value) -> None:
        self._tx.db.insert(table, dict(zip(TABLES[table].names, values, strict=True)))

    def _owner(self, session_id: int, owner: str) -> None:
        if session_id in self._sessions:
            self._put("owners", session_id, owner)

    def _reply(
        self, session_id: int, group: int, after: int, strategy: str, text: str, thoughts: str
    ) -> None:
        if (session_id, group) in self._groups:
            words = [self._gate.beginning(part, whole=True) for part in (text, thoughts)]
            self._put("open_replies", session_id, group, after, strategy, *words)

    def _call(self, session_id: int, group: int, call_id: str, state: str) -> None:
        if (session_id, group) in self._groups:
            call_id = self._gate.beginning(call_id, whole=True)
            self._put("open_calls", session_id, group, call_id, state)

    def _strategy_state(self, session_id: int, group: int, state: bytes) -> None:
        if (session_id, group) in self._groups:
            value = msgspec.json.decode(state, type=dict[str, Any])
            body = self._gate.json(value, "a strategy's state", self._gate.limits.strategy_state)
            leave(self._tx, self._tx.session(session_id), "strategy_states", group, body)

    def _note(self, name: str, value: bytes) -> None:
        if name == "calibrations":
            for model, calibration in Calibrations.decode(value).models.items():
                name = self._gate.line(model, "a model's name")
                self._put("calibrations", name, msgspec.json.encode(calibration).decode())
        elif name.startswith(_FOLD):
            session_id = int(name.removeprefix(_FOLD))
            if session_id in self._sessions:
                self._tx.session(session_id)["first_group"] = int(value)
