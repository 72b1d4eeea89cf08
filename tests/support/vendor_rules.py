"""What vendors refuse, beyond what their types say: blanks, orphans, roles out of turn.

`breaches` lists the rules that a request breaks; nothing for one that would be accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import botocore.loaders
import botocore.model
import botocore.validate
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
from google.genai import types as google
from ollama._types import ChatRequest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from sightline.context.dialects import Request
from support.vendor_types import faults

# What these endpoints take beside OpenAI's fields, by their own documentation.
OWN_FIELDS = {
    "openrouter": {"session_id", "cache_control", "reasoning"},
    "dashscope": {"cache_control", "reasoning_content"},
    "deepseek": {"reasoning_content"},
    "fireworks": {"reasoning_content"},
    "groq": {"reasoning"},
    "together": {"reasoning_content"},
    "vllm": {"reasoning_content"},
    "llama.cpp": {"reasoning_content"},
    "local": {"return_progress"},
    "xai": {"reasoning_content"},
}


def breaches(request: Request) -> list[str]:
    """List what this request's vendor would not accept."""
    found = list(RULES[request.profile.dialect](request))
    rule = request.profile.tools
    legal = re.compile(f"[{rule.first}][{rule.rest}]{{0,{rule.max_name - 1}}}")
    found += [f"name {name!r:.40}" for name in _names(request.body) if not legal.fullmatch(name)]
    return found


def without(value: Any, keys: set[str]) -> Any:
    """Leave some keys out of a JSON value, wherever they are."""
    if isinstance(value, dict):
        return {key: without(item, keys) for key, item in value.items() if key not in keys}
    return [without(item, keys) for item in value] if isinstance(value, list) else value


def _names(value: Any) -> Iterator[str]:
    """The names of tools and of the calls to them, however they are wrapped."""
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, dict):
        holder = value.keys() & {"function", "toolSpec", "toolUse", "functionCall"}
        for key in holder:
            if isinstance(value[key], dict):
                yield value[key]["name"]
        if value.get("type") in ("tool_use", "function_call") or "input_schema" in value:
            yield value["name"]
        for key, item in value.items():
            # What a model passed to a tool is no tool.
            if key not in ("input", "args", "arguments", "parameters") or isinstance(item, list):
                yield from _names(item)


def _chat(request: Request) -> Iterator[str]:
    own = OWN_FIELDS.get(request.profile.endpoint, set())
    yield from faults(without(request.body, own), CompletionCreateParamsStreaming)
    waiting: list[str] = []
    for message in request.body["messages"]:
        role, content = message["role"], message["content"]
        if role == "tool":
            if message["tool_call_id"] not in waiting:
                yield "a result that answers nothing"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield "a call without its result"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(waiting)) != len(waiting):
            yield "two calls with one id"
        texts = (
            [content] if isinstance(content, str) else [p.get("text", "x") for p in content or ()]
        )
        if not waiting and not any(text.strip() for text in texts):
            yield f"nothing said by {role}"
    if waiting:
        yield "a call without its result"


def _responses(request: Request) -> Iterator[str]:
    yield from faults(request.body, ResponseCreateParamsStreaming)
    waiting: list[str] = []
    for item in request.body["input"]:
        if item["type"] == "function_call":
            waiting.append(item["call_id"])
        elif item["type"] == "function_call_output":
            if item["call_id"] not in waiting:
                yield "a result that answers nothing"
            else:
                waiting.remove(item["call_id"])
        elif item["type"] == "message":
            if waiting and item["role"] != "assistant":
                yield "a call without its result"
            if not item["content"]:
                yield "nothing said"
    if waiting:
        yield "a call without its result"


def _blocks(
    messages: Sequence[Any], use: Callable[[Any], str], result: Callable[[Any], str]
) -> Any:
    """Rules of APIs with blocks: alternation, the user first, results at once and complete."""
    before: list[str] = []
    previous = "assistant"
    for message in messages:
        role, content = message["role"], message["content"]
        if role == previous:
            yield "one role twice" if before or role != "assistant" else "the assistant first"
        previous = role
        if not content:
            yield "nothing said"
        if any(not block.get("text", "x").strip() for block in content):
            yield "a blank text"
        answers = [answer for block in content if (answer := result(block))]
        if sorted(answers) != sorted(before):
            yield "calls and results do not match"
        if any(result(block) for block in content[len(answers) :]):
            yield "a result behind something else"
        before = [call for block in content if (call := use(block))]
    if before:
        yield "a call without its result"


def _anthropic(request: Request) -> Iterator[str]:
    yield from faults(request.body, MessageCreateParamsStreaming)
    yield from _blocks(
        request.body["messages"],
        lambda block: block["id"] if block["type"] == "tool_use" else "",
        lambda block: block["tool_use_id"] if block["type"] == "tool_result" else "",
    )


@cache
def converse() -> Any:
    """Amazon's own description of the request."""
    described = botocore.loaders.Loader().load_service_model("bedrock-runtime", "service-2")
    return botocore.model.ServiceModel(described).operation_model("ConverseStream").input_shape


def _bedrock(request: Request) -> Iterator[str]:
    # The SDK is called with the model beside the body; on the wire the path names it.
    named = {"modelId": "m", **request.body}
    report = botocore.validate.ParamValidator().validate(named, converse())
    if report.has_errors():
        yield report.generate_report()
    yield from _blocks(
        request.body["messages"],
        lambda block: block.get("toolUse", {}).get("toolUseId", ""),
        lambda block: block.get("toolResult", {}).get("toolUseId", ""),
    )
    for message in request.body["messages"]:
        kinds = {kind for block in message["content"] for kind in block}
        if "document" in kinds and "text" not in kinds:
            yield "a document without a word"
        for block in message["content"]:
            for said in block.get("toolResult", {}).get("content", ()):
                if not said.get("text", "x").strip():
                    yield "a blank result"


def _gemini(request: Request) -> Iterator[str]:
    contents = request.body["contents"]
    if contents and contents[0]["role"] != "user":
        yield "the model first"
    calls = 0
    for content in contents:
        google.Content.model_validate(content)
        parts = content["parts"]
        if not parts or any(not part.get("text", "x").strip() for part in parts):
            yield "a blank text"
        answers = sum("functionResponse" in part for part in parts)
        if answers != calls or (answers and answers != len(parts)):
            yield "calls and results do not match"
        calls = sum("functionCall" in part for part in parts)
    if calls:
        yield "a call without its result"


def _ollama(request: Request) -> Iterator[str]:
    ChatRequest.model_validate(request.body)
    for message in request.body["messages"]:
        said = message["content"].strip() or message.keys() & {"images", "thinking", "tool_calls"}
        if not said and message["role"] != "tool":
            yield "nothing said"


RULES: dict[str, Callable[[Request], Iterator[str]]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "bedrock": _bedrock,
    "gemini": _gemini,
    "ollama": _ollama,
}
