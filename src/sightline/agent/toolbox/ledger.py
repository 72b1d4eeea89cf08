"""The tools that look at the ledger: the session's history, its scratchpad, the memos.

Definitions and what runs behind them. The functions are synchronous, as the ledger is;
the toolbox runs them in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sightline.agent.toolbox.bench import SessionRecords
from sightline.agent.toolbox.results import Ran
from sightline.context.messages.gate import guarded_text
from sightline.context.messages.memos import Memo
from sightline.context.projection.tools import Tool, object_schema
from sightline.errors import InvalidInput

SHELVES: Final = ("project", "user")
_FOUND: Final = 10


def _text(about: str) -> dict[str, Any]:
    return {"type": "string", "description": about}


_TAGS: Final = {"type": "array", "items": {"type": "string"}, "maxItems": 32}

LEDGER_TOOLS: Final = (
    # std::slop, context management §5: SQL-based retrieval.
    Tool(
        "query_db",
        "Look something up in the history of this conversation with one SQL SELECT. Use ORDER BY "
        "id DESC for the newest first. Long answers end with the query that continues them.",
        object_schema("sql", sql=_text("One SELECT statement; it can only read")),
    ),
    Tool(
        "describe_db",
        "List the tables and columns that query_db can read, with an example.",
        object_schema(),
    ),
    # std::slop, context management §4: the scratchpad.
    Tool(
        "manage_scratchpad",
        "Read or change your scratchpad: plans and notes of this session, shown with every "
        "request.",
        object_schema(
            "action",
            action={
                "type": "string",
                # std::slop, context management §4: read, update and append.
                "enum": ["read", "update", "replace", "append", "edit"],
                "description": "update, replace and append take content; edit takes old and new",
            },
            content=_text("The text to write"),
            old=_text("A passage that is there exactly once"),
            new=_text("What takes its place"),
        ),
    ),
    # std::slop, context management §7: semantic memos.
    Tool(
        "save_memo",
        "Keep something for later sessions that cannot be read in the code or an app: the reason "
        "for a decision, a trap, an agreement.",
        object_schema(
            "content",
            "tags",
            content=_text("What to know, in a few sentences that stand on their own"),
            tags={**_TAGS, "minItems": 1, "description": "What to find it by, e.g. arch-decision"},
            shelf={
                "type": "string",
                "enum": list(SHELVES),
                "description": "project: for this project (default); user: for all of them",
            },
        ),
    ),
    Tool(
        "retrieve_memos",
        "Find memos of earlier sessions, by tags or by words.",
        object_schema(
            tags={**_TAGS, "description": "Tags, or hyphenated parts of them"},
            words=_text("Words of its tags or content"),
        ),
    ),
)


def run_ledger(records: SessionRecords, name: str, arguments: Mapping[str, Any]) -> Ran:
    """Run one of these tools; its arguments were checked. Raises what the ledger raises."""
    return _RUN[name](records, arguments)


def _query_db(records: SessionRecords, arguments: Mapping[str, Any]) -> Ran:
    answer = records.ledger.query(arguments["sql"], session_id=records.session_id)
    return Ran.of(answer.text())


def _describe_db(records: SessionRecords, _: Mapping[str, Any]) -> Ran:
    return Ran.of(records.ledger.describe())


def _scratchpad(records: SessionRecords, arguments: Mapping[str, Any]) -> Ran:
    pad, session = records.ledger.scratchpad, records.session_id
    match arguments["action"]:
        case "read":
            return Ran.of(pad.read(session) or "(the scratchpad is empty)")
        case "update" | "replace":
            text = pad.replace(session, _given(arguments, "content"))
        case "append":
            text = pad.append(session, _given(arguments, "content"))
        case _:
            # What is stored was stripped, so what it is compared with must be the same.
            text = pad.edit(session, _given(arguments, "old"), _given(arguments, "new"))
    return Ran.of(f"Written; the scratchpad has {len(text):,} characters now.")


def _save_memo(records: SessionRecords, arguments: Mapping[str, Any]) -> Ran:
    shelves, shelf = records.memos.names, arguments.get("shelf") or ""
    # Where there is one, it is for everything.
    home = shelf if shelf in shelves else shelves[0]
    memo = records.memos.save(_given(arguments, "content"), arguments["tags"], home)
    called = records.memos.reference(memo)
    return Ran.of(f"Saved as memo {called} ({memo.home}), tagged {', '.join(memo.tags)}.")


def _retrieve_memos(records: SessionRecords, arguments: Mapping[str, Any]) -> Ran:
    tags, words = arguments.get("tags") or [], arguments.get("words") or ""
    if not tags and not words.strip():
        raise InvalidInput("retrieve_memos needs tags or words to look for")
    found = records.memos.tagged(tags, limit=_FOUND) if tags else []
    if words.strip():
        known = {(memo.home, memo.id) for memo in found}
        more = records.memos.relevant(words, limit=_FOUND)
        found += [memo for memo in more if (memo.home, memo.id) not in known]
    if not found:
        return Ran.of("No memo fits. Other tags or words may find one.")
    return Ran.of("\n\n".join(_memo_text(records, memo) for memo in found[:_FOUND]))


_RUN: Final[dict[str, Callable[[SessionRecords, Mapping[str, Any]], Ran]]] = {
    "query_db": _query_db,
    "describe_db": _describe_db,
    "manage_scratchpad": _scratchpad,
    "save_memo": _save_memo,
    "retrieve_memos": _retrieve_memos,
}


def _given(arguments: Mapping[str, Any], name: str) -> str:
    if name not in arguments:
        raise InvalidInput(f"{arguments.get('action', 'it')} needs {name!r}")
    return guarded_text(str(arguments[name]))


def _memo_text(records: SessionRecords, memo: Memo) -> str:
    called = records.memos.reference(memo)
    return f"memo {called} ({memo.home}, {', '.join(memo.tags)}):\n{memo.content}"
