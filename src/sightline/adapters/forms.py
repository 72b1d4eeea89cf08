"""A framework's own form of a message, kept in a ledger beside what the message says.

    form_of(with_form(message, form, framework), framework) == form

for every JSON value that a ledger keeps as it is. The form is the raw data of the message's
first part; a long text that the message has is not in it a second time, but named by its part.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.messages import parts
from sightline.context.messages.gate import check_json, guarded, guarded_json, storable_json
from sightline.errors import NotStorable

_Path: TypeAlias = tuple[str | int, ...]
_LONG: Final = 60  # a shorter text is shorter than its path


def with_form(message: parts.Message, form: Any, framework: str) -> parts.Message:
    """Put a form on a message; both without context blocks, and storable."""
    message = guarded(message)
    first, *rest = message.parts or (parts.Reasoning(""),)
    texts = {
        text: number
        for number, part in enumerate((first, *rest))
        if len(text := _text(part)) > _LONG
    }
    form = guarded_json(form)
    repeated = [(texts[text], path) for text, path in _strings(form) if text in texts]
    data: dict[str, Any] = {"form": form}
    if repeated and repeated[0][1]:
        data = {"form": deepcopy(form), "texts": [[number, *path] for number, path in repeated]}
        for _, path in repeated:
            _put(data["form"], path, None)
    first = msgspec.structs.replace(first, raw=parts.Raw(framework, data))
    return parts.Message(message.role, (first, *rest))


def form_of(message: parts.Message, framework: str) -> Any:
    """Read the form of a message; None if it has none of this framework's."""
    data = _data(message, framework)
    if data is None:
        return None
    form = deepcopy(data["form"])
    for number, *path in data.get("texts", ()):
        _put(form, tuple(path), _text(message.parts[number]))
    return form


def is_keepable(form: Any) -> bool:
    """Tell whether a ledger keeps a form as it is."""
    try:
        check_json(storable_json(form), "a message")
    except (NotStorable, TypeError):
        return False
    return True


def outline(message: parts.Message, framework: str) -> Any:
    """Look at a form without its long texts; None if there is none. It must not be changed."""
    data = _data(message, framework)
    return None if data is None else data["form"]


def _data(message: parts.Message, framework: str) -> dict[str, Any] | None:
    raw = message.parts[0].raw if message.parts else None
    return None if raw is None or raw.strategy != framework else raw.data


def _text(part: parts.Part) -> str:
    match part:
        case parts.Text() | parts.Reasoning():
            return part.text
        case parts.ToolResult():
            return part.content
        case parts.File():
            return part.uri
        case parts.ToolCall():
            return ""


def _strings(value: Any, path: _Path = ()) -> Iterator[tuple[str, _Path]]:
    if isinstance(value, str):
        yield value, path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _strings(item, (*path, key))


def _put(holder: Any, path: _Path, text: str | None) -> None:
    *steps, last = path
    for step in steps:
        holder = holder[step]
    holder[last] = text
