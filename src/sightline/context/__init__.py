"""What a model is shown, kept and sent: state, messages, tokens, slots, requests, the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily

if TYPE_CHECKING:
    from sightline.context.dialects import Options, decoder_for, encode, profile_for, usage_from
    from sightline.context.dialects.drift import drift
    from sightline.context.dialects.events import Stopped, TextArrived
    from sightline.context.dialects.sdk import Messages, cached
    from sightline.context.ledger import Ledger
    from sightline.context.messages.parts import Message, Text, ToolCall, ToolResult
    from sightline.context.messages.window import Window
    from sightline.context.projection.changes import ShownState, render_changes
    from sightline.context.projection.escape import escape_text
    from sightline.context.projection.moment import parse_moment
    from sightline.context.projection.select import select
    from sightline.context.projection.strip import strip_blocks
    from sightline.context.projection.tail import render_tail
    from sightline.context.projection.temporal import change_note, changed_signal, pin_snapshot
    from sightline.context.projection.tools import dynamic_tools
    from sightline.context.slots.prompt import Prompt
    from sightline.context.slots.slots import Budget, Slots
    from sightline.context.slots.strategy import Strategy
    from sightline.context.tokens.estimate import Calibrations
    from sightline.context.tokens.tokens import counter_for

__all__ = [
    "Budget",
    "Calibrations",
    "Ledger",
    "Message",
    "Messages",
    "Options",
    "Prompt",
    "ShownState",
    "Slots",
    "Stopped",
    "Strategy",
    "Text",
    "TextArrived",
    "ToolCall",
    "ToolResult",
    "Window",
    "cached",
    "change_note",
    "changed_signal",
    "counter_for",
    "decoder_for",
    "drift",
    "dynamic_tools",
    "encode",
    "escape_text",
    "parse_moment",
    "pin_snapshot",
    "profile_for",
    "render_changes",
    "render_tail",
    "select",
    "strip_blocks",
    "usage_from",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "sightline.context.dialects": "Options decoder_for encode profile_for usage_from",
        "sightline.context.dialects.drift": "drift",
        "sightline.context.dialects.events": "Stopped TextArrived",
        "sightline.context.dialects.sdk": "Messages cached",
        "sightline.context.ledger": "Ledger",
        "sightline.context.messages.parts": "Message Text ToolCall ToolResult",
        "sightline.context.messages.window": "Window",
        "sightline.context.projection.changes": "ShownState render_changes",
        "sightline.context.projection.escape": "escape_text",
        "sightline.context.projection.moment": "parse_moment",
        "sightline.context.projection.select": "select",
        "sightline.context.projection.strip": "strip_blocks",
        "sightline.context.projection.tail": "render_tail",
        "sightline.context.projection.temporal": "change_note changed_signal pin_snapshot",
        "sightline.context.projection.tools": "dynamic_tools",
        "sightline.context.slots.prompt": "Prompt",
        "sightline.context.slots.slots": "Budget Slots",
        "sightline.context.slots.strategy": "Strategy",
        "sightline.context.tokens.estimate": "Calibrations",
        "sightline.context.tokens.tokens": "counter_for",
    },
)
