"""The ledger's tables, column by column, whatever engine keeps them.

`describe_db` shows them to the model, docs/ledger.md to people, and tests hold all three
together. An engine's numbered steps make them (`sqlite.steps`).

    sessions ──< groups ──< messages          what was said
        │           └─────< session_state     the ### STATE that a group left
        ├──< usage, receipts                  what a request cost, and was made of
        ├──< undone                           groups that /redo can bring back
        ├──< strategy_states                  what a group left with the strategy
        ├──< checkpoints, checkpoint_writes   where a framework's graph goes on from
        └──< owners, open_replies, open_calls what is under way, and who runs it: under no seal
        ├──< attachments                      the bytes of large files in messages
        └──< exchanges                        what other agents and their vendors said
    calibrations                              how vendors count: under no seal
    llm_memos ──< memo_words                  knowledge of no session, and the stems that its
              ──< memo_content_words          tags and its content are found by
    ledger                                    one row: identity, and the seal over all others
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import msgspec


class Column(NamedTuple):
    """A column's name, type and meaning; `sealed` says whether the row's digest covers it."""

    name: str
    type: str
    doc: str
    sealed: bool = True


class Table(msgspec.Struct, frozen=True, dict=True):
    """A table's meaning and columns.

    `shown` tables can be read by `query_db`. Those that are not sealed hold working state:
    what is under way now, and no record of anything.
    """

    doc: str
    columns: tuple[Column, ...]
    shown: bool = False
    is_sealed: bool = True

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def readable(self) -> tuple[str, ...]:
        """The columns that queries see: all but the seals and what serves them."""
        return tuple(c.name for c in self.columns if c.type != "BLOB" and c.name != "dropped")

    @cached_property
    def sealed(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.sealed)


_DIGEST: Final = Column("digest", "BLOB", "seal over the row's other columns", sealed=False)
_CREATED: Final = Column(
    "created_at", "TEXT", "UTC, RFC 3339; for people, nothing is ordered by it"
)
_SESSION: Final = Column("session_id", "INTEGER", "the session it belongs to")


def _shown(doc: str, *columns: Column) -> Table:
    """A table of the record that `query_db` can read."""
    return Table(doc, columns, shown=True)


def _kept(doc: str, *columns: Column) -> Table:
    """A table of the record that it cannot read."""
    return Table(doc, columns)


def _working(doc: str, *columns: Column) -> Table:
    """A table of working state, under no seal."""
    return Table(doc, columns, is_sealed=False)


TABLES: Final[dict[str, Table]] = {
    "ledger": _kept(
        "one row: the identity of this file and the seal over all sessions and memos",
        Column("id", "INTEGER", "always 1"),
        Column("uuid", "TEXT", "identity of this ledger"),
        _CREATED,
        Column("activity", "INTEGER", "counts changes; gives sessions and memos their recency"),
        Column("tally", "BLOB", "sum of the digests of all sessions and memos"),
        _DIGEST,
    ),
    "sessions": _shown(
        "one conversation each",
        Column("id", "INTEGER", "number of the session in this ledger"),
        Column("uuid", "TEXT", "identity that survives export and import"),
        Column("name", "TEXT", "what people call it"),
        Column("project", "TEXT", "where it belongs, by default the working directory"),
        _CREATED,
        Column("updated_at", "TEXT", "last change"),
        Column("activity", "INTEGER", "recency: larger is later"),
        Column("scratchpad", "TEXT", "the model's plan, in its own words"),
        Column("context_size", "INTEGER", "window in groups, 0 for all"),
        Column("context_slack", "INTEGER", "groups the window may grow before it folds"),
        Column("next_seq", "INTEGER", "seq of the next message; removed ones count"),
        Column("next_group", "INTEGER", "seq of the next group; removed ones count"),
        Column("live_groups", "INTEGER", "groups that windows can show"),
        Column("tokens", "INTEGER", "weight of the live groups"),
        Column("largest", "INTEGER", "bytes of the largest message there ever was"),
        Column("cloned_from", "TEXT", "uuid of the session it was cloned from"),
        Column("head", "BLOB", "chain of the last group"),
        Column(
            "tally",
            "BLOB",
            "sum of its digests in session_state, usage, receipts, undone, strategy_states, "
            "checkpoints, checkpoint_writes",
        ),
        _DIGEST,
        Column("first_group", "INTEGER", "groups before it are folded away; null for none"),
        Column("parent", "TEXT", "uuid of the session that started it"),
        Column("title", "TEXT", "what it is about, in a few words"),
        Column("kind", "TEXT", "ask for one that a single question began; null for a chat"),
    ),
    "groups": _shown(
        "one user prompt each, with everything that follows it until the next",
        Column("id", "INTEGER", "the group_id, unique in this ledger"),
        _SESSION,
        Column("seq", "INTEGER", "place in the session, from 0, without gaps"),
        Column("status", "TEXT", "live, dropped, undone or removed"),
        Column("first_seq", "INTEGER", "seq of its first message"),
        Column("messages", "INTEGER", "how many messages it has, or had"),
        Column("tokens", "INTEGER", "weight of its messages; 0 once undone or removed"),
        _CREATED,
        Column("salt", "BLOB", "start of its messages' digests; null once removed"),
        Column("content_digest", "BLOB", "digest of its last message"),
        Column("chain", "BLOB", "seal over this and every earlier group of the session"),
        _DIGEST,
        Column("tokens_before", "INTEGER", "weight of the live groups before it", sealed=False),
    ),
    "messages": _shown(
        "everything said, called and answered, in order",
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
        _CREATED,
        Column("append_key", "TEXT", "idempotency key of the append that stored it"),
        Column("digest", "BLOB", "seal over it and the message before it", sealed=False),
        Column("status", "TEXT", "dropped, or else its outcome (computed)", sealed=False),
        Column("usage_id", "INTEGER", "the request that produced it"),
    ),
    "session_state": _shown(
        "the ### STATE blocks, one for each group that left one",
        Column("group_id", "INTEGER", "the group that left it"),
        _SESSION,
        Column("content", "TEXT", "the block, heading included"),
        _CREATED,
        _DIGEST,
    ),
    "llm_memos": _shown(
        "knowledge that outlives sessions",
        Column("id", "INTEGER", "number of the memo"),
        Column("content", "TEXT", "what to know"),
        Column("tags", "TEXT", "JSON array of normalised tags"),
        _CREATED,
        Column("updated_at", "TEXT", "last change"),
        Column("activity", "INTEGER", "recency: larger is later"),
        _DIGEST,
    ),
    "usage": _shown(
        "what each request to a model weighed and cost",
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
        _CREATED,
        _DIGEST,
        Column("cache_write_tokens", "INTEGER", "the part of the input kept for reuse"),
        Column("cache_write_long_tokens", "INTEGER", "the part of that kept for an hour or more"),
        Column("reasoning_tokens", "INTEGER", "the part of the output that was reasoning"),
        Column("cache_miss", "TEXT", "why the vendor could not reuse more, in its own word"),
        Column("cache_missed_tokens", "INTEGER", "how much input that cost"),
        Column("address", "TEXT", "where the request went: scheme, host, port and path"),
        Column("outcome", "TEXT", "how it ended: a stop reason, or the code of an error"),
        Column("error", "TEXT", "what was said of an error"),
        Column("reported", "TEXT", "the vendor's own account of it, JSON"),
    ),
    "receipts": _kept(
        "how each prompt was put together",
        Column("id", "INTEGER", "number of the receipt"),
        _SESSION,
        Column("group_id", "INTEGER", "the group it was made in"),
        Column("usage_id", "INTEGER", "the request it was sent with"),
        Column("prefix_digest", "TEXT", "digest of the prompt's stable part"),
        Column("body", "TEXT", "the receipt, JSON"),
        _CREATED,
        _DIGEST,
    ),
    "undone": _kept(
        "groups taken back by /undo, until the next turn",
        Column("group_id", "INTEGER", "the group"),
        _SESSION,
        Column("body", "TEXT", "its salt, tokens, messages and state, JSON"),
        _CREATED,
        _DIGEST,
    ),
    "strategy_states": _kept(
        "what the strategy keeps between turns, as each group left it",
        Column("group_id", "INTEGER", "the group that left it"),
        _SESSION,
        Column("body", "TEXT", "the strategy's own state, JSON"),
        _CREATED,
        _DIGEST,
    ),
    "checkpoints": _kept(
        "where a framework's graph can go on from",
        _SESSION,
        Column("namespace", "TEXT", "empty for the graph itself, else the graph inside it"),
        Column("checkpoint", "TEXT", "its id, larger is later; the framework gives it"),
        Column("parent", "TEXT", "the checkpoint before it; null for the first"),
        Column("shown", "TEXT", "JSON, [first id, count] of its messages; null for no list"),
        Column("kind", "TEXT", "how the framework wrote the body"),
        Column("body", "BLOB", "everything else of it, as the framework wrote it"),
        _CREATED,
        _DIGEST,
    ),
    "checkpoint_writes": _kept(
        "what tasks of a graph did since a checkpoint",
        _SESSION,
        Column("namespace", "TEXT", "that of the checkpoint"),
        Column("checkpoint", "TEXT", "the checkpoint"),
        Column("task", "TEXT", "the task's id"),
        Column("number", "INTEGER", "its writes in order; negative for errors and questions"),
        Column("path", "TEXT", "the task's path; writes are applied in its order"),
        Column("channel", "TEXT", "what it wrote to"),
        Column("kind", "TEXT", "how the framework wrote the body"),
        Column("body", "BLOB", "what it wrote, as the framework wrote it"),
        _CREATED,
        _DIGEST,
    ),
    "owners": _working(
        "who runs a turn now; working state, under no seal",
        _SESSION,
        Column("owner", "TEXT", "names the lock file that its program holds while it lives"),
    ),
    "open_replies": _working(
        "replies that are not stored yet; working state, under no seal",
        _SESSION,
        Column("group_id", "INTEGER", "the group it would belong to"),
        Column("after_seq", "INTEGER", "seq of the message before it"),
        Column("strategy", "TEXT", "the parsing strategy it would have"),
        Column("text", "TEXT", "its words so far"),
        Column("reasoning", "TEXT", "its reasoning so far"),
    ),
    "open_calls": _working(
        "calls that have no result yet; working state, under no seal",
        _SESSION,
        Column("group_id", "INTEGER", "the group it belongs to"),
        Column("call_id", "TEXT", "the call"),
        Column("state", "TEXT", "asked: it waits for approval; running"),
    ),
    "calibrations": _working(
        "how far estimates are from what vendors count; working state, under no seal",
        Column("model", "TEXT", "the model"),
        Column("body", "TEXT", "what was predicted and reported so far, JSON"),
    ),
    "attachments": _kept(
        "the bytes of large files in messages; a message's seal covers their name",
        _SESSION,
        Column("sha256", "TEXT", "digest of the bytes; SESSION_ID/SHA256 is their name"),
        Column("size", "INTEGER", "how many bytes"),
        Column("data", "BLOB", "the bytes"),
    ),
    "exchanges": _working(
        "what another agent asked its vendor, and the answer; under no seal",
        Column("id", "INTEGER", "number of the exchange, never used twice"),
        _SESSION,
        _CREATED,
        Column("api", "TEXT", "which vendor API was spoken"),
        Column("model", "TEXT", "the model that was asked"),
        Column("bytes", "INTEGER", "how large the request was"),
        Column("base", "INTEGER", "the exchange that it is packed against; null for none"),
        Column("depth", "INTEGER", "how many earlier ones it takes to read it"),
        Column("request", "BLOB", "passages of the base, and what is new; packed"),
        Column("usage_id", "INTEGER", "what it used"),
        Column("reply", "BLOB", "what was answered, JSON, packed"),
        Column("about", "TEXT", "what was found out about it, JSON"),
    ),
}
# What a session has beside its row.
HELD: Final = tuple(name for name, table in TABLES.items() if "session_id" in table.names)
