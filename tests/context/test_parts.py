"""Neutral messages survive storage and answer simple questions about themselves."""

from __future__ import annotations

import msgspec
import pytest

from sightline.context.parts import File, Message, Raw, Reasoning, Text, ToolCall, ToolResult

EVERY_PART = Message(
    "assistant",
    (
        Reasoning("hm", raw=Raw("anthropic", {"signature": "abc"})),
        Text("Looking."),
        ToolCall("c1", "open", {"path": "/inbox"}),
        ToolResult("c1", "opened", name="open"),
        File("file:///a.png", "image/png", size=3),
        Text("Done."),
    ),
)


def test_a_message_survives_encoding() -> None:
    data = msgspec.json.encode(EVERY_PART)
    assert msgspec.json.decode(data, type=Message) == EVERY_PART


def test_text_joins_only_the_text_parts() -> None:
    assert EVERY_PART.text == "Looking.\n\nDone."


def test_calls_and_results_are_found_in_order() -> None:
    assert [call.name for call in EVERY_PART.tool_calls] == ["open"]
    assert [result.call_id for result in EVERY_PART.tool_results] == ["c1"]


def test_an_unknown_kind_of_part_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="Invalid value 'dance'"):
        msgspec.json.decode(b'{"role":"user","parts":[{"kind":"dance"}]}', type=Message)
