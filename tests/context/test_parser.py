"""One parser reads tool calls and texts of every stored strategy."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.context.parser import STRATEGIES, parse
from sightline.context.parts import (
    File,
    Message,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.errors import InvalidInput

CALL = ToolCall("c1", "ls", {"path": "/"})


def openai_call(arguments: Any) -> dict[str, Any]:
    function = {"name": "ls", "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": "c1", "function": function}]}


SIGNED = {"text": "hm", "thought": True, "thoughtSignature": "xyz"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "xyz"}
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
            Message("assistant", (Reasoning("hm", Raw("gemini", SIGNED)), ToolCall("ls:1", "ls"))),
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


def test_an_unknown_strategy_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'abacus'; there are openai, anthropic"):
        parse("abacus", {})
