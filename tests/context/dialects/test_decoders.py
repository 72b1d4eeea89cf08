"""Streams, whole, cut and broken."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

from context.dialects.streams import ANTHROPIC, BEDROCK, NAMES, OLLAMA, STREAMS, event_stream, sse
from sightline.context.dialects import DIALECTS, decode
from sightline.context.dialects.events import (
    CacheMiss,
    Event,
    ReasoningArrived,
    Stopped,
    TextArrived,
    ToolCalled,
    Usage,
    UsageArrived,
)
from sightline.context.dialects.framing import EventStreamReader, FrameReader, LineReader, SseReader
from sightline.context.messages.parts import UNREADABLE, Raw, Reasoning, Text, ToolCall

every_dialect = pytest.mark.parametrize("dialect", STREAMS)


def events_of(dialect: str, chunks: Sequence[bytes]) -> list[Event]:
    return list(decode(DIALECTS[dialect].decoder(NAMES), chunks))


@every_dialect
def test_a_whole_stream_says_what_was_said(dialect: str) -> None:
    events = events_of(dialect, [STREAMS[dialect]])
    texts = [event.text for event in events if isinstance(event, TextArrived)]
    thoughts = [event.text for event in events if isinstance(event, ReasoningArrived)]
    calls = [event.call for event in events if isinstance(event, ToolCalled)]
    assert "".join(texts) == "Søk"
    assert "".join(thoughts) == "Let me see."
    assert [(c.name, c.arguments) for c in calls] == [("mail.search", {"q": "☃"}), ("now", {})]
    assert len({call.id for call in calls}) == 2
    last = events[-1]
    assert isinstance(last, Stopped)
    assert last.reason == "tool_calls"
    assert last.message.tool_calls == tuple(calls)
    assert last.message.text == "Søk"


@every_dialect
def test_usage_is_told_in_one_unit(dialect: str) -> None:
    [told] = [e for e in events_of(dialect, [STREAMS[dialect]]) if isinstance(e, UsageArrived)]
    assert (told.usage.input_tokens, told.usage.output_tokens) == (100, 9)
    if dialect != "ollama":
        assert told.usage.cache_read_tokens == 80
    if dialect in ("anthropic", "openai_responses"):
        assert told.cache_miss == CacheMiss("tools_changed", 70)


REPLAYED: dict[str, Callable[[tuple[Any, ...]], Raw | None]] = {
    "anthropic": lambda parts: parts[0].raw,
    "bedrock": lambda parts: parts[0].raw,
    "openai_responses": lambda parts: parts[0].raw,
    "gemini": lambda parts: parts[2].raw,
}


@pytest.mark.parametrize("dialect", REPLAYED)
def test_what_must_be_replayed_is_kept_as_it_came(dialect: str) -> None:
    stopped = events_of(dialect, [STREAMS[dialect]])[-1]
    assert isinstance(stopped, Stopped)
    raw = REPLAYED[dialect](stopped.message.parts)
    assert raw is not None
    assert raw.strategy == dialect
    assert "c2ln" in json.dumps(raw.data) or "ZW5j" in json.dumps(raw.data)


@every_dialect
def test_a_stream_cut_in_two_anywhere_gives_the_same_events(dialect: str) -> None:
    data = STREAMS[dialect]
    whole = events_of(dialect, [data])
    for at in range(len(data) + 1):
        assert events_of(dialect, [data[:at], data[at:]]) == whole


@every_dialect
def test_a_stream_in_random_pieces_gives_the_same_events(dialect: str) -> None:
    data = STREAMS[dialect]
    whole = events_of(dialect, [data])
    chance = random.Random(5)
    assert events_of(dialect, [data[i : i + 1] for i in range(len(data))]) == whole
    for _ in range(200):
        cuts = sorted(chance.choices(range(len(data) + 1), k=chance.randint(1, 40)))
        edges = [0, *cuts, len(data)]
        chunks = [data[a:b] for a, b in pairwise(edges)]
        assert events_of(dialect, chunks) == whole


@every_dialect
def test_a_stream_that_breaks_off_is_incomplete_and_has_no_calls(dialect: str) -> None:
    data = STREAMS[dialect]
    whole = events_of(dialect, [data])
    seen = set()
    for at in range(len(data)):
        events = events_of(dialect, [data[:at]])
        stopped = [event for event in events if isinstance(event, Stopped)]
        assert events[-1:] == stopped
        last = stopped[0]
        seen.add(last.reason)
        if last.reason == "incomplete":
            assert last.incomplete
            assert not any(isinstance(event, ToolCalled) for event in events)
            assert not last.message.tool_calls
        else:
            # Only what comes after the vendor's last word may be missing.
            assert last.message == whole[-1].message  # type: ignore[union-attr]  # a Stopped
    assert "incomplete" in seen


@every_dialect
def test_garbage_ends_the_reply_and_raises_nothing(dialect: str) -> None:
    chance = random.Random(11)
    data = STREAMS[dialect]
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 6)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        events = events_of(dialect, [bytes(broken)])
        assert sum(isinstance(event, Stopped) for event in events) == 1
        assert isinstance(events[-1], Stopped)


def reply(dialect: str, *chunks: bytes) -> Stopped:
    stopped = events_of(dialect, chunks)[-1]
    assert isinstance(stopped, Stopped)
    return stopped


def test_arguments_cut_by_the_length_limit_are_no_call() -> None:
    data = sse(
        {"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"q": 1'}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "length"}]},
        end=b"data: [DONE]\n\n",
    )  # fmt: skip
    stopped = reply("openai_chat", data)
    assert (stopped.reason, stopped.message.parts) == ("incomplete", ())


@pytest.mark.parametrize("arguments", ["{'q': 1}", "not json", "[1]", "3", '{"q": 1', "x" * 9_000])
def test_arguments_that_a_model_ended_and_that_are_no_object_are_kept_as_they_stand(
    arguments: str,
) -> None:
    data = sse(
        {"choices": [{"delta": {"tool_calls": [
            {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}},
            {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        end=b"data: [DONE]\n\n",
    )  # fmt: skip
    stopped = reply("openai_chat", data)
    assert stopped.reason == "tool_calls"
    assert stopped.message.parts == (
        ToolCall("a", "f", {UNREADABLE: arguments[:2_000]}),
        ToolCall("b", "g"),
    )


ERRORS = {
    "openai_chat": sse({"error": {"message": "overloaded"}}),
    "openai_responses": sse({"type": "error", "message": "overloaded"}),
    "anthropic": sse({"type": "error", "error": {"type": "x", "message": "overloaded"}}),
    "gemini": sse({"error": {"code": 503, "message": "overloaded"}}),
    "bedrock": event_stream(("throttlingException", {"message": "overloaded"})),
    "ollama": b'{"error": "overloaded"}\n',
}


@every_dialect
def test_an_error_in_the_stream_is_told(dialect: str) -> None:
    stopped = reply(dialect, ERRORS[dialect])
    assert stopped.reason == "error"
    assert "overloaded" in stopped.detail
    assert stopped.incomplete


def test_refusals_and_limits_are_told_apart() -> None:
    chat = {"choices": [{"delta": {"refusal": "I can't."}, "finish_reason": None}]}
    over = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    assert reply("openai_chat", sse(chat, over, end=b"data: [DONE]\n\n")).reason == "refused"
    gemini = {"candidates": [{"content": {"parts": []}, "finishReason": "SAFETY"}]}
    assert (reply("gemini", sse(gemini)).reason, reply("gemini", sse(gemini)).detail) == (
        "refused",
        "SAFETY",
    )
    blocked = reply("gemini", sse({"promptFeedback": {"blockReason": "OTHER"}}))
    assert blocked.reason == "refused"
    late = {"type": "response.incomplete", "response": {
        "incomplete_details": {"reason": "max_output_tokens"}}}  # fmt: skip
    assert reply("openai_responses", sse(late)).reason == "length"
    failed = {"type": "response.failed", "response": {"error": {"message": "no"}}}
    assert reply("openai_responses", sse(failed)).reason == "error"
    refusal = {"type": "response.refusal.delta", "output_index": 0, "delta": "No."}
    done = {"type": "response.completed", "response": {}}
    assert reply("openai_responses", sse(refusal, done)).reason == "refused"


def test_thinking_without_its_signature_is_kept_as_text_only() -> None:
    data = ANTHROPIC[: ANTHROPIC.index(b"event: content_block_delta", 900)]
    stopped = reply("anthropic", data.replace(b'"signature": "c2ln"', b'"signature": ""'))
    assert stopped.message.parts[:1] == (Reasoning("Let me see."),)


def test_redacted_thinking_is_replayed_whole() -> None:
    data = sse(
        {"type": "message_start", "message": {"id": "m"}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "redacted_thinking", "data": "eA=="}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    )  # fmt: skip
    raw = Raw("anthropic", {"type": "redacted_thinking", "data": "eA=="})
    assert reply("anthropic", data).message.parts == (Reasoning("", raw),)
    redacted = {"reasoningContent": {"redactedContent": "eA=="}}
    events: tuple[tuple[str, Any], ...] = (
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": redacted}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {}}),
    )
    raw = Raw("bedrock", {"redactedContent": "eA=="})
    assert reply("bedrock", event_stream(*events)).message.parts == (Reasoning("", raw),)


def test_a_text_with_a_signature_ends_there() -> None:
    data = sse(
        {"candidates": [{"content": {"parts": [{"text": "a"}, {"text": "b"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "c", "thoughtSignature": "s"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "d"}]}, "finishReason": "STOP"}]},
    )
    signed = Raw("gemini", {"thoughtSignature": "s"})
    assert reply("gemini", data).message.parts == (Text("abc", signed), Text("d"))


def test_what_a_vendor_accounts_for_is_told_as_it_came_and_without_the_reply() -> None:
    end = {"message": {"content": "a"}, "done": True, "eval_count": 3, "load_duration": 12}
    told = DIALECTS["ollama"].decoder().whole(end)
    [usage] = [event for event in told if isinstance(event, UsageArrived)]
    assert usage.reported == {"done": True, "eval_count": 3, "load_duration": 12}


def test_an_sdk_may_hand_over_unpacked_events() -> None:
    decoder = DIALECTS["bedrock"].decoder()
    told: list[Event] = []
    told += decoder.receive({"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "a"}}})
    told += decoder.receive({"messageStop": {"stopReason": "end_turn"}})
    told += decoder.receive({"metadata": {"usage": {"inputTokens": 1, "outputTokens": 2}}})
    assert told[0] == TextArrived("a")
    reported = {"inputTokens": 1, "outputTokens": 2}
    assert told[1] == UsageArrived(Usage(1, 2), reported=reported)
    assert told[2].reason == "end"  # type: ignore[union-attr]  # a Stopped
    assert decoder.receive({"messageStart": {}}) == decoder.feed(b"x") == decoder.close() == []


@pytest.mark.parametrize("how", ["receive", "whole"])
def test_half_a_character_in_what_an_sdk_unpacked_is_that_characters_fault_alone(how: str) -> None:
    decoder = DIALECTS["ollama"].decoder()
    half = {"message": {"content": "a\ud83d"}, "done": True, "eval_count": 3}
    told = decoder.receive(half) if how == "receive" else decoder.whole(half)
    assert told[0] == TextArrived("a\ufffd")
    assert isinstance(told[-1], Stopped)
    assert told[-1].reason == "end"


@pytest.mark.parametrize("how", ["receive", "whole"])
def test_what_no_json_can_say_ends_the_reply_and_raises_nothing(how: str) -> None:
    decoder = DIALECTS["ollama"].decoder()
    odd = {"message": {"content": object()}}
    [told] = decoder.receive(odd) if how == "receive" else decoder.whole(odd)
    assert isinstance(told, Stopped)
    assert told.incomplete


def test_ids_are_made_where_the_vendor_has_none() -> None:
    first, again = (reply("ollama", OLLAMA).message.tool_calls for _ in range(2))
    assert first == again
    assert all(call.id.startswith("call_") for call in first)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_server_sent_events_have_three_line_ends_and_comments(end: bytes) -> None:
    lines = (b"\xef\xbb\xbf: hello", b"event: a", b"data: 1", b"data:2", b"", b"", b"data", b"")
    data = end.join(lines) + end
    for at in range(len(data) + 1):
        reader = SseReader()
        frames = [*reader.feed(data[:at]), *reader.feed(data[at:]), *reader.close()]
        assert [(frame.event, frame.data) for frame in frames] == [("a", b"1\n2"), ("", b"")]


def test_our_event_stream_reader_agrees_with_botocore() -> None:
    theirs = EventStreamBuffer()
    theirs.add_data(BEDROCK)
    expected = [(event.headers[":event-type"], event.payload) for event in theirs]
    assert [(f.event, f.data) for f in EventStreamReader().feed(BEDROCK)] == expected


def damaged(headers: bytes) -> bytes:
    prelude = struct.pack(">II", 16 + len(headers), len(headers))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers
    return body + struct.pack(">I", zlib.crc32(body))


def test_event_headers_of_every_kind_are_stepped_over() -> None:
    values = {0: b"", 1: b"", 2: b"1", 3: b"12", 4: b"1234", 5: b"12345678", 8: b"12345678"}
    pairs = b"".join(b"\x01h" + bytes([kind]) + value for kind, value in values.items())
    headers = pairs + b"\x01b\x06\x00\x02xx" + b"\x0b:event-type\x07\x00\x01e"
    [frame] = EventStreamReader().feed(damaged(headers))
    assert (frame.event, frame.data) == ("e", b"")


@pytest.mark.parametrize(
    "data",
    [
        damaged(b"\x05ab"),
        damaged(b"\x01h\x20"),
        struct.pack(">III", 4, 0, zlib.crc32(struct.pack(">II", 4, 0))),
        BEDROCK[:-1] + b"\x00",
        b"x" * 20,
    ],
)
def test_a_damaged_event_breaks_the_stream_and_no_more(data: bytes) -> None:
    assert reply("bedrock", data).reason in ("incomplete", "tool_calls")


def test_a_frame_without_an_end_is_not_collected_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.context.dialects.framing.MAX_FRAME", 100)
    assert "more than 100 bytes" in reply("openai_chat", b"data: " + b"x" * 200).detail
    assert "more than 100 bytes" in reply("openai_chat", b"data: x\n" * 20).detail
    assert "more than 100 bytes" in reply("ollama", b"x" * 200).detail


@pytest.mark.parametrize(
    ("reader", "before", "after"),
    [(SseReader(), b"data: ", b"\n\n"), (LineReader(), b"", b"\n")],
)
def test_a_frame_in_crumbs_is_looked_at_once(
    reader: FrameReader, before: bytes, after: bytes
) -> None:
    # Looking at all of it for each crumb would be 160 GB.
    crumb = b"x" * 50
    for piece in (before, *[crumb] * 80_000):
        assert [*reader.feed(piece)] == []
    [frame] = reader.feed(after)
    assert frame.data == crumb * 80_000


def test_content_in_pieces_is_text() -> None:
    piece = {"choices": [{"delta": {"content": [{"type": "text", "text": "a"}]},
                          "finish_reason": "stop"}]}  # fmt: skip
    stopped = reply("openai_chat", sse(piece))
    assert (stopped.reason, stopped.message.text) == ("end", "a")
