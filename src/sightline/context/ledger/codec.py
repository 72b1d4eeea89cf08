"""Messages as columns: one readable text, and the parts that point into it.

`content` is what a reader sees: texts and tool results as they are, calls as
`name(arguments)`, files as their name and address (of a `data:` address its beginning),
blank lines between. `parts` is JSON in which a text or a result does not repeat its
characters but says where in `content` they stand (`at`, `length`, counted in characters
as `substr` does, from 0). A message that is one plain text has no `parts` at all. So a large tool
output is stored once, and `SELECT content` gives it whole.

`from_columns(role, *to_columns(message)) == message`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.messages.entries import Entry
from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Raw,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

__all__ = [
    "ENTRY_COLUMNS",
    "entry_of",
    "from_columns",
    "size_of",
    "to_columns",
    "tool_call_id_of",
]

_BETWEEN: Final = "\n\n"


class _Placed(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="kind"
):
    at: int
    length: int


class _PlacedText(_Placed, frozen=True, tag="text"):
    raw: Raw | None = None


class _PlacedResult(_Placed, frozen=True, tag="tool_result", kw_only=True):
    call_id: str
    name: str = ""
    is_error: bool = False
    raw: Raw | None = None


_Stored: TypeAlias = _PlacedText | _PlacedResult | ToolCall | Reasoning | File
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(tuple[_Stored, ...]).decode

# What `entry_of` reads, in its order.
ENTRY_COLUMNS: Final = (
    "id, session_id, group_id, seq, role, content, parts, status, parsing_strategy, tokens, "
    "tokens_basis, created_at, usage_id"
)
_CONTENT, _PARTS = (ENTRY_COLUMNS.split(", ").index(name) for name in ("content", "parts"))


def to_columns(message: Message) -> tuple[str, str | None]:
    """Write a message as (`content`, `parts`)."""
    if len(message.parts) == 1 and isinstance(part := message.parts[0], Text) and part.raw is None:
        return part.text, None
    pieces: list[str] = []
    stored: list[_Stored] = []
    at = 0
    for part in message.parts:
        shown = _shown(part)
        stored.append(_placed(part, at))
        if shown is not None:
            pieces.append(shown)
            at += len(shown) + len(_BETWEEN)
    return _BETWEEN.join(pieces), _encode(stored).decode()


def from_columns(role: Role, content: str, parts: str | None) -> Message:
    """Read a message back."""
    if parts is None:
        return Message(role, (Text(content),))
    stored = _decode(parts)
    if len(stored) == 1:
        return Message(role, (_unplaced(stored[0], content),))
    return Message(role, tuple([_unplaced(part, content) for part in stored]))


def entry_of(row: tuple[Any, ...]) -> Entry:
    """Make an entry of a row of `ENTRY_COLUMNS`."""
    (id_, session, group, seq, role, content, parts, status, strategy, tokens, basis, at, usage) = (
        row
    )
    message = from_columns(role, content, parts)
    return Entry(id_, session, group, seq, message, status, strategy, tokens, basis, at, usage)


def size_of(row: tuple[Any, ...]) -> int:
    """Tell how many characters a row of `ENTRY_COLUMNS` holds."""
    return len(row[_CONTENT]) + len(row[_PARTS] or "")


def tool_call_id_of(message: Message) -> str | None:
    """Name the call that a tool's message answers, if it answers exactly one."""
    results = message.tool_results
    return results[0].call_id if message.role == "tool" and len(results) == 1 else None


def _shown(part: Part) -> str | None:
    match part:
        case Text():
            return part.text
        case ToolResult():
            return part.content
        case ToolCall():
            return f"{part.name}({_encode(part.arguments).decode()})"
        case File():
            return f"{part.name} <{_address(part.uri)}>".lstrip()
        case Reasoning():
            return None


def _address(uri: str) -> str:
    """An address as a reader sees it: of one that holds the file itself, the beginning."""
    head, comma, data = uri.partition(",")
    return f"{head},…" if comma and data and head.startswith("data:") else uri


def _placed(part: Part, at: int) -> _Stored:
    match part:
        case Text():
            return _PlacedText(at, len(part.text), part.raw)
        case ToolResult():
            return _PlacedResult(
                at,
                len(part.content),
                call_id=part.call_id,
                name=part.name,
                is_error=part.is_error,
                raw=part.raw,
            )
        case _:
            return part


def _unplaced(part: _Stored, content: str) -> Part:
    if not isinstance(part, _Placed):
        return part
    shown = content[part.at : part.at + part.length]
    if isinstance(part, _PlacedText):
        return Text(shown, part.raw)
    return ToolResult(part.call_id, shown, part.name, part.is_error, part.raw)
