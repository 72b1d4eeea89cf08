"""Read what each vendor's strategy wrote: one parser from stored JSON to neutral parts.

`parse(strategy, data)` turns one message in a vendor's own JSON into a neutral
message: its text, its tool calls, its results. It is how foreign logs are
imported, and the only place that knows these shapes for reading; nothing sniffs
a format, the strategy is always named.

Vendors that do not give a call an id (Gemini) get one made of the name and its
place in the message, which is also what its answer gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sightline.context.parts import (
    File,
    Message,
    Part,
    Raw,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.errors import InvalidInput

__all__ = ["STRATEGIES", "parse"]

_Object = Mapping[str, Any]


def parse(strategy: str, data: object) -> Message:
    """Read one stored message of that strategy.

    Raise `InvalidInput` for a strategy nobody here knows and for JSON that is not
    a message of it.
    """
    reader = STRATEGIES.get(strategy)
    if reader is None:
        known = ", ".join(STRATEGIES)
        raise InvalidInput(f"no parser for the strategy {strategy!r}; there are {known}")
    if not isinstance(data, Mapping):
        raise InvalidInput(f"a message of {strategy} is an object, not {type(data).__name__}")
    try:
        return reader(data)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidInput(f"not a message of {strategy}: {error!r}") from error


def _openai(data: _Object) -> Message:
    role = _role(data["role"], {"developer": "system", "function": "tool"})
    content = data.get("content")
    if role == "tool":
        call_id = data.get("tool_call_id") or data["name"]
        return Message(role, (ToolResult(_str(call_id), _flat(content), data.get("name") or ""),))
    parts = _openai_content(content)
    for call in data.get("tool_calls") or ():
        function = call["function"]
        parts.append(ToolCall(_str(call["id"]), _str(function["name"]), _arguments(function)))
    return Message(role, tuple(parts))


def _openai_content(content: Any) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    parts: list[Part] = []
    for item in content:
        match item["type"]:
            case "text" | "input_text" | "output_text":
                parts.append(Text(_str(item["text"])))
            case "refusal":
                parts.append(Text(_str(item["refusal"])))
            case "image_url":
                parts.append(File(_str(item["image_url"]["url"]), "image/*"))
            case other:
                raise ValueError(f"content of type {other!r}")
    return parts


def _anthropic(data: _Object) -> Message:
    role = _role(data["role"], {})
    content = data["content"]
    if isinstance(content, str):
        return Message(role, (Text(content),))
    parts = tuple(_anthropic_block(block) for block in content)
    if parts and all(isinstance(part, ToolResult) for part in parts):
        role = "tool"
    return Message(role, parts)


def _anthropic_block(block: _Object) -> Part:
    match block["type"]:
        case "text":
            return Text(_str(block["text"]))
        case "tool_use":
            return ToolCall(_str(block["id"]), _str(block["name"]), dict(block["input"]))
        case "tool_result":
            return ToolResult(
                _str(block["tool_use_id"]),
                _flat(block.get("content")),
                is_error=bool(block.get("is_error", False)),
            )
        case "thinking":
            return Reasoning(_str(block["thinking"]), Raw("anthropic", dict(block)))
        case "redacted_thinking":
            return Reasoning("", Raw("anthropic", dict(block)))
        case "image" | "document":
            source = block["source"]
            uri = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
            return File(uri, source.get("media_type", "application/octet-stream"))
        case other:
            raise ValueError(f"block of type {other!r}")


def _gemini(data: _Object) -> Message:
    role = _role(data.get("role", "user"), {"model": "assistant", "function": "tool"})
    parts = tuple(_gemini_part(part, index) for index, part in enumerate(data["parts"]))
    if parts and all(isinstance(part, ToolResult) for part in parts):
        role = "tool"
    return Message(role, parts)


def _gemini_part(part: _Object, index: int) -> Part:
    signature = part.get("thoughtSignature")
    raw = Raw("gemini", dict(part)) if signature else None
    if call := part.get("functionCall"):
        call_id = call.get("id") or f"{call['name']}:{index}"
        return ToolCall(_str(call_id), _str(call["name"]), dict(call.get("args") or {}), raw)
    if answer := part.get("functionResponse"):
        call_id = answer.get("id") or f"{answer['name']}:{index}"
        content = msgspec.json.encode(answer.get("response", {})).decode()
        return ToolResult(_str(call_id), content, _str(answer["name"]))
    if inline := part.get("inlineData"):
        return File(f"data:{inline['mimeType']};base64,{inline['data']}", _str(inline["mimeType"]))
    if part.get("thought"):
        return Reasoning(_str(part["text"]), raw)
    return Text(_str(part["text"]), raw)


def _gemini_gca(data: _Object) -> Message:
    """Read the code-assist variant: the same content, sometimes inside a request or response."""
    inner = data
    for key in ("response", "request"):
        inner = inner.get(key, inner)
    if candidates := inner.get("candidates"):
        inner = candidates[0]["content"]
    elif contents := inner.get("contents"):
        inner = contents[-1]
    return _gemini(inner)


STRATEGIES: Final[dict[str, Callable[[_Object], Message]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "gemini_gca": _gemini_gca,
}

_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _role(name: Any, aliases: Mapping[str, str]) -> Role:
    return _ROLES[aliases.get(name, name)]


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def _arguments(function: _Object) -> dict[str, Any]:
    """Read the arguments, which OpenAI sends as JSON text; what is no object stays as text."""
    given = function.get("arguments") or "{}"
    value = given
    if isinstance(given, str):
        try:
            value = msgspec.json.decode(given)
        except msgspec.DecodeError:
            return {"arguments": given}
    return dict(value) if isinstance(value, Mapping) else {"arguments": given}


def _flat(content: Any) -> str:
    """Join a result's text blocks; a result that is no text stays JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(
        block["text"] if block.get("type") == "text" else msgspec.json.encode(block).decode()
        for block in content
    )
