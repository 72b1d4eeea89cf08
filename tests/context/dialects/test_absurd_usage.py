"""Numbers of a usage report that are none: the reply is kept, and the number is not."""

from __future__ import annotations

import json
import re
import struct
import zlib
from typing import Any

import pytest

from context.dialects.streams import NAMES, STREAMS, event_stream
from context.dialects.test_whole_replies import WHOLE
from sightline.context.dialects import DIALECTS, decode, usage_from
from sightline.context.dialects.events import MAX_TOKENS, Event, Stopped, Usage, UsageArrived, cost
from sightline.context.dialects.framing import EventStreamReader
from sightline.context.dialects.profile import Prices

# How each API spells the tokens of an answer, and where its report is.
OUTPUT = {
    "openai_chat": "completion_tokens",
    "openai_responses": "output_tokens",
    "anthropic": "output_tokens",
    "gemini": "candidatesTokenCount",
    "bedrock": "outputTokens",
    "ollama": "eval_count",
}
REPORT = {"gemini": "usageMetadata"}
every_dialect = pytest.mark.parametrize("dialect", OUTPUT)
ABSURD = {
    "negative": "-5", "half": "7.5", "huge float": "1e308", "beyond every float": "1e999",
    "beyond 64 bits": "9" * 30, "of 2,000 digits": "9" * 2_000, "of 9,000 digits": "9" * 9_000,
    "just too many": str(MAX_TOKENS + 1), "text": '"12"', "true": "true", "object": '{"n": 1}',
    "list": "[1]", "not a number": "NaN",
}  # fmt: skip


def streamed(dialect: str, number: str) -> list[Event]:
    count = f'"{OUTPUT[dialect]}": '.encode()

    def changed(data: bytes) -> bytes:
        return re.sub(count + rb"\d+", count + number.encode(), data)

    data = STREAMS[dialect]
    if dialect == "bedrock":
        frames = EventStreamReader().feed(data)
        data = b"".join(packed(frame.event, changed(frame.data)) for frame in frames)
    else:
        data = changed(data)
    return list(decode(DIALECTS[dialect].decoder(NAMES), [data]))


def packed(event: str, payload: bytes) -> bytes:
    """Pack an event as AWS does, of JSON that no writer of JSON would write."""
    plain = event_stream((event, {}))
    headers = plain[12 : 12 + int.from_bytes(plain[4:8])]
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def whole(dialect: str, number: str) -> list[Event]:
    body, absurd = WHOLE[dialect], {OUTPUT[dialect]: "ABSURD"}
    key = REPORT.get(dialect, "usage")
    body = {**body, **absurd} if dialect == "ollama" else {**body, key: {**body[key], **absurd}}
    data = json.dumps(body).replace('"ABSURD"', number).encode()
    return DIALECTS[dialect].decoder(NAMES).whole(data)


def told(events: list[Event]) -> Usage:
    stopped = events[-1]
    assert isinstance(stopped, Stopped)
    assert (stopped.reason, stopped.message.text) == ("tool_calls", "Søk")
    assert len(stopped.message.tool_calls) == 2
    [reported] = [event for event in events if isinstance(event, UsageArrived)]
    return reported.usage


@every_dialect
@pytest.mark.parametrize("way", [streamed, whole])
@pytest.mark.parametrize("number", ABSURD.values(), ids=ABSURD)
def test_a_number_that_is_no_count_is_not_kept_and_the_reply_is(
    dialect: str, way: Any, number: str
) -> None:
    usage = told(way(dialect, number))
    assert usage.unusable == (OUTPUT[dialect],)
    assert usage.input_tokens == 100
    assert usage.output_tokens == (4 if dialect == "gemini" else 0)  # its thoughts are apart
    assert cost(usage, Prices(input=1, output=1)) is None


@every_dialect
@pytest.mark.parametrize("way", [streamed, whole])
def test_null_is_not_reported_and_a_whole_float_is_a_count(dialect: str, way: Any) -> None:
    for number, tokens in (("null", 0), ("8.0", 8)):
        usage = told(way(dialect, number))
        assert usage.unusable == ()
        assert usage.output_tokens == tokens + (4 if dialect == "gemini" else 0)


@pytest.mark.parametrize("report", ["lots", [1], 3, True, [[[]]]])
@pytest.mark.parametrize("dialect", [name for name in OUTPUT if name != "ollama"])
def test_a_report_that_is_no_report_is_none(dialect: str, report: Any) -> None:
    body = {**WHOLE[dialect], REPORT.get(dialect, "usage"): report}
    usage = told(DIALECTS[dialect].decoder(NAMES).whole(body))
    assert usage == Usage(unusable=("usage",))


def test_more_cached_than_there_was_is_not_less_than_nothing() -> None:
    usage = usage_from("openai_chat", {"prompt_tokens": 5, "prompt_cache_hit_tokens": 9})
    assert (usage.fresh_tokens, usage.evaluated_tokens, usage.cached_share) == (0, 0, 1.0)
    assert cost(usage, Prices(input=1, output=1)) == pytest.approx(9e-6)


def test_half_a_character_does_not_cost_the_reply() -> None:
    line = b'{"message": {"content": "a\\ud83d"}, "done": true}\n'
    stopped = next(iter(reversed(list(decode(DIALECTS["ollama"].decoder(), [line])))))
    assert isinstance(stopped, Stopped)
    assert (stopped.reason, stopped.message.text) == ("end", "a\ufffd")
