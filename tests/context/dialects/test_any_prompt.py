"""Whatever a prompt holds, what is written from it is a request that its vendor accepts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sightline.context.dialects import Options, encode, endpoints, profile_for
from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.errors import InvalidInput
from support.vendor_rules import breaches

PROMPTS = 120
RECEIPT = Receipt(1, "", "counted", 0, 0, 0, 1, 0, "", ())
NAMES = (
    "a", "x" * 64, "x" * 65, "x" * 128, "x" * 129, "X" * 64, "mail.search", "mail_search", "ünï",
    "日本", "1st", "-a", "a b", "a/b", "__",
)  # fmt: skip
TEXTS = (
    "hi", "", " ", "\n\n", "☃ x", "</slop-state>", "a\u200bb", '{"a":1}', "👩‍👩‍👧", "\x01",
    "x" * 500,
)  # fmt: skip
FILES = (
    File("data:image/png;base64,aGk=", "image/png"),
    File("https://example.org/a.png", "image/png"),
    File("data:application/pdf;base64,aGk=", "application/pdf", "p.pdf"),
    File("s3://bucket/x.bin", "application/x-odd", "x.bin"),
    File("data:text/plain;base64,aGk=", "text/plain", "ünï/n.txt"),
)
RAWS: dict[str, Any] = {
    "anthropic": {"type": "thinking", "thinking": "t", "signature": "s"},
    "openai_responses": {"type": "reasoning", "id": "r", "summary": []},
    "bedrock": {"reasoningText": {"text": "t", "signature": "s"}},
    "openai_chat": {"field": "reasoning_content"},
    "ollama": {"field": "thinking"},
}
MODELS = [
    *((endpoint, "") for endpoint in endpoints()),
    ("bedrock", "meta.llama4-maverick"), ("bedrock", "us.amazon.nova-pro"),
    ("openai-chat", "gpt-4o"), ("anthropic", "claude-haiku-4-5"), ("llama.cpp", "gemma-3"),
    ("vllm", "mistral-small"), ("vllm", "Qwen/Qwen3-32B"),
]  # fmt: skip


class Author:
    """Writes prompts that a sane host would not."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.calls = 0

    def prompt(self) -> Prompt:
        names = self.chance.sample(NAMES, self.chance.randint(0, 6))
        tools = tuple({"name": name, "parameters": {"type": "object"}} for name in names)
        stored: list[Message] = []
        for _ in range(self.chance.randint(0, 7)):
            stored += self.said(names or ["gone"])
        tail = [Message("user", self.parts(Text, File)) for _ in range(self.chance.randint(0, 2))]
        return Prompt((*stored, *tail), len(stored), RECEIPT, tools)

    def said(self, names: list[str]) -> list[Message]:
        kind = self.chance.choice(("user", "user", "system", "assistant", "round", "round"))
        if kind == "round":
            return self.round(names)
        if kind == "assistant":
            return [Message("assistant", self.parts(Text, Reasoning, File))]
        return [Message(kind, self.parts(Text, File))]  # type: ignore[arg-type]  # a role

    def parts(self, *kinds: type) -> tuple[Part, ...]:
        return tuple(self.part(self.chance.choice(kinds)) for _ in range(self.chance.randint(0, 3)))

    def part(self, kind: type) -> Part:
        if kind is File:
            return self.chance.choice(FILES)
        if kind is Text:
            return Text(self.chance.choice(TEXTS))
        whose = self.chance.choice([*RAWS, None])
        return Reasoning(self.chance.choice(("t", "")), Raw(whose, RAWS[whose]) if whose else None)

    def round(self, names: list[str]) -> list[Message]:
        """Parallel calls; now and then one is never answered, or all are answered out of order."""
        calls = []
        for _ in range(self.chance.randint(1, 3)):
            self.calls += 1
            call_id = self.chance.choice(("c{}", "call {}", "ü☃{}", "x" * 80 + "{}"))
            arguments = self.chance.choice(({}, {"q": "☃"}, {"deep": {"a": [1, None]}}))
            calls.append(ToolCall(call_id.format(self.calls), self.chance.choice(names), arguments))
        results = [
            ToolResult(call.id, self.chance.choice(TEXTS), call.name, self.chance.random() < 0.3)
            for call in calls
            if self.chance.random() < 0.9
        ]
        self.chance.shuffle(results)
        asked = Message("assistant", (*self.parts(Text, Reasoning), *calls))
        return [asked, *(Message("tool", (result,)) for result in results)]


@pytest.mark.parametrize(("endpoint", "model"), MODELS)
def test_any_prompt_becomes_a_request_that_is_accepted(endpoint: str, model: str) -> None:
    author = Author(f"{endpoint} {model}")
    profile = profile_for(endpoint, model, {"cache.min_tokens": 0})
    empty = 0
    for _ in range(PROMPTS):
        prompt = author.prompt()
        for options in (Options(conversation="c"), Options(thinking="turn_append", repeat="brief")):
            try:
                request = encode(prompt, profile, options)
            except InvalidInput:
                empty += 1
            else:
                assert breaches(request) == [], prompt.messages
    assert empty < PROMPTS / 2


@pytest.mark.parametrize("endpoint", endpoints())
def test_a_prompt_that_says_nothing_is_refused_before_the_vendor_does(endpoint: str) -> None:
    nothing = Prompt((Message.of("user", ""), Message("assistant")), 2, RECEIPT)
    with pytest.raises(InvalidInput, match="no message that says anything"):
        encode(nothing, profile_for(endpoint))


@pytest.mark.parametrize("endpoint", endpoints())
def test_a_file_that_the_model_made_is_spoken_of(endpoint: str) -> None:
    said = [Message.of("user", "draw"), Message("assistant", (FILES[2],)), Message.of("user", "ok")]
    request = encode(Prompt(tuple(said), 3, RECEIPT), profile_for(endpoint))
    assert "[file p.pdf (application/pdf), not shown]" in request.data.decode()
    assert "file_as_text" in {note.code for note in request.notes}
