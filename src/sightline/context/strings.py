"""Rewrite every string of a message by one rule.

What a rule leaves as it is stays the same object, so that a message which nothing
concerns costs a look at its strings and no copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from sightline.context.parts import Message, Part, Raw

__all__ = ["map_json", "map_strings"]


def map_strings(
    message: Message,
    *,
    text: Callable[[str], str],
    value: Callable[[Any], Any],
    raw: Callable[[Raw], Raw | None],
) -> Message:
    """Rewrite texts, ids and names by `text`, arguments by `value`, vendors' forms by `raw`."""

    def rewritten(part: Part) -> Part:
        changed: dict[str, Any] = {}
        for field in part.__struct_fields__:
            old = getattr(part, field)
            new: Any = old
            if isinstance(old, str):
                new = text(old)
            elif isinstance(old, Raw):
                new = raw(old)
            elif isinstance(old, dict):
                new = value(old)
            if new is not old and new != old:
                changed[field] = new
        return msgspec.structs.replace(part, **changed) if changed else part

    parts = tuple(map(rewritten, message.parts))
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else Message(message.role, parts)


def map_json(value: Any, text: Callable[[str], str]) -> Any:
    """Rewrite every string of a JSON value, keys included."""
    match value:
        case str():
            return text(value)
        case list():
            return [map_json(item, text) for item in value]
        case dict():
            return {text(key): map_json(item, text) for key, item in value.items()}
        case _:
            return value
