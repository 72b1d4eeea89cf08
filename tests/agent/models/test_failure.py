"""Each vendor's no, read as what it means."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.agent.models.access import Access
from sightline.agent.models.connected import MAX_MESSAGE, broken, refused, stream_error
from sightline.agent.models.keys import Key
from sightline.context.dialects import profile_for
from sightline.errors import (
    ModelFailed,
    ModelUnavailable,
    Overflow,
    RateLimited,
    TimedOut,
    Unauthorized,
)
from support.vendors.asking import request_for

CANARY = "canary-7f3a9c51e2d84b06"
ACCESS = Access(
    "work:model", profile_for("openai-chat"), "https://user:pw@host.example:8443/v1",
    Key(CANARY, "WORK_KEY"), "Check the key from WORK_KEY.",
)  # fmt: skip

OVERFLOWS = [
    (400, "This model's maximum context length is 128000 tokens. However, you requested 130000"),
    (400, '{"error":{"code":"context_length_exceeded","message":"too many tokens"}}'),
    (400, "Your input exceeds the context window of this model."),
    (400, "prompt is too long: 210542 tokens > 200000 maximum"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
    (413, '{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}'),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)"),
    (400, "Input is too long for requested model."),
    (400, "the input length exceeds the context length"),
    (400, "the request exceeds the available context size, try increasing it"),
    (400, "The decoder prompt (length 9000) is longer than the maximum model length of 8192"),
    (400, "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    (400, "Range of input length should be [1, 991808]"),
    (400, "Please reduce the length of the messages or completion."),
    (422, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum"
          " context length"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "said"), OVERFLOWS)
def test_every_vendors_words_for_too_long_are_known(status: int, said: str) -> None:
    assert isinstance(refused(ACCESS, status, {}, said.encode()), Overflow)
    assert isinstance(stream_error(ACCESS, said), Overflow)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (("anthropic", "claude-sonnet-5-5"), "messages.1: tool_use ids were found without results"),
        (("openai-chat", "gpt-5.5"), "Invalid value for 'messages[2].content'"),
        (("openai-responses", "gpt-5.6"), "Invalid 'input[2].content': too long"),
    ],
)
def test_a_message_that_a_vendor_names_by_number_is_shown(
    model: tuple[str, str], said: str
) -> None:
    request = request_for(profile_for(*model), "first", "second", "third")
    body = json.dumps({"error": {"type": "invalid_request_error", "message": said}}).encode()
    error = refused(ACCESS, 400, {}, body, request=request)
    assert isinstance(error, ModelFailed)
    assert said in str(error)
    assert "; it begins {" in str(error)
    assert "second" in str(error)
    body = body.replace(said.encode(), b"messages.99: what?")
    assert "it begins" not in str(refused(ACCESS, 400, {}, body, request=request))


@pytest.mark.parametrize(
    ("headers", "body", "wait"),
    [
        ({"Retry-After": "12"}, "{}", 12.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "{}", 1.5),
        ({"retry-after": "soon"}, "{}", None),
        ({"retry-after": "-5"}, "{}", None),
        ({"retry-after": "nan"}, "{}", None),
        ({}, '{"error":{"details":[{"retryDelay":"13s"}]}}', 13.0),
        ({}, '{"error":{"details":[{"retryDelay":"0.25s"}]}}', 0.25),
        ({}, '{"error":{"details":{"retryDelay":4}}}', None),
        ({}, "not JSON", None),
    ],
)
def test_a_wait_is_read_however_it_is_told(
    headers: dict[str, str], body: str, wait: float | None
) -> None:
    error = refused(ACCESS, 429, headers, body.encode())
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == wait


def test_a_wait_may_be_until_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    error = refused(ACCESS, 503, {"retry-after": later}, b"")
    assert isinstance(error, RateLimited)
    assert error.retry_after_s is not None
    assert 3000 < error.retry_after_s <= 3600
    past = refused(ACCESS, 503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"")
    assert isinstance(past, RateLimited)
    assert past.retry_after_s == 0.0


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (404, False), (408, True), (409, True), (422, False), (500, True), (502, True),
     (503, True), (529, True)],
)  # fmt: skip
def test_what_may_pass_is_retryable(status: int, retryable: bool) -> None:
    error = refused(ACCESS, status, {}, b'{"error":{"message":"no"}}')
    assert type(error) is (ModelUnavailable if retryable else ModelFailed)
    assert error.exit_code == (4 if retryable else 1)
    assert (error.status, error.retryable) == (status, retryable)
    assert str(error) == f"work:model: no ({status})"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_its_place_and_repeats_nothing(status: int) -> None:
    error = refused(ACCESS, status, {}, f'{{"error":"bad {CANARY}"}}'.encode())
    assert isinstance(error, Unauthorized)
    assert str(error) == f"work:model refuses the request ({status}). Check the key from WORK_KEY."


@given(st.binary(max_size=2000), st.integers(min_value=300, max_value=599))
def test_whatever_comes_is_one_bounded_line_without_the_key(body: bytes, status: int) -> None:
    error = refused(ACCESS, status, {}, body[:500] + CANARY.encode() + body[500:])
    text = str(error)
    assert text.isprintable()
    assert len(text) <= MAX_MESSAGE + 100
    assert CANARY not in text


def test_a_gateways_page_is_not_shown() -> None:
    assert str(refused(ACCESS, 502, {}, b"<html>no</html>")) == "work:model: no reason given (502)"


@pytest.mark.parametrize(
    ("detail", "retryable"),
    [("Overloaded", True), ("Internal error", True), ("invalid tool schema", False)],
)
def test_a_failure_in_the_stream_may_pass_or_not(detail: str, retryable: bool) -> None:
    error = stream_error(ACCESS, detail)
    assert type(error) is (ModelUnavailable if retryable else ModelFailed)
    assert error.retryable is retryable


def test_an_address_is_told_without_its_password() -> None:
    class ReadTimeout(Exception):
        pass

    late = broken(ACCESS, ReadTimeout())
    assert isinstance(late, TimedOut)
    assert "host.example:8443" in str(late)
    assert "pw" not in str(late) + str(broken(ACCESS, OSError("refused")))
