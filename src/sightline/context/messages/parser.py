"""Read what each vendor's strategy wrote: one parser from stored JSON to neutral parts.

`parse(strategy, data)` turns one message in a vendor's own JSON into a neutral
message: its text, its tool calls, its results. It is how foreign logs are
imported, and the only place that knows these shapes for reading; nothing sniffs
a format, the strategy is always named. Every dialect's name is a strategy, since
hosts store by it; `openai` and `gemini_gca` are what others call theirs.

A call without an id (Gemini, Ollama) gets one made of its name and its place among
the message's calls of that name, which is also what its answer gets. In Ollama's
form every answer is a message of its own and says no place: it gets the first, and
who reads several messages leads it to the call that waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from sightline.context.messages.parts import (
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

__all__ = ["STRATEGIES", "made_id", "parse"]

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
        message = reader(data)
        # Whatever stood in an odd place: what leaves here is a legal message.
        return msgspec.convert(msgspec.to_builtins(message), Message)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"not a message of {strategy}: {error!r}") from error


def made_id(name: str, place: int) -> str:
    """Name a call, or an answer, whose vendor gave it no id."""
    return f"{name}:{place}"


def _openai(data: _Object) -> Message:
    role = _role(data["role"], {"developer": "system", "function": "tool"})
    content = data.get("content")
    if role == "tool":
        call_id = data.get("tool_call_id") or data["name"]
        return Message(role, (ToolResult(_str(call_id), _flat(content), data.get("name") or ""),))
    thoughts = [
        Reasoning(_str(data[field]), Raw("openai_chat", {"field": field}))
        for field in ("reasoning_content", "reasoning")
        if isinstance(data.get(field), str) and data[field]
    ]
    parts = [*thoughts[:1], *_openai_content(content)]
    for call in data.get("tool_calls") or ():
        function = call["function"]
        parts.append(ToolCall(_str(call["id"]), _str(function["name"]), _arguments(function)))
    return Message(role, tuple(parts))


def _openai_content(content: Any, raw: Raw | None = None) -> list[Part]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content, raw)]
    return [_openai_piece(item, raw) for item in content]


def _openai_piece(item: _Object, raw: Raw | None) -> Part:
    match item["type"]:
        case "text" | "input_text" | "output_text":
            return Text(_str(item["text"]), raw)
        case "refusal":
            return Text(_str(item["refusal"]), raw)
        case "image_url":
            return File(_str(item["image_url"]["url"]), "image/*")
        case "input_image":
            return File(_str(item["image_url"]), "image/*")
        case "file":
            return _openai_file(item["file"])
        case "input_file":
            return _openai_file(item)
        case other:
            raise ValueError(f"content of type {other!r}")


def _openai_file(item: _Object) -> File:
    uri = _str(item.get("file_data") or item["file_url"])
    mime = uri.removeprefix("data:").partition(";")[0] if uri.startswith("data:") else ""
    return File(uri, mime or _UNKNOWN, _str(item.get("filename") or ""))


def _openai_responses(data: _Object) -> Message:
    """Read one item; or a whole response, whose items are one message of the assistant."""
    if "type" in data or "role" in data:
        return _openai_item(data)
    items = [_openai_item(item) for item in data["output"]]
    return Message("assistant", tuple(part for item in items for part in item.parts))


def _openai_item(item: _Object) -> Message:
    match item.get("type", "message"):
        case "message":
            phase = item.get("phase")
            raw = Raw("openai_responses", {"phase": phase}) if phase else None
            role = _role(item["role"], {"developer": "system"})
            return Message(role, tuple(_openai_content(item["content"], raw)))
        case "function_call":
            call = ToolCall(_str(item["call_id"]), _str(item["name"]), _arguments(item))
            return Message("assistant", (call,))
        case "function_call_output":
            return Message("tool", (ToolResult(_str(item["call_id"]), _flat(item["output"])),))
        case "reasoning":
            pieces = (*(item.get("summary") or ()), *(item.get("content") or ()))
            text = "".join(_str(piece["text"]) for piece in pieces)
            kept = {key: item[key] for key in _OPENAI_REASONING if item.get(key) is not None}
            return Message("assistant", (Reasoning(text, Raw("openai_responses", kept)),))
        case other:
            raise ValueError(f"an item of type {other!r}")


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
            return File(uri, source.get("media_type", _UNKNOWN))
        case other:
            raise ValueError(f"block of type {other!r}")


def _gemini(data: _Object) -> Message:
    role = _role(data.get("role", "user"), {"model": "assistant", "function": "tool"})
    seen: Counter[str] = Counter()
    parts = tuple(_gemini_part(part, seen) for part in data["parts"])
    if parts and all(isinstance(part, ToolResult) for part in parts):
        role = "tool"
    return Message(role, parts)


def _gemini_part(part: _Object, seen: Counter[str]) -> Part:
    signature = part.get("thoughtSignature")
    raw = Raw("gemini", dict(part)) if signature else None
    if call := part.get("functionCall"):
        call_id = _call_id(call.get("id"), call["name"], seen)
        return ToolCall(call_id, _str(call["name"]), dict(call.get("args") or {}), raw)
    if answer := part.get("functionResponse"):
        call_id = _call_id(answer.get("id"), answer["name"], seen)
        content, is_error = _gemini_answer(answer.get("response", {}))
        return ToolResult(call_id, content, _str(answer["name"]), is_error)
    if inline := part.get("inlineData"):
        return File(f"data:{inline['mimeType']};base64,{inline['data']}", _str(inline["mimeType"]))
    if stored := part.get("fileData"):
        return File(_str(stored["fileUri"]), _str(stored.get("mimeType") or _UNKNOWN))
    if part.get("thought"):
        return Reasoning(_str(part["text"]), raw)
    return Text(_str(part["text"]), raw)


def _gemini_answer(response: Any) -> tuple[str, bool]:
    """Read an answer of one text under the key that Google names for it; others stay JSON."""
    match response:
        case {"output": str(text), **rest} if not rest:
            return text, False
        case {"error": str(text), **rest} if not rest:
            return text, True
    return msgspec.json.encode(response).decode(), False


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


def _bedrock(data: _Object) -> Message:
    """Read a message, or the response that holds one."""
    if "output" in data:
        data = data["output"]["message"]
    role = _role(data["role"], {})
    parts = tuple(part for block in data["content"] for part in _bedrock_block(block))
    if parts and all(isinstance(part, ToolResult) for part in parts):
        role = "tool"
    return Message(role, parts)


def _bedrock_block(block: _Object) -> Iterator[Part]:
    [(kind, value)] = block.items()
    match kind:
        case "text":
            yield Text(_str(value))
        case "toolUse":
            use = dict(value.get("input") or {})
            yield ToolCall(_str(value["toolUseId"]), _str(value["name"]), use)
        case "toolResult":
            content = "\n".join(_bedrock_answer(piece) for piece in value["content"])
            is_error = value.get("status") == "error"
            yield ToolResult(_str(value["toolUseId"]), content, is_error=is_error)
        case "reasoningContent":
            thought = value.get("reasoningText") or {}
            # Without its signature a thought is not accepted when it comes back.
            signed = "redactedContent" in value or "signature" in thought
            raw = Raw("bedrock", dict(value)) if signed else None
            yield Reasoning(_str(thought.get("text", "")), raw)
        case "image":
            yield File(_bedrock_uri(value, mime := f"image/{value['format']}"), mime)
        case "document":
            mime = _BEDROCK_DOCUMENTS.get(value["format"], _UNKNOWN)
            yield File(_bedrock_uri(value, mime), mime, _str(value.get("name") or ""))
        case "cachePoint":
            pass  # a mark for the vendor; nothing is said
        case other:
            raise ValueError(f"block of type {other!r}")


def _bedrock_uri(value: _Object, mime: str) -> str:
    source = value["source"]
    if "s3Location" in source:
        return _str(source["s3Location"]["uri"])
    return f"data:{mime};base64,{_str(source['bytes'])}"


def _bedrock_answer(piece: _Object) -> str:
    if "text" in piece:
        return _str(piece["text"])
    return msgspec.json.encode(piece.get("json", piece)).decode()


def _ollama(data: _Object) -> Message:
    """Read a message, or the response that holds one."""
    data = data.get("message", data)
    role = _role(data["role"], {})
    text = _str(data.get("content") or "")
    seen: Counter[str] = Counter()
    if role == "tool":
        name = data.get("tool_name") or data["name"]
        call_id = _call_id(data.get("tool_call_id"), name, seen)
        return Message(role, (ToolResult(call_id, text, _str(name)),))
    parts: list[Part] = []
    if thought := data.get("thinking"):
        parts.append(Reasoning(_str(thought), Raw("ollama", {"field": "thinking"})))
    if text:
        parts.append(Text(text))
    parts += [_ollama_image(_str(image)) for image in data.get("images") or ()]
    for call in data.get("tool_calls") or ():
        function = call["function"]
        call_id = _call_id(call.get("id"), function["name"], seen)
        parts.append(ToolCall(call_id, _str(function["name"]), _arguments(function)))
    return Message(role, tuple(parts))


def _ollama_image(data: str) -> File:
    """Name the kind of an image that is nothing but its base64, by how all of a kind begin."""
    kinds = (mime for start, mime in _IMAGES.items() if data.startswith(start))
    mime = next(kinds, _UNKNOWN)
    return File(f"data:{mime};base64,{data}", mime)


STRATEGIES: Final[dict[str, Callable[[_Object], Message]]] = {
    "openai": _openai,
    "openai_chat": _openai,
    "openai_responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "gemini_gca": _gemini_gca,
    "bedrock": _bedrock,
    "ollama": _ollama,
}

_TEXTS: Final = ("text", "input_text", "output_text")
_UNKNOWN: Final = "application/octet-stream"
_OPENAI_REASONING: Final = ("type", "id", "summary", "content", "encrypted_content")
_BEDROCK_DOCUMENTS: Final = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
_IMAGES: Final = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}
_ROLES: Final[dict[str, Role]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def _role(name: Any, aliases: Mapping[str, str]) -> Role:
    return _ROLES[aliases.get(name, name)]


def _call_id(given: Any, name: Any, seen: Counter[str]) -> str:
    """Return the vendor's id of a call, or one made of its name and place."""
    place = seen[_str(name)]
    seen[name] += 1
    return _str(given) if given else made_id(name, place)


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
        block["text"] if block.get("type") in _TEXTS else msgspec.json.encode(block).decode()
        for block in content
    )
