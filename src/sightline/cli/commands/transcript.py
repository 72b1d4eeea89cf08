"""Messages as text for a person: every part, nothing left out, nothing passing for another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from sightline.context.messages.entries import Entry
from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.slots.prompt import Prompt

__all__ = ["transcript"]

_INDENT = "  "


def transcript(source: Prompt | Sequence[Entry]) -> str:
    """Write a prompt, with its tools and its boundary, or stored messages."""
    lines = _prompt_lines(source) if isinstance(source, Prompt) else _entry_lines(source)
    return "\n".join(lines)


def _prompt_lines(prompt: Prompt) -> Iterator[str]:
    yield f"── tools ({len(prompt.tools)})"
    for tool in prompt.tools:
        yield _INDENT + msgspec.json.encode(tool).decode()
    for index, message in enumerate(prompt.messages):
        if index == prompt.boundary:
            yield "══ boundary: everything above is sent as the same bytes next time"
        yield f"── {message.role}"
        yield from _message_lines(message)
    receipt = prompt.receipt
    yield f"── {receipt.total:,} of {receipt.budget:,} tokens, {receipt.free:,} free"


def _entry_lines(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        mark = "" if entry.status == "complete" else f", {entry.status}"
        yield f"── {entry.role} (message {entry.id}, {entry.tokens:,} tokens{mark})"
        yield from _message_lines(entry.message)


def _message_lines(message: Message) -> Iterator[str]:
    for part in message.parts:
        # Indented, so that no text can pass for a heading of ours.
        for line in _part_text(part).split("\n"):
            yield _INDENT + line


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Reasoning(text):
            return f"[reasoning] {text}"
        case ToolCall():
            return f"[calls {part.name} {msgspec.json.encode(part.arguments).decode()}]"
        case ToolResult():
            outcome = "error" if part.is_error else "result"
            return f"[{outcome} of {part.name or part.call_id}]\n{part.content}"
        case File():
            return f"[file {part.name or part.uri}, {part.mime}]"
