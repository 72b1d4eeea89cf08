"""Replies that are not streamed: the same events as from the stream of the same reply."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

import botocore.loaders
import botocore.model
import botocore.validate
import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai.types import GenerateContentResponse
from ollama._types import ChatResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from context.dialects.cases import CASES
from context.dialects.streams import NAMES, STREAMS
from sightline.context.dialects import DIALECTS, Options, decode, decoder_for, encode, profile_for
from sightline.context.dialects.events import (
    Event,
    ReasoningArrived,
    Stopped,
    TextArrived,
    ToolCalled,
    UsageArrived,
)
from sightline.context.messages.parts import Raw, Reasoning, Text

CHAT = {
    "id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-5.6-sol",
    "choices": [{
        "index": 0, "finish_reason": "tool_calls", "logprobs": None,
        "message": {
            "role": "assistant", "content": "Søk", "refusal": None,
            "reasoning_content": "Let me see.",
            "tool_calls": [
                {"id": "a", "type": "function",
                 "function": {"name": "mail_search_pg3lc4uv", "arguments": '{"q":"☃"}'}},
                {"id": "b", "type": "function", "function": {"name": "now", "arguments": ""}},
            ],
        },
    }],
    "usage": {
        "prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109,
        "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 4}},
}  # fmt: skip
RESPONSES = {
    "id": "r1", "object": "response", "created_at": 1, "model": "gpt-5.6-sol",
    "status": "completed", "error": None, "incomplete_details": None, "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "reasoning", "id": "rs1", "encrypted_content": "ZW5j", "status": None,
         "summary": [{"type": "summary_text", "text": "Let me see."}]},
        {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
         "phase": "commentary",
         "content": [{"type": "output_text", "text": "Søk", "annotations": []}]},
        {"type": "function_call", "id": "f1", "call_id": "a", "name": "mail_search_pg3lc4uv",
         "arguments": '{"q":"☃"}'},
        {"type": "function_call", "id": "f2", "call_id": "b", "name": "now", "arguments": "{}"},
    ],
    "usage": {"input_tokens": 100, "output_tokens": 9, "total_tokens": 109,
              "input_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 10},
              "output_tokens_details": {"reasoning_tokens": 4}},
    "prompt_cache_diagnostics": {"type": "cache_miss", "reason": "tools_changed",
                                 "cache_missed_tokens": 70},
}  # fmt: skip
ANTHROPIC = {
    "id": "m1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5",
    "content": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "text", "text": "Søk"},
        {"type": "tool_use", "id": "a", "name": "mail_search_pg3lc4uv", "input": {"q": "☃"}},
        {"type": "tool_use", "id": "b", "name": "now", "input": {}},
    ],
    "stop_reason": "tool_use", "stop_sequence": None,
    "diagnostics": {"cache_miss_reason": {"type": "tools_changed",
                                          "cache_missed_input_tokens": 70}},
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 10,
              "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
}  # fmt: skip
GEMINI = {
    "responseId": "g1", "modelVersion": "gemini-3.8-flash",
    "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
        {"text": "Let me see.", "thought": True},
        {"text": "Søk"},
        {"functionCall": {"id": "a", "name": "mail_search_pg3lc4uv", "args": {"q": "☃"}},
         "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "b", "name": "now", "args": {}}}]}}],
    "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 80,
                      "candidatesTokenCount": 5, "thoughtsTokenCount": 4, "totalTokenCount": 109},
}  # fmt: skip
BEDROCK = {
    "output": {"message": {"role": "assistant", "content": [
        {"reasoningContent": {"reasoningText": {"text": "Let me see.", "signature": "c2ln"}}},
        {"text": "Søk"},
        {"toolUse": {"toolUseId": "a", "name": "mail_search_pg3lc4uv", "input": {"q": "☃"}}},
        {"toolUse": {"toolUseId": "b", "name": "now", "input": {}}}]}},
    "stopReason": "tool_use",
    "usage": {"inputTokens": 10, "outputTokens": 9, "totalTokens": 109,
              "cacheReadInputTokens": 80, "cacheWriteInputTokens": 10},
    "metrics": {"latencyMs": 12},
}  # fmt: skip
OLLAMA = {
    "model": "qwen3", "created_at": "2026-11-15T06:00:00Z", "done": True, "done_reason": "stop",
    "message": {"role": "assistant", "thinking": "Let me see.", "content": "Søk", "tool_calls": [
        {"function": {"name": "mail_search_pg3lc4uv", "arguments": {"q": "☃"}}},
        {"function": {"name": "now", "arguments": {}}}]},
    "prompt_eval_count": 100, "eval_count": 9,
}  # fmt: skip
WHOLE: dict[str, dict[str, Any]] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
    "ollama": OLLAMA,
}
every_dialect = pytest.mark.parametrize("dialect", WHOLE)


def told(dialect: str, body: bytes | Mapping[str, Any]) -> list[Event]:
    return DIALECTS[dialect].decoder(NAMES).whole(body)


def joined(events: list[Event]) -> list[Event]:
    """The events with neighbouring deltas of one kind in one piece, without what is as it came."""
    made: list[Event] = []
    for event in events:
        last = made[-1] if made else None
        if isinstance(event, TextArrived) and isinstance(last, TextArrived):
            made[-1] = TextArrived(last.text + event.text)
        elif isinstance(event, ReasoningArrived) and isinstance(last, ReasoningArrived):
            made[-1] = ReasoningArrived(last.text + event.text)
        elif isinstance(event, UsageArrived):
            made.append(UsageArrived(event.usage, event.cache_miss))
        else:
            made.append(event)
    return made


@every_dialect
def test_a_whole_reply_gives_the_events_of_its_stream(dialect: str) -> None:
    streamed = joined(list(decode(DIALECTS[dialect].decoder(NAMES), [STREAMS[dialect]])))
    whole = joined(told(dialect, json.dumps(WHOLE[dialect]).encode()))
    assert whole == streamed
    kinds = [type(event) for event in whole]
    assert kinds == [ReasoningArrived, TextArrived, ToolCalled, ToolCalled, UsageArrived, Stopped]


def bedrock_fault(body: Mapping[str, Any]) -> str:
    described = botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    shape = botocore.model.ServiceModel(described).operation_model("Converse").output_shape
    return str(botocore.validate.ParamValidator().validate(body, shape).generate_report())


READ: dict[str, Callable[[dict[str, Any]], Mapping[str, Any]]] = {
    "openai_chat": lambda body: ChatCompletion.model_validate(body).model_dump(),
    "openai_responses": lambda body: Response.model_validate(body).model_dump(),
    "anthropic": lambda body: AnthropicMessage.model_validate(body).model_dump(),
    "gemini": lambda body: GenerateContentResponse.model_validate(body).model_dump(
        by_alias=True, exclude_none=True, mode="json"
    ),
    "ollama": lambda body: ChatResponse.model_validate(body).model_dump(),
}


@pytest.mark.parametrize("dialect", READ)
def test_what_the_vendor_s_own_types_read_is_decoded_alike(dialect: str) -> None:
    read = READ[dialect](WHOLE[dialect])
    assert joined(told(dialect, read)) == joined(told(dialect, json.dumps(WHOLE[dialect]).encode()))


def test_bedrock_s_own_shape_accepts_the_reply_and_its_bytes_are_base64() -> None:
    assert bedrock_fault(BEDROCK) == ""
    redacted = {"reasoningContent": {"redactedContent": b"x"}}
    body = {**BEDROCK, "output": {"message": {"role": "assistant", "content": [redacted]}}}
    assert bedrock_fault(body) == ""
    stopped = told("bedrock", body)[-1]
    assert isinstance(stopped, Stopped)
    assert stopped.message.parts == (Reasoning("", Raw("bedrock", {"redactedContent": "eA=="})),)


ERRORS: dict[str, dict[str, Any]] = {
    "openai_chat": {"error": {"message": "overloaded", "type": "server_error"}},
    "openai_responses": {"error": {"message": "overloaded", "type": "server_error"}},
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}},
    "gemini": {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}},
    "bedrock": {"message": "overloaded"},
    "ollama": {"error": "overloaded"},
}


@every_dialect
def test_an_error_body_is_told_as_an_error(dialect: str) -> None:
    [stopped] = told(dialect, json.dumps(ERRORS[dialect]).encode())
    assert isinstance(stopped, Stopped)
    assert (stopped.reason, stopped.message.parts) == ("error", ())
    assert "overloaded" in stopped.detail


ENDINGS: dict[str, dict[str, Any]] = {
    "openai_chat": {**CHAT, "choices": [{**CHAT["choices"][0], "finish_reason": None}]},  # type: ignore[index]  # plain JSON
    "openai_responses": {**RESPONSES, "status": "in_progress"},
    "anthropic": {**ANTHROPIC, "stop_reason": None},
    "gemini": {**GEMINI, "candidates": [{**GEMINI["candidates"][0], "finishReason": None}]},  # type: ignore[index]  # plain JSON
    "bedrock": {key: value for key, value in BEDROCK.items() if key != "stopReason"},
    "ollama": {**OLLAMA, "done": False},
}


@every_dialect
def test_a_reply_without_an_end_is_incomplete_and_has_no_calls(dialect: str) -> None:
    events = told(dialect, json.dumps(ENDINGS[dialect]).encode())
    assert not any(isinstance(event, ToolCalled) for event in events)
    last = events[-1]
    assert isinstance(last, Stopped)
    assert last.incomplete
    assert last.message.text == "Søk"
    assert not last.message.tool_calls


@every_dialect
def test_a_body_that_is_none_ends_the_reply_and_raises_nothing(dialect: str) -> None:
    chance = random.Random(21)
    data = json.dumps(WHOLE[dialect]).encode()
    bodies = [b"", b"null", b"[]", b"{}", b'"x"', b"<html>Bad gateway</html>", data[:-1]]
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        bodies.append(bytes(broken))
    for body in bodies:
        events = told(dialect, body)
        assert sum(isinstance(event, Stopped) for event in events) == 1
        assert isinstance(events[-1], Stopped)


def test_refusals_and_limits_are_told_apart() -> None:
    def reason(dialect: str, body: Mapping[str, Any]) -> tuple[str, str]:
        stopped = told(dialect, body)[-1]
        assert isinstance(stopped, Stopped)
        return stopped.reason, stopped.message.text

    declined = {"role": "assistant", "content": None, "refusal": "No."}
    chat = {"choices": [{"message": declined, "finish_reason": "stop"}]}
    assert reason("openai_chat", chat) == ("refused", "No.")
    refusal = [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]
    assert reason("openai_responses", {"status": "completed", "output": refusal}) == (
        "refused",
        "No.",
    )
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    assert reason("openai_responses", cut) == ("length", "")
    assert (
        reason("anthropic", {**ANTHROPIC, "content": [], "stop_reason": "refusal"})[0] == "refused"
    )
    assert reason("gemini", {"promptFeedback": {"blockReason": "OTHER"}})[0] == "refused"
    assert reason("bedrock", {**BEDROCK, "stopReason": "max_tokens"})[0] == "length"
    assert reason("ollama", {**OLLAMA, "done_reason": "length"})[0] == "length"


def test_gemini_s_stream_as_a_list_is_a_whole_reply() -> None:
    pieces = [
        {"candidates": [{"content": {"parts": [{"text": "a"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"}]},
    ]
    stopped = told("gemini", json.dumps(pieces).encode())[-1]
    assert isinstance(stopped, Stopped)
    assert (stopped.reason, stopped.message.parts) == ("end", (Text("ab"),))


PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-3.8-flash:generateContent",
    "bedrock": "/model/us.anthropic.claude-sonnet-5-5/converse",
    "ollama": "/api/chat",
}


@pytest.mark.parametrize("endpoint", PATHS)
def test_a_request_says_that_it_wants_its_reply_whole(endpoint: str) -> None:
    request = encode(CASES["plain"](), profile_for(endpoint), Options(stream=False))
    assert request.path == PATHS[endpoint]
    assert request.body.get("stream", False) is False
    assert "stream_options" not in request.body
    body = WHOLE[request.profile.dialect]
    assert isinstance(decoder_for(request).whole(body)[-1], Stopped)
    assert decoder_for(request).whole(body) != []


def test_nothing_comes_after_the_end() -> None:
    decoder = DIALECTS["ollama"].decoder()
    assert decoder.whole(OLLAMA) != []
    assert decoder.whole(OLLAMA) == decoder.feed(b"x") == decoder.close() == []
