"""Make sense of what a filter was given: JSON, messages, a recorded session.

Everything wrong with it is one `InvalidInput`: not UTF-8, not JSON, nested beyond
reason, or with text that no encoding can carry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec

from sightline.context.messages.given import message_given
from sightline.context.messages.parts import Message, Part, Text, ToolResult
from sightline.errors import InvalidInput, InvalidJson
from sightline.slop.protocol.jsontext import NESTING, loads, nests_deeper, text_from_bytes

PARTS: Mapping[str, type[msgspec.Struct]] = {
    kind.__struct_config__.tag: kind for kind in get_args(Part)
}


def read_json(data: bytes | str) -> Any:
    """Parse JSON strictly, except that NaN is left for whoever can say whose number it is."""
    if nests_deeper(data, NESTING):
        raise InvalidInput(f"the JSON is nested too deeply, more than {NESTING} levels")
    value = loads(data if isinstance(data, str) else text_from_bytes(data))
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise InvalidInput("the JSON has a lone surrogate, which no text can hold") from error
    return value


def message_to_json(message: Message) -> dict[str, Any]:
    """Write role and content, and the parts where they are more than one text."""
    contents = [
        part.text if isinstance(part, Text) else part.content
        for part in message.parts
        if isinstance(part, Text | ToolResult)
    ]
    data: dict[str, Any] = {"role": message.role, "content": "\n\n".join(contents)}
    if len(message.parts) != 1 or not isinstance(message.parts[0], Text):
        data["parts"] = msgspec.to_builtins(message.parts)
    return data


def read_session(data: bytes) -> list[Message]:
    """Read a recorded session: the ledger's export, or a JSON list of messages.

    The export is one JSON object per line, each with a `kind`; what is neither session
    nor message, rows that were dropped, and keys from a later version are passed over.
    """
    text = text_from_bytes(data)
    if text.lstrip().startswith("["):
        listed = read_json(text)
        return [message_given(item) for item in listed]
    messages = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = read_json(line)
        except InvalidJson as error:
            raise InvalidJson(error.reason, number, error.column) from error
        if not isinstance(row, dict) or "kind" not in row:
            raise InvalidInput(f"line {number}: not a row of an exported session")
        if row["kind"] == "message" and row.get("status") != "dropped":
            try:
                messages.append(_exported_message(row))
            except InvalidInput as error:
                raise InvalidInput(f"line {number}: {error}") from error
    return messages


def _exported_message(row: Mapping[str, Any]) -> Message:
    parts = row.get("parts")
    if not isinstance(parts, Sequence):
        raise InvalidInput("a message without parts")
    return message_given({"role": row.get("role"), "parts": [_known_keys(part) for part in parts]})


def _known_keys(part: object) -> object:
    if not isinstance(part, dict) or part.get("kind") not in PARTS:
        return part
    known = (*PARTS[part["kind"]].__struct_fields__, "kind")
    return {key: value for key, value in part.items() if key in known}
