"""One parser reads tool calls and texts of every stored strategy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.context.dialects import DIALECTS, STRATEGIES, encode, parse, profile_for
from sightline.context.messages.parts import (
    File,
    Message,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.errors import InvalidInput

CALL = ToolCall("c1", "ls", {"path": "/"})


def openai_call(arguments: Any) -> dict[str, Any]:
    function = {"name": "ls", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "c1", "function": function}]}


SIGNED = {"text": "hm", "thought": True, "thoughtSignature": "xyz"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "xyz"}
SEALED = {
    "type": "reasoning",
    "id": "r1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "xyz",
}
GCA = {"role": "model", "parts": [{"text": "hi"}]}


@pytest.mark.parametrize(
    ("strategy", "data", "message"),
    [
        ("openai", {"role": "user", "content": "hi"}, Message.of("user", "hi")),
        ("openai", {"role": "developer", "content": "be good"}, Message.of("system", "be good")),
        ("openai", {"role": "assistant", "content": None}, Message("assistant")),
        ("openai", openai_call('{"path":"/"}'), Message("assistant", (CALL,))),
        ("openai", openai_call({"path": "/"}), Message("assistant", (CALL,))),
        (
            "openai",
            openai_call("{broken"),
            Message("assistant", (ToolCall("c1", "ls", {"arguments": "{broken"}),)),
        ),
        (
            "openai",
            openai_call("[1]"),
            Message("assistant", (ToolCall("c1", "ls", {"arguments": "[1]"}),)),
        ),
        (
            "openai",
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
            Message("tool", (ToolResult("c1", "a"),)),
        ),
        (
            "openai",
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}},
                    {"type": "refusal", "refusal": "no"},
                ],
            },
            Message("user", (Text("see"), File("https://e.org/a.png", "image/*"), Text("no"))),
        ),
        (
            "openai_chat",
            {**openai_call("{}"), "content": "ok", "reasoning_content": "hm"},
            Message(
                "assistant",
                (
                    Reasoning("hm", Raw("openai_chat", {"field": "reasoning_content"})),
                    Text("ok"),
                    ToolCall("c1", "ls"),
                ),
            ),
        ),
        (
            "openai_chat",
            {
                "role": "user",
                "content": [
                    {
                        "type": "file",
                        "file": {
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,AA==",
                        },
                    }
                ],
            },
            Message(
                "user", (File("data:application/pdf;base64,AA==", "application/pdf", "a.pdf"),)
            ),
        ),
        (
            "openai_responses",
            {"role": "developer", "content": "be good"},
            Message.of("system", "be good"),
        ),
        (
            "openai_responses",
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": "https://e.org/a.png", "detail": "auto"},
                    {"type": "input_file", "file_url": "https://e.org/a"},
                ],
            },
            Message(
                "user",
                (
                    Text("see"),
                    File("https://e.org/a.png", "image/*"),
                    File("https://e.org/a", "application/octet-stream"),
                ),
            ),
        ),
        (
            "openai_responses",
            {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path":"/"}'},
            Message("assistant", (CALL,)),
        ),
        (
            "openai_responses",
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_text", "text": "a"}],
            },
            Message("tool", (ToolResult("c1", "a"),)),
        ),
        (
            "openai_responses",
            {
                "object": "response",
                "output": [
                    {**SEALED, "status": None},
                    {
                        "type": "message",
                        "role": "assistant",
                        "phase": "commentary",
                        "content": [{"type": "output_text", "text": "ok", "annotations": []}],
                    },
                    {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
                ],
            },
            Message(
                "assistant",
                (
                    Reasoning("hm", Raw("openai_responses", SEALED)),
                    Text("ok", Raw("openai_responses", {"phase": "commentary"})),
                    ToolCall("c1", "ls"),
                ),
            ),
        ),
        ("anthropic", {"role": "user", "content": "hi"}, Message.of("user", "hi")),
        (
            "anthropic",
            {
                "role": "assistant",
                "content": [
                    THINKING,
                    {"type": "redacted_thinking", "data": "zzz"},
                    {"type": "text", "text": "ok"},
                    {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}},
                ],
            },
            Message(
                "assistant",
                (
                    Reasoning("hm", Raw("anthropic", THINKING)),
                    Reasoning("", Raw("anthropic", {"type": "redacted_thinking", "data": "zzz"})),
                    Text("ok"),
                    CALL,
                ),
            ),
        ),
        (
            "anthropic",
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [
                            {"type": "text", "text": "a"},
                            {"type": "image", "source": {}},
                        ],
                        "is_error": True,
                    }
                ],
            },
            Message("tool", (ToolResult("c1", 'a\n{"type":"image","source":{}}', is_error=True),)),
        ),
        (
            "anthropic",
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {"media_type": "image/png", "data": "AA=="},
                    }
                ],
            },
            Message("user", (File("data:image/png;base64,AA==", "image/png"),)),
        ),
        (
            "gemini",
            {"role": "model", "parts": [SIGNED, {"functionCall": {"name": "ls", "args": {}}}]},
            Message("assistant", (Reasoning("hm", Raw("gemini", SIGNED)), ToolCall("ls:0", "ls"))),
        ),
        (
            "gemini",
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "ls", "response": {"out": "a"}}}],
            },
            Message("tool", (ToolResult("ls:0", '{"out":"a"}', "ls"),)),
        ),
        (
            "gemini",
            {"parts": [{"text": "see"}, {"inlineData": {"mimeType": "image/png", "data": "AA"}}]},
            Message("user", (Text("see"), File("data:image/png;base64,AA", "image/png"))),
        ),
        (
            "gemini",
            {
                "parts": [
                    {"functionResponse": {"name": "ls", "response": {"output": "a"}}},
                    {"functionResponse": {"name": "ls", "response": {"error": "no"}}},
                ]
            },
            Message("tool", (ToolResult("ls:0", "a", "ls"), ToolResult("ls:1", "no", "ls", True))),
        ),
        (
            "gemini",
            {"parts": [{"fileData": {"mimeType": "image/png", "fileUri": "gs://b/a"}}]},
            Message("user", (File("gs://b/a", "image/png"),)),
        ),
        (
            "bedrock",
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "xyz"}}},
                    {"reasoningContent": {"redactedContent": "zzz"}},
                    {"reasoningContent": {"reasoningText": {"text": "unsigned"}}},
                    {"text": "ok"},
                    {"toolUse": {"toolUseId": "c1", "name": "ls", "input": {"path": "/"}}},
                    {"cachePoint": {"type": "default"}},
                ],
            },
            Message(
                "assistant",
                (
                    Reasoning(
                        "hm", Raw("bedrock", {"reasoningText": {"text": "hm", "signature": "xyz"}})
                    ),
                    Reasoning("", Raw("bedrock", {"redactedContent": "zzz"})),
                    Reasoning("unsigned"),
                    Text("ok"),
                    CALL,
                ),
            ),
        ),
        (
            "bedrock",
            {
                "role": "user",
                "content": [
                    {
                        "toolResult": {
                            "toolUseId": "c1",
                            "content": [{"text": "a"}, {"json": {"n": 1}}],
                            "status": "error",
                        }
                    }
                ],
            },
            Message("tool", (ToolResult("c1", 'a\n{"n":1}', is_error=True),)),
        ),
        (
            "bedrock",
            {
                "role": "user",
                "content": [
                    {"image": {"format": "png", "source": {"bytes": "AA=="}}},
                    {
                        "document": {
                            "format": "pdf",
                            "name": "a",
                            "source": {"s3Location": {"uri": "s3://b/a"}},
                        }
                    },
                ],
            },
            Message(
                "user",
                (
                    File("data:image/png;base64,AA==", "image/png"),
                    File("s3://b/a", "application/pdf", "a"),
                ),
            ),
        ),
        (
            "bedrock",
            {"output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}}},
            Message.of("assistant", "hi"),
        ),
        (
            "ollama",
            {
                "message": {
                    "role": "assistant",
                    "thinking": "hm",
                    "content": "ok",
                    "tool_calls": [
                        {"function": {"name": "ls", "arguments": {"path": "/"}}},
                        {"function": {"name": "cat", "arguments": {}}},
                        {"function": {"name": "ls"}},
                    ],
                }
            },
            Message(
                "assistant",
                (
                    Reasoning("hm", Raw("ollama", {"field": "thinking"})),
                    Text("ok"),
                    ToolCall("ls:0", "ls", {"path": "/"}),
                    ToolCall("cat:0", "cat"),
                    ToolCall("ls:1", "ls"),
                ),
            ),
        ),
        (
            "ollama",
            {"role": "tool", "tool_name": "ls", "content": "a"},
            Message("tool", (ToolResult("ls:0", "a", "ls"),)),
        ),
        (
            "ollama",
            {"role": "user", "content": "see", "images": ["iVBORw0KGgoAA", "AA"]},
            Message(
                "user",
                (
                    Text("see"),
                    File("data:image/png;base64,iVBORw0KGgoAA", "image/png"),
                    File("data:application/octet-stream;base64,AA", "application/octet-stream"),
                ),
            ),
        ),
        ("gemini_gca", GCA, Message.of("assistant", "hi")),
        (
            "gemini_gca",
            {"response": {"candidates": [{"content": GCA}]}},
            Message.of("assistant", "hi"),
        ),
        ("gemini_gca", {"request": {"contents": [GCA]}}, Message.of("assistant", "hi")),
    ],
)
def test_a_vendors_message_is_read(strategy: str, data: Any, message: Message) -> None:
    assert parse(strategy, data) == message


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "text",
        {},
        {"role": "god", "content": "x", "parts": []},
        {"role": "user", "content": 7, "parts": 7},
        {"role": "user", "content": [{"type": "spell"}], "parts": [{}]},
        {"role": "user", "content": [{"type": "text", "text": 7}], "parts": [{"text": 7}]},
    ],
)
def test_what_is_no_message_is_refused(strategy: str, data: Any) -> None:
    with pytest.raises(InvalidInput):
        parse(strategy, data)


def test_whatever_a_host_stores_by_its_dialect_can_be_read() -> None:
    assert set(DIALECTS) <= set(STRATEGIES)


texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
arguments = st.dictionaries(
    texts, st.integers() | st.booleans() | texts | st.lists(texts), max_size=3
)
calls = st.lists(st.tuples(st.sampled_from(["ls", "cat"]), arguments, texts), max_size=3)
ENDPOINTS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock", "ollama"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@settings(deadline=None, max_examples=30)
@given(st.lists(texts, max_size=2), calls)
def test_what_a_dialect_writes_of_a_round_is_read_back(
    endpoint: str, said: list[str], rounds: list[tuple[str, dict[str, Any], str]]
) -> None:
    made = [ToolCall(f"c{n}", name, given) for n, (name, given, _) in enumerate(rounds)]
    answers = [ToolResult(f"c{n}", f"={told}", name) for n, (name, _, told) in enumerate(rounds)]
    messages = (
        Message.of("user", "q"),
        Message("assistant", (*map(Text, said), *made)),
        Message("tool", tuple(answers)),
    )
    receipt = Receipt(1, "", "counted", 0, 0, 0, 1, 0, "", ())
    request = encode(Prompt(messages, 3, receipt), profile_for(endpoint, ""))
    *_, wire = request.body.values()
    read = [parse(request.profile.dialect, message) for message in wire]
    parts = [part for message in read if message.role == "assistant" for part in message.parts]
    texts_read = [part.text for part in parts if isinstance(part, Text)]
    calls_read = [part for part in parts if isinstance(part, ToolCall)]
    answers_read = [answer for message in read for answer in message.tool_results]
    if any(text.strip() for text in said):
        assert "\n\n".join(texts_read) == "\n\n".join(text for text in said if text.strip())
    assert [(c.name, c.arguments) for c in calls_read] == [(c.name, c.arguments) for c in made]
    assert [a.content for a in answers_read] == [a.content for a in answers]
    if endpoint != "ollama":  # whose answers say no more than the tool's name
        assert [a.call_id for a in answers_read] == [c.id for c in calls_read]


def test_an_unknown_strategy_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'abacus'; there are openai, openai_chat"):
        parse("abacus", {})
