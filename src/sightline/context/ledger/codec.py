"""Messages as columns: one readable text, and the parts that point into it.

`content` is what a reader sees: texts and tool results as they are, calls as
`name(arguments)`, files as their name and address (of a `data:` address its beginning),
blank lines between. `parts` is JSON in which a text or a result does not repeat its
characters but says where in `content` they stand (`at`, `length`, counted in characters
as `substr` does, from 0). A message that is one plain text has no `parts` at all. So a large tool
output is stored once, and `SELECT content` gives it whole. A large file, whose bytes are kept
apart, is a `kept_file`: their name, and the part with the beginning of its address.

`from_columns(role, *to_columns(message)) == message`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.messages.parts import (
    Entry,
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

_BETWEEN: Final = "\n\n"
_LARGE: Final = 4096  # bytes of a file from which on they are kept apart from the message
KEPT: Final = "kept_file"  # what stands in `parts` of a message that has such a file


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


class _KeptFile(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="kept_file"
):
    object: str
    file: File


_Stored: TypeAlias = _PlacedText | _PlacedResult | ToolCall | Reasoning | File | _KeptFile
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(tuple[_Stored, ...]).decode

# What `entry_of` reads, in its order.
ENTRY_COLUMNS: Final = (
    "id, session_id, group_id, seq, role, content, parts, status, parsing_strategy, tokens, "
    "tokens_basis, created_at, usage_id"
)
_CONTENT, _PARTS = (ENTRY_COLUMNS.split(", ").index(name) for name in ("content", "parts"))


def to_columns(
    message: Message, keep: Callable[[bytes], str] | None = None
) -> tuple[str, str | None]:
    """Write a message as (`content`, `parts`); `keep` takes the bytes of large files, if given."""
    if len(message.parts) == 1 and isinstance(part := message.parts[0], Text) and part.raw is None:
        return part.text, None
    pieces: list[str] = []
    stored: list[_Stored] = []
    at = 0
    for part in message.parts:
        shown = _shown(part)
        stored.append(_placed(part, at, keep))
        if shown is not None:
            pieces.append(shown)
            at += len(shown) + len(_BETWEEN)
    return _BETWEEN.join(pieces), _encode(stored).decode()


def from_columns(
    role: Role, content: str, parts: str | None, fetch: Callable[[str], bytes]
) -> Message:
    """Read a message back; `fetch` gives the bytes that were kept elsewhere."""
    if parts is None:
        return Message(role, (Text(content),))
    return Message(role, tuple([_unplaced(part, content, fetch) for part in _decode(parts)]))


def kept_in(parts: str | None) -> list[str]:
    """Name a message's files that are kept apart from it."""
    if parts is None or KEPT not in parts:
        return []
    return [part.object for part in _decode(parts) if isinstance(part, _KeptFile)]


def without_bytes(_name: str) -> bytes:
    """Fetch nothing: a file that is kept elsewhere has the beginning of its address."""
    return b""


def bytes_in(message: Message) -> Iterator[bytes]:
    """Yield the bytes that `to_columns` would have kept elsewhere."""
    for part in message.parts:
        if isinstance(part, File) and (data := _bytes_of(part.uri)) is not None:
            yield data


def parts_of(rows: Iterable[tuple[Any, ...]]) -> Iterator[str | None]:
    """Yield the parts of rows of `ENTRY_COLUMNS`."""
    return (row[_PARTS] for row in rows)


def entry_of(row: tuple[Any, ...], fetch: Callable[[str], bytes]) -> Entry:
    """Make an entry of a row of `ENTRY_COLUMNS`; `fetch` as for `from_columns`."""
    (id_, session, group, seq, role, content, parts, status, strategy, tokens, basis, at, usage) = (
        row
    )
    message = from_columns(role, content, parts, fetch)
    return Entry(id_, session, group, seq, message, status, strategy, tokens, basis, at, usage)


def size_of(row: tuple[Any, ...], entry: Entry) -> int:
    """Tell how many characters a row of `ENTRY_COLUMNS` holds, with the files of its entry."""
    parts = row[_PARTS] or ""
    held = len(row[_CONTENT]) + len(parts)
    if KEPT not in parts:
        return held
    return held + sum(len(part.uri) for part in entry.message.parts if isinstance(part, File))


def tool_call_id_of(message: Message) -> str | None:
    """Name the call that a tool's message answers, if it answers exactly one."""
    if message.role != "tool":
        return None
    results = message.tool_results
    return results[0].call_id if len(results) == 1 else None


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


def _bytes_of(uri: str) -> bytes | None:
    """The bytes in an address, if they are many, and written as we would write them."""
    head, _, text = uri.partition(",")
    if len(text) < _LARGE or not (head.startswith("data:") and head.endswith(";base64")):
        return None
    try:
        data = b64decode(text)
    except ValueError:
        return None
    return data if len(data) >= _LARGE and b64encode(data).decode() == text else None


def _placed(part: Part, at: int, keep: Callable[[bytes], str] | None) -> _Stored:
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
        case File() if keep is not None and (data := _bytes_of(part.uri)) is not None:
            head, comma, _ = part.uri.partition(",")
            return _KeptFile(keep(data), msgspec.structs.replace(part, uri=head + comma))
        case _:
            return part


def _unplaced(part: _Stored, content: str, fetch: Callable[[str], bytes]) -> Part:
    if isinstance(part, _KeptFile):
        text = b64encode(fetch(part.object)).decode()
        return msgspec.structs.replace(part.file, uri=part.file.uri + text)
    if not isinstance(part, _Placed):
        return part
    shown = content[part.at : part.at + part.length]
    if isinstance(part, _PlacedText):
        return Text(shown, part.raw)
    return ToolResult(part.call_id, shown, part.name, part.is_error, part.raw)
