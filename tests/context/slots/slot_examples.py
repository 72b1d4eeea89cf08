"""Short words for the examples: texts of so many tokens, by ⌈characters/4⌉."""

from __future__ import annotations

from typing import Any, TypeAlias

from sightline.context.messages.parts import Message, Role, Text, ToolCall, ToolResult
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.slots import Content, Slots

COUNTER = "chars/4"
Added: TypeAlias = tuple[str, Content, dict[str, Any]]


def text(tokens: int, letter: str = "x") -> str:
    """A text of exactly so many tokens."""
    return letter * (4 * tokens)


def said(tokens: int, letter: str = "x", role: Role = "user") -> Message:
    return Message.of(role, text(tokens, letter))


def tool_round(call_id: str, tokens: int, letter: str = "t") -> list[Message]:
    """A call of 2 tokens (its name and empty arguments) and an answer of so many."""
    call = Message("assistant", (ToolCall(call_id, "search", {}),))
    return [call, Message("tool", (ToolResult(call_id, text(tokens, letter)),))]


def render(budget: int, *slots: Added) -> Prompt:
    pending = Slots(budget, COUNTER)
    for name, content, options in slots:
        pending.add(name, content, **options)
    return pending.render()


def letters(prompt: Prompt) -> str:
    """The first letter of each message's text, in prompt order: what stayed, at a glance."""
    found = []
    for message in prompt.messages:
        for part in message.parts:
            content = part.text if isinstance(part, Text) else getattr(part, "content", "")
            found.append(content[:1])
    return "".join(found)


def kept(prompt: Prompt) -> dict[str, int]:
    return {line.name: line.kept for line in prompt.receipt.slots}


def warnings(prompt: Prompt) -> list[tuple[str, str]]:
    return [(warning.code, warning.slot) for warning in prompt.receipt.warnings]
