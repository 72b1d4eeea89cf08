"""Messages and inputs as callers write them, read into neutral ones.

A message is `{"role", "parts"}` with neutral parts, or what the SDKs of chat APIs take and
return: `{"role", "content", "tool_calls"?, "tool_call_id"?}`, its content a text or a list of
text and image parts. Raises `InvalidInput` with what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from sightline.context.messages.parts import (
    UNREADABLE,
    File,
    Input,
    Message,
    Part,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.errors import InvalidInput

_T = TypeVar("_T")
_KEYS: Final = ("content", "name", "refusal", "role", "tool_call_id", "tool_calls")
_EMPTY: Final[tuple[object, ...]] = (None, [], {})


def message_given(value: object) -> Message:
    """Read one message, in either form."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{value!r:.60} is not a message")
    given = dict(value)
    if "parts" in given:
        if given.pop("content", None) is not None:
            raise InvalidInput("a message has a content or parts, not both")
        return _converted(given, Message, "a message")
    # OpenAI, Chat Completions: developer is what system was called before.
    role = "system" if given.get("role") == "developer" else given.get("role")
    # What SDKs return has every field of its type; of those that are empty nothing is lost.
    for key in sorted(key for key in given.keys() - set(_KEYS) if given[key] not in _EMPTY):
        raise InvalidInput(f"not a message: no {key!r}, but parts, or {', '.join(_KEYS)}")
    if not given.keys() & {"content", "tool_calls"}:
        raise InvalidInput("not a message: it has neither content nor parts")
    try:
        parts = msgspec.to_builtins(list(_parts(given)))
    except RecursionError as error:
        raise InvalidInput("not a message: it nests too deeply") from error
    return _converted({"role": role, "parts": parts}, Message, "a message")


def input_given(value: Mapping[str, Any]) -> Input:
    """Read `{"text", "files"?}`; `attachments` is another word for the files."""
    given = dict(value)
    if "attachments" in given:
        if "files" in given:
            raise InvalidInput("an input has files or attachments, not both")
        given["files"] = given.pop("attachments")
    return _converted(given, Input, "an input")


def _converted(given: Mapping[str, Any], kind: type[_T], called: str) -> _T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"not {called}: {error}") from error


def _parts(given: Mapping[str, Any]) -> Iterator[Part]:
    content = list(_content(given.get("content")))
    if given.get("role") == "tool":
        call, name = given.get("tool_call_id"), given.get("name") or ""
        if not isinstance(call, str) or not call:
            raise InvalidInput("a tool's message needs the tool_call_id that it answers")
        if not all(isinstance(part, Text) for part in content):
            raise InvalidInput("a tool's message has text and nothing else")
        yield ToolResult(call, "\n".join(part.text for part in content), name)  # type: ignore[union-attr]
        return
    yield from content
    if isinstance(refusal := given.get("refusal"), str) and refusal:
        yield Text(refusal)
    calls = given.get("tool_calls") or ()
    if not isinstance(calls, list | tuple):
        raise InvalidInput("tool_calls is not a list")
    yield from map(_call, calls)


def _content(content: object) -> Iterator[Part]:
    if content is None or content == "":
        return
    if isinstance(content, str):
        yield Text(content)
        return
    if not isinstance(content, list | tuple):
        raise InvalidInput("a message has a content, which is a text or a list of parts, or parts")
    for item in content:
        match item:
            case {"type": "text", "text": str(text)}:
                yield Text(text)
            case {"type": "refusal", "refusal": str(text)}:
                yield Text(text)
            case {"type": "image_url", "image_url": {"url": str(uri)}}:
                yield File(uri, _mime(uri, "image/*"))
            case {"type": "file", "file": {"file_data": str(uri), **more}}:
                name = str(more.get("filename") or "")
                yield File(uri, _mime(uri, "application/octet-stream"), name)
            case _:
                raise InvalidInput(f"{item!r:.60} is no part of a message's content")


def _mime(uri: str, otherwise: str) -> str:
    if not uri.startswith("data:"):
        return otherwise
    return uri.removeprefix("data:").partition(",")[0].partition(";")[0] or otherwise


def _call(call: object) -> ToolCall:
    match call:
        case {"id": str(call_id), "function": {"name": str(name), **more}}:
            return ToolCall(call_id, name, arguments_given(more.get("arguments")))
    raise InvalidInput(f"{call!r:.60} is no tool call with an id and a function's name")


def arguments_given(given: object) -> dict[str, Any]:
    """Read a call's arguments, an object or its JSON; what is neither stays as it was said."""
    value = given or {}
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return {UNREADABLE: given}
    return dict(value) if isinstance(value, Mapping) else {UNREADABLE: str(given)}
