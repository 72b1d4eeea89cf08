"""Stored vendor JSON, read back into neutral messages: what all vendors' readers share.

`parse(strategy, data)` (in `dialects`) turns one message in a vendor's own JSON into a neutral
message: its text, its tool calls, its results. It is how foreign logs are imported; nothing
sniffs a format, the strategy is always named. Each vendor's shapes are in its own file.

A call without an id (Gemini, Ollama) gets one made of its name and its place among
the message's calls of that name, which is also what its answer gets. In Ollama's
form every answer is a message of its own and says no place: it gets the first, and
who reads several messages leads it to the call that waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.messages.parts import Message, Part, Role, ToolResult

Stored: TypeAlias = Mapping[str, Any]
UNKNOWN: Final = "application/octet-stream"
TEXTS: Final = ("text", "input_text", "output_text")
ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def derived_id(name: str, index: int) -> str:
    """Make the id of a call, or of an answer, to which its vendor gave none."""
    return f"{name}:{index}"


def role_of(name: Any, aliases: Mapping[str, str]) -> Role:
    """Return our role for a vendor's name of one."""
    return ROLES[aliases.get(name, name)]


def message_of(role: Role, parts: tuple[Part, ...]) -> Message:
    """Make a message; the tool's, where results stand alone in a turn of the user's."""
    results = parts and all(isinstance(part, ToolResult) for part in parts)
    return Message("tool" if results else role, parts)


def call_id_of(given: Any, name: Any, seen: Counter[str]) -> str:
    """Return the vendor's id of a call, or one made of its name and place."""
    index = seen[as_text(name)]
    seen[name] += 1
    return as_text(given) if given else derived_id(name, index)


def as_text(value: Any) -> str:
    """Return a text; raise `TypeError` for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def arguments_of(function: Stored) -> dict[str, Any]:
    """Read the arguments, which OpenAI sends as JSON text; what is no object stays as text."""
    given = function.get("arguments") or "{}"
    value = given
    if isinstance(given, str):
        try:
            value = msgspec.json.decode(given)
        except msgspec.DecodeError:
            return {"arguments": given}
    return dict(value) if isinstance(value, Mapping) else {"arguments": given}


def flat(content: Any) -> str:
    """Join a result's text blocks; a result that is no text stays JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(
        block["text"] if block.get("type") in TEXTS else msgspec.json.encode(block).decode()
        for block in content
    )
