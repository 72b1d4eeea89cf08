"""The ledger's side of the inspector: sessions, groups, states, memos, search, SQL, verify."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from sightline.context.dialects.events import Usage, cost
from sightline.context.dialects.profile import Profile
from sightline.context.ledger import Ledger, Session
from sightline.context.messages.gate import guarded_text
from sightline.context.messages.memos import Memo
from sightline.context.messages.parts import (
    Entry,
    File,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.slots.prompt import RULES, Receipt
from sightline.errors import InvalidInput, NotFound

PREVIEW_CHARS: Final = 160
ANSWER_CHARS: Final = 600
FOUND: Final = 100
ROW_DIGITS: Final = 18  # a number with more is no row's: SQLite counts to 2**63


class Records:
    """What a ledger holds, as values for the inspector's page."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def sessions(self) -> list[dict[str, Any]]:
        """List the sessions, the most recent first; what one began stands behind it."""
        return [
            {
                "id": one.session.id,
                "agent": _agent_of(one.session),
                "title": f"{'↳ ' if one.session.parent else ''}{one.title or one.session.name}",
            }
            for one in self._ledger.sessions.overview(single=True)
        ]

    def session(self, session: int) -> dict[str, Any]:
        """Show what the ledger holds of one session beside its messages."""
        found = self._ledger.sessions.get(session)
        return {
            "path": self._ledger.name,
            "name": found.name,
            "groups": [
                {
                    "id": group.id,
                    "status": group.status,
                    "messages": group.messages,
                    "tokens": group.tokens,
                    "text": preview(group.prompt),
                }
                for group in self._ledger.groups.recent(session)
            ],
            "states": [
                {"group_id": state.group_id, "created_at": state.created_at, "text": state.text}
                for state in self._ledger.states.history(session)
            ],
            "scratchpad": self._ledger.scratchpad.read(session),
            "memos": [_memo(memo) for memo in self._ledger.memos.recent(FOUND)],
        }

    def quoted_memos(self, texts: Collection[str]) -> list[dict[str, Any]]:
        """List the memos that stand in some texts as a model reads them, whole and unchanged."""
        return [
            _memo(memo)
            for memo in self._ledger.memos.recent()
            if any(form in text for form in _forms(memo) for text in texts)
        ]

    def group(self, session: int, group: int) -> dict[str, Any]:
        """Show the messages of one group, whole."""
        return {"messages": [_entry(entry) for entry in self._ledger.groups.show(session, group)]}

    def under_way(self, session: int) -> dict[str, Any]:
        """Show the words of a reply that is not stored yet, and calls without results."""
        work = self._ledger.work.open(session)
        return {"text": work.text, "reasoning": work.reasoning, "calls": work.calls}

    def message(self, session: int, number: int) -> Entry | None:
        """Read a message of a session; None if it has none with this number."""
        try:
            entry = self._ledger.message(number)
        except NotFound:
            return None
        return entry if entry.session_id == session else None

    def answer(self, session: int, group: int) -> str:
        """The beginning of what a model said last in a group; empty if it said nothing."""
        try:
            entries = self._ledger.groups.show(session, group)
        except NotFound:
            return ""
        replies = (entry.message.text for entry in reversed(entries) if entry.role == "assistant")
        text = next(filter(None, replies), "")
        return text if len(text) <= ANSWER_CHARS else f"{text[: ANSWER_CHARS - 1]}…"

    def search(self, text: str) -> dict[str, Any]:
        """Find what was said in any session by its words, and memos; with where it was said."""
        try:
            hits = self._ledger.search(text, limit=FOUND)
        except InvalidInput as error:
            return {"found": [], "problem": str(error)}
        seqs = self._ledger.groups.seqs([hit.group_id for hit in hits])
        found: list[dict[str, Any]] = [
            {
                "kind": hit.role,
                "id": hit.id,
                "text": hit.excerpt,
                "session": hit.session_id,
                "turn": seqs[hit.group_id] + 1,
            }
            for hit in hits
            if hit.group_id in seqs
        ]
        found += (
            {"kind": "memo", "id": memo.id, "text": preview(memo.content)}
            for memo in self._ledger.memos.search(text)
        )
        return {"found": found, "problem": ""}

    def query(self, sql: str, session: int) -> dict[str, Any]:
        """Run one read-only statement, within the limits of `query_db`."""
        result = self._ledger.query(sql, session_id=session)
        return {
            "columns": list(result.columns),
            "rows": [
                [value.hex() if isinstance(value, bytes) else value for value in row]
                for row in result.rows
            ],
            "note": " ".join(result.hints),
        }

    def verify(self) -> dict[str, Any]:
        """Check the whole ledger."""
        report = self._ledger.verify()
        summary = (
            f"messages: {report.messages:,}, sessions: {report.sessions:,}; as they were written"
            if report.ok
            else "; ".join(report.findings[:5])
        )
        return {"ok": report.ok, "summary": summary}


def _agent_of(session: Session) -> str:
    """Name the agent whose session this is; nothing for one of our own."""
    kind, _, agent = session.kind.partition(" ")
    if kind != "gateway" or not session.is_foreign:
        return ""
    name = agent.removeprefix("import ")
    return f"{name}, imported" if name != agent else name or "another agent"


def parts_of(message: Message) -> list[dict[str, Any]]:
    """Show the parts of a message as texts; calls and results with the id they share."""
    return [_part(part) for part in message.parts]


def preview(text: str) -> str:
    """Shorten a text to one line for a list."""
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else f"{line[: PREVIEW_CHARS - 1]}…"


def picture(receipt: Receipt, profile: Profile, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Show who has the tokens of a request, in its window."""
    return {
        "receipt": receipt.to_dict(),
        "window_tokens": max(profile.window_tokens, receipt.budget),
        "rules": RULES,
        "messages": messages,
        "price_usd": cost(Usage(input_tokens=receipt.total), profile.prices),
    }


def _memo(memo: Memo) -> dict[str, Any]:
    return {"id": memo.id, "tags": ", ".join(memo.tags), "content": memo.content}


def _forms(memo: Memo) -> tuple[str, str]:
    """How a memo ends in a prompt: as a line of the layer, as a result of `retrieve_memos`."""
    tags = ", ".join(memo.tags)
    return guarded_text(f"({tags}): {memo.content}"), guarded_text(f"{tags}):\n{memo.content}")


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"kind": "text", "text": text}
        case Reasoning(text=text):
            return {"kind": "reasoning", "text": text}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            text = f"{name}({msgspec.json.encode(arguments).decode()})"
            return {"kind": "call", "text": text, "id": call_id, "name": name}
        case ToolResult(call_id=call_id, content=content, is_error=is_error):
            text = f"error: {content}" if is_error else content
            return {"kind": "result", "text": text, "id": call_id, "error": is_error}
        case File(uri=uri, mime=mime, name=name):
            return {"kind": "file", "text": f"{name or uri} ({mime})"}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "role": entry.role,
        "status": entry.status,
        "tokens": entry.tokens,
        "basis": entry.basis,
        "created_at": entry.created_at,
        "parts": parts_of(entry.message),
    }
