"""Neutral messages survive storage and answer simple questions about themselves."""

from __future__ import annotations

import msgspec
import pytest

from sightline.context.messages.parts import (
    File,
    Input,
    Message,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    tool_rounds,
    units_of,
)

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


def called(*ids: str) -> Message:
    return Message("assistant", tuple(ToolCall(call_id, "find") for call_id in ids))


def answered(*ids: str) -> Message:
    return Message("tool", tuple(ToolResult(call_id, "found") for call_id in ids))


HELLO = Message.of("user", "hello")


@pytest.mark.parametrize(
    ("messages", "units"),
    [
        ([], []),
        ([HELLO, HELLO], [(0,), (1,)]),
        ([HELLO, called("1"), answered("1"), HELLO], [(0,), (1, 2), (3,)]),
        ([called("1", "2"), answered("1"), HELLO, answered("2")], [(0, 1, 3), (2,)]),
        ([called("1"), called("2"), answered("1", "2")], [(0, 1, 2)]),
        ([called("1"), answered("1"), called("1"), answered("1")], [(0, 1), (2, 3)]),
        ([called("1"), HELLO], [(0,), (1,)]),
        ([answered("1"), HELLO], [(0,), (1,)]),
        ([answered("1"), called("1")], [(0, 1)]),
        ([answered("1"), answered("1"), HELLO], [(0, 1), (2,)]),
        ([EVERY_PART, HELLO], [(0,), (1,)]),
    ],
)
def test_a_call_and_its_results_are_one_unit(
    messages: list[Message], units: list[tuple[int, ...]]
) -> None:
    assert units_of(messages) == units
    assert tool_rounds(messages) == [unit for unit in units if len(unit) > 1]


def test_an_input_becomes_a_message_of_its_text_and_files() -> None:
    photo = File("file:///a.png", "image/png")
    assert Input("look", (photo,)).message() == Message("user", (Text("look"), photo))
    assert Input("", (photo,)).message("system") == Message("system", (photo,))


def test_a_file_keeps_its_declared_weight() -> None:
    photo = File("file:///a.png", "image/png", width=3, height=4, tokens=5)
    assert msgspec.json.decode(msgspec.json.encode(photo), type=File) == photo
