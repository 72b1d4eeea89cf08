"""Rewrite every string of a message by one rule.

What a rule leaves as it is stays the same object, so that a message which nothing
concerns costs a look at its strings and no copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sightline.context.parts import File, Message, Part, Raw

__all__ = ["map_json", "map_strings"]

_PICTURE: Final = re.compile(r"data:image/[a-z]{1,20};base64,[A-Za-z0-9+/]*={0,2}")


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
                new = old if _is_picture(part, field) else text(old)
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


def _is_picture(part: Part, field: str) -> bool:
    """Whether a field holds the bytes of a picture, which are no text to be searched or changed."""
    return isinstance(part, File) and field == "uri" and _PICTURE.fullmatch(part.uri) is not None


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
