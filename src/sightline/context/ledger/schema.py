"""The ledger's format: its tables, and the numbered steps that made them so.

A ledger is one SQLite file (application id `SLGN`, `user_version` = the format's
number). `TABLES` describes the current format column by column; `describe_db`
shows it to the model, docs/ledger.md to people, and tests hold all three
together. `MIGRATIONS[n]` brings format n to n+1, in one transaction, and is never
edited once released: a ledger of any age opens by running what it lacks.

    sessions ──< groups ──< messages          what was said
        │           └─────< session_state     the ### STATE that a group left
        ├──< usage, receipts                  what a request cost, and was made of
        ├──< undone                           groups that /redo can bring back
        ├──< strategy_states                  what a group left with the strategy
        └──< owners, open_replies, open_calls what is under way, and who runs it: under no seal
    calibrations                              how vendors count: under no seal
    llm_memos ──< memo_words, memo_text       knowledge of no session, and its indexes
    ledger                                    one row: identity, and the seal over all others
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import apsw

from sightline.errors import LedgerUnusable

__all__ = [
    "APPLICATION_ID",
    "FORMAT",
    "MIGRATIONS",
    "TABLES",
    "Column",
    "Table",
    "format_of",
    "migrate",
]

APPLICATION_ID: Final = int.from_bytes(b"SLGN", "big")


class Column(NamedTuple):
    """A column's name, type and meaning; `sealed` says whether the row's digest covers it."""

    name: str
    type: str
    doc: str
    sealed: bool = True


@dataclass(frozen=True)
class Table:
    """A table's meaning and columns.

    `shown` tables can be read by `query_db`. Those that are not sealed hold working state:
    what is under way now, and no record of anything.
    """

    doc: str
    columns: tuple[Column, ...]
    shown: bool = True
    is_sealed: bool = True

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def sealed(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.sealed)


_DIGEST: Final = Column("digest", "BLOB", "seal over the row's other columns", sealed=False)
_MADE: Final = Column("created_at", "TEXT", "UTC, RFC 3339; for people, nothing is ordered by it")
_SESSION: Final = Column("session_id", "INTEGER", "the session it belongs to")

TABLES: Final[dict[str, Table]] = {
    "ledger": Table(
        "one row: the identity of this file and the seal over all sessions and memos",
        (
            Column("id", "INTEGER", "always 1"),
            Column("uuid", "TEXT", "identity of this ledger"),
            _MADE,
            Column("activity", "INTEGER", "counts changes; gives sessions and memos their recency"),
            Column("tally", "BLOB", "sum of the digests of all sessions and memos"),
            _DIGEST,
        ),
        shown=False,
    ),
    "sessions": Table(
        "one conversation each",
        (
            Column("id", "INTEGER", "number of the session in this ledger"),
            Column("uuid", "TEXT", "identity that survives export and import"),
            Column("name", "TEXT", "what people call it"),
            Column("project", "TEXT", "where it belongs, by default the working directory"),
            _MADE,
            Column("updated_at", "TEXT", "last change"),
            Column("activity", "INTEGER", "recency: larger is later"),
            Column("scratchpad", "TEXT", "the model's plan, in its own words"),
            Column("context_size", "INTEGER", "window in groups, 0 for all"),
            Column("context_slack", "INTEGER", "groups the window may grow before it folds"),
            Column("next_seq", "INTEGER", "seq of the next message; counts all there ever were"),
            Column("next_group", "INTEGER", "seq of the next group; counts all there ever were"),
            Column("live_groups", "INTEGER", "groups that windows can show"),
            Column("tokens", "INTEGER", "weight of the live groups"),
            Column("largest", "INTEGER", "bytes of the largest message there ever was"),
            Column("cloned_from", "TEXT", "uuid of the session it was cloned from"),
            Column("head", "BLOB", "chain of the last group"),
            Column(
                "tally",
                "BLOB",
                "sum of its digests in session_state, usage, receipts, undone, strategy_states",
            ),
            _DIGEST,
            Column("first_group", "INTEGER", "groups before it are folded away; null for none"),
            Column("parent", "TEXT", "uuid of the session that started it"),
            Column("title", "TEXT", "what it is about, in a few words"),
        ),
    ),
    "groups": Table(
        "one user prompt each, with everything that follows it until the next",
        (
            Column("id", "INTEGER", "the group_id, unique in this ledger"),
            _SESSION,
            Column("seq", "INTEGER", "place in the session, from 0, without gaps"),
            Column("status", "TEXT", "live, dropped, undone or removed"),
            Column("first_seq", "INTEGER", "seq of its first message"),
            Column("messages", "INTEGER", "how many messages it has, or had"),
            Column("tokens", "INTEGER", "weight of its messages; 0 once undone or removed"),
            _MADE,
            Column("salt", "BLOB", "start of its messages' digests; null once removed"),
            Column("content_digest", "BLOB", "digest of its last message"),
            Column("chain", "BLOB", "seal over this and every earlier group of the session"),
            _DIGEST,
            Column("tokens_before", "INTEGER", "weight of the live groups before it", sealed=False),
        ),
    ),
    "messages": Table(
        "everything said, called and answered, in order",
        (
            Column("id", "INTEGER", "unique in this ledger, never used twice"),
            _SESSION,
            Column("group_id", "INTEGER", "the group it belongs to"),
            Column("seq", "INTEGER", "place in the session, from 0"),
            Column("role", "TEXT", "system, user, assistant or tool"),
            Column("content", "TEXT", "what a reader sees: texts, results, calls as name(json)"),
            Column("parts", "TEXT", "JSON of its parts; null if it is one text, the content"),
            Column("outcome", "TEXT", "complete, tool_call or incomplete"),
            Column("dropped", "INTEGER", "1 while its group is dropped", sealed=False),
            Column("parsing_strategy", "TEXT", "which vendor format was active"),
            Column("tool_call_id", "TEXT", "for a tool's answer: the call it answers"),
            Column("tokens", "INTEGER", "its weight"),
            Column("tokens_basis", "TEXT", "counted, estimated or reported"),
            _MADE,
            Column("append_key", "TEXT", "idempotency key of the append that stored it"),
            Column("digest", "BLOB", "seal over it and the message before it", sealed=False),
            Column("status", "TEXT", "dropped, or else its outcome (computed)", sealed=False),
            Column("usage_id", "INTEGER", "the request that produced it"),
        ),
    ),
    "session_state": Table(
        "the ### STATE blocks, one for each group that left one",
        (
            Column("group_id", "INTEGER", "the group that left it"),
            _SESSION,
            Column("content", "TEXT", "the block, heading included"),
            _MADE,
            _DIGEST,
        ),
    ),
    "llm_memos": Table(
        "knowledge that outlives sessions",
        (
            Column("id", "INTEGER", "number of the memo"),
            Column("content", "TEXT", "what to know"),
            Column("tags", "TEXT", "JSON array of normalised tags"),
            _MADE,
            Column("updated_at", "TEXT", "last change"),
            Column("activity", "INTEGER", "recency: larger is later"),
            _DIGEST,
        ),
    ),
    "usage": Table(
        "what each request to a model weighed and cost",
        (
            Column("id", "INTEGER", "number of the request"),
            _SESSION,
            Column("group_id", "INTEGER", "the group it was made in"),
            Column("model", "TEXT", "the model that answered"),
            Column("prompt_tokens", "INTEGER", "all input, cached part included"),
            Column("completion_tokens", "INTEGER", "all output, reasoning included"),
            Column("cached_tokens", "INTEGER", "the part of the input that was reused"),
            Column("cost_nanousd", "INTEGER", "cost in billionths of a dollar; null if unknown"),
            Column("basis", "TEXT", "counted, estimated or reported"),
            Column("inherited", "INTEGER", "1 if a clone or import brought it: spent elsewhere"),
            _MADE,
            _DIGEST,
            Column("cache_write_tokens", "INTEGER", "the part of the input kept for reuse"),
            Column(
                "cache_write_long_tokens", "INTEGER", "the part of that kept for an hour or more"
            ),
            Column("reasoning_tokens", "INTEGER", "the part of the output that was reasoning"),
            Column("cache_miss", "TEXT", "why the vendor could not reuse more, in its own word"),
            Column("cache_missed_tokens", "INTEGER", "how much input that cost"),
            Column("address", "TEXT", "where the request went: scheme, host, port and path"),
            Column("outcome", "TEXT", "how it ended: a stop reason, or the code of an error"),
            Column("error", "TEXT", "what was said of an error"),
        ),
    ),
    "receipts": Table(
        "how each prompt was put together",
        (
            Column("id", "INTEGER", "number of the receipt"),
            _SESSION,
            Column("group_id", "INTEGER", "the group it was made in"),
            Column("usage_id", "INTEGER", "the request it was sent with"),
            Column("prefix_digest", "TEXT", "digest of the prompt's stable part"),
            Column("body", "TEXT", "the receipt, JSON"),
            _MADE,
            _DIGEST,
        ),
        shown=False,
    ),
    "undone": Table(
        "groups taken back by /undo, until the next turn",
        (
            Column("group_id", "INTEGER", "the group"),
            _SESSION,
            Column("body", "TEXT", "its salt, tokens, messages and state, JSON"),
            _MADE,
            _DIGEST,
        ),
        shown=False,
    ),
    "strategy_states": Table(
        "what the strategy keeps between turns, as each group left it",
        (
            Column("group_id", "INTEGER", "the group that left it"),
            _SESSION,
            Column("body", "TEXT", "the strategy's own state, JSON"),
            _MADE,
            _DIGEST,
        ),
        shown=False,
    ),
    "owners": Table(
        "who runs a turn now; working state, under no seal",
        (
            _SESSION,
            Column("owner", "TEXT", "names the lock file that its program holds while it lives"),
        ),
        shown=False,
        is_sealed=False,
    ),
    "open_replies": Table(
        "replies that are not stored yet; working state, under no seal",
        (
            _SESSION,
            Column("group_id", "INTEGER", "the group it would belong to"),
            Column("after_seq", "INTEGER", "seq of the message before it"),
            Column("strategy", "TEXT", "the parsing strategy it would have"),
            Column("text", "TEXT", "its words so far"),
            Column("reasoning", "TEXT", "its reasoning so far"),
        ),
        shown=False,
        is_sealed=False,
    ),
    "open_calls": Table(
        "calls that have no result yet; working state, under no seal",
        (
            _SESSION,
            Column("group_id", "INTEGER", "the group it belongs to"),
            Column("call_id", "TEXT", "the call"),
            Column("state", "TEXT", "asked: it waits for approval; running"),
        ),
        shown=False,
        is_sealed=False,
    ),
    "calibrations": Table(
        "how far estimates are from what vendors count; working state, under no seal",
        (
            Column("model", "TEXT", "the model"),
            Column("body", "TEXT", "what was predicted and reported so far, JSON"),
        ),
        shown=False,
        is_sealed=False,
    ),
}

_CONVERSATIONS: Final = """
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
"""

_ACCOUNTING: Final = """
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
"""

MEMO_INDEX: Final = """
CREATE VIRTUAL TABLE memo_text USING fts5 (
    content, content = 'llm_memos', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
"""

_WEIGHTS_AND_WORDS: Final = f"""
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
{MEMO_INDEX}
INSERT INTO memo_text (memo_text) VALUES ('rebuild');
"""

# An index of words keeps those of deleted texts until it is told not to.
_FORGOTTEN_WORDS: Final = """
INSERT INTO memo_text (memo_text, rank) VALUES ('secure-delete', 1);
INSERT INTO memo_text (memo_text) VALUES ('rebuild');
"""

# Columns that are added are null in older rows, so that their seals hold.
_ONE_STORE: Final = """
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
"""

MIGRATIONS: Final[tuple[str, ...]] = (
    _CONVERSATIONS,
    _ACCOUNTING,
    _WEIGHTS_AND_WORDS,
    _FORGOTTEN_WORDS,
    _ONE_STORE,
)
FORMAT: Final = len(MIGRATIONS)
# The tables that never give a number twice; SQLite keeps their highest in `sqlite_sequence`.
NUMBERED: Final = ("sessions", "groups", "messages", "llm_memos", "usage", "receipts")


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
    # One statement, so that a ledger being made right now is seen before or after, not between.
    version, known, tables = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema) "
        "FROM pragma_user_version, pragma_application_id"
    ).get
    if known != APPLICATION_ID and (version or known or tables):
        raise LedgerUnusable("this is a SQLite file, but not a ledger")
    if version > FORMAT:
        raise LedgerUnusable(
            f"this ledger has format {version}; this version of sightline reads up to {FORMAT}"
        )
    return int(version)
