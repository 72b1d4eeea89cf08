"""Arguments of a call that nest too deep: that one call is unreadable, on every interpreter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context.dialects.streams import NAMES, STREAMS, event_stream
from context.dialects.test_whole_replies import WHOLE
from sightline.context.dialects import DIALECTS, decode
from sightline.context.dialects.events import Event, Stopped, UsageArrived
from sightline.context.dialects.framing import EventStreamReader
from sightline.context.messages.gate import MAX_DEPTH, guarded
from sightline.context.messages.parts import UNREADABLE, Message, Raw, Reasoning, ToolCall

every_dialect = pytest.mark.parametrize("dialect", STREAMS)
SNOWMAN = '"☃"'.encode()


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def streamed(dialect: str, value: bytes) -> list[Event]:
    """The events of a stream whose first call has this in place of the snowman."""
    data = STREAMS[dialect]
    if dialect == "bedrock":
        frames = EventStreamReader().feed(data)
        told = ((frame.event, frame.data.replace(rb"\"\u2603\"", value)) for frame in frames)
        data = event_stream(*((event, json.loads(text)) for event, text in told))
    data = data.replace(SNOWMAN.replace(b'"', b'\\"'), value).replace(SNOWMAN, value)
    return list(decode(DIALECTS[dialect].decoder(NAMES), [data]))


def whole(dialect: str, value: bytes) -> list[Event]:
    """The events of a reply that is not streamed, with this in place of the snowman."""
    data = json.dumps(WHOLE[dialect], ensure_ascii=False).encode()
    data = data.replace(SNOWMAN.replace(b'"', b'\\"'), value).replace(SNOWMAN, value)
    return DIALECTS[dialect].decoder(NAMES).whole(data)


def calls_of(events: list[Event]) -> tuple[ToolCall, ToolCall]:
    stopped = events[-1]
    assert isinstance(stopped, Stopped)
    assert (stopped.reason, stopped.message.text) == ("tool_calls", "Søk")
    assert any(isinstance(event, UsageArrived) for event in events)
    first, second = stopped.message.tool_calls
    assert (second.name, second.arguments) == ("now", {})
    return first, second


@every_dialect
@pytest.mark.parametrize("way", [streamed, whole])
@pytest.mark.parametrize("levels", [MAX_DEPTH, 600, 5_000, 100_000])
def test_a_call_that_nests_too_deep_is_unreadable_and_the_reply_is_whole(
    dialect: str, way: Any, levels: int
) -> None:
    call, _ = calls_of(way(dialect, nested(levels)))
    assert call.name == "mail.search"
    assert list(call.arguments) == [UNREADABLE]
    assert call.arguments[UNREADABLE].replace(" ", "").startswith('{"q":[[[[')
    assert len(call.arguments[UNREADABLE]) <= 2_000


@every_dialect
@pytest.mark.parametrize("way", [streamed, whole])
def test_a_call_that_nests_as_deep_as_a_ledger_stores_is_read(dialect: str, way: Any) -> None:
    call, _ = calls_of(way(dialect, nested(MAX_DEPTH - 1)))
    assert list(call.arguments) == ["q"]


@every_dialect
@pytest.mark.parametrize("way", [streamed, whole])
def test_a_number_that_no_ledger_stores_makes_a_call_unreadable(dialect: str, way: Any) -> None:
    call, _ = calls_of(way(dialect, b"7" * 1_500))
    assert list(call.arguments) == [UNREADABLE]


def test_an_sdk_s_mapping_may_be_as_deep_as_it_likes() -> None:
    value: Any = []
    for _ in range(20_000):
        value = [value]
    call = {"id": "a", "name": "f", "args": {"q": value}}
    part = {
        "candidates": [{"content": {"parts": [{"functionCall": call}]}, "finishReason": "STOP"}]
    }
    stopped = DIALECTS["gemini"].decoder().whole(part)[-1]
    assert isinstance(stopped, Stopped)
    [made] = stopped.message.tool_calls
    assert list(made.arguments) == [UNREADABLE]


def test_what_a_vendor_wants_back_goes_if_it_cannot_be_stored_as_it_is() -> None:
    deep = json.loads(nested(MAX_DEPTH))
    said = Message("assistant", (Reasoning("so", Raw("openai_responses", {"content": deep})),))
    assert guarded(said).parts == (Reasoning("so"),)
