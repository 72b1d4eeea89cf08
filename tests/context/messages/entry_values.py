"""Entries made by hand, for the functions that work on them."""

from __future__ import annotations

from sightline.context.messages.parts import (
    Entry,
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    outcome_of,
)


def entry(
    seq: int, message: Message, *, group: int = 1, strategy: str = "openai", tokens: int = 0
) -> Entry:
    status = outcome_of(message)
    return Entry(
        seq + 100, 1, group, seq, message, status, strategy, tokens, "counted", "2026-01-01"
    )


def result_entry(seq: int, content: str, *, group: int = 1, strategy: str = "openai") -> Entry:
    message = Message("tool", (ToolResult(f"c{seq}", content),))
    return entry(seq, message, group=group, strategy=strategy)


def call_entry(seq: int, *ids: str, group: int = 1, strategy: str = "openai") -> Entry:
    calls: list[Part] = [ToolCall(call, "ls") for call in ids]
    message = Message("assistant", (Text("working"), *calls))
    return entry(seq, message, group=group, strategy=strategy)


def answer_entry(seq: int, *ids: str, group: int = 1, strategy: str = "openai") -> Entry:
    parts = tuple(ToolResult(call, "done") for call in ids)
    return entry(seq, Message("tool", parts), group=group, strategy=strategy)


def text_entry(
    seq: int, role: Role, text: str, *, group: int = 1, strategy: str = "openai"
) -> Entry:
    return entry(seq, Message.of(role, text), group=group, strategy=strategy)
