"""Rewrite every string of a message by one rule.

What a rule leaves as it is stays the same object, so that a message which nothing
concerns costs a look at its strings and no copy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sightline.context.messages.parts import File, Message, Part, Raw

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
            # Strings by what they say; a value that has not changed is itself.
            if new is not old and (not isinstance(old, str) or new != old):
                changed[field] = new
        return msgspec.structs.replace(part, **changed) if changed else part

    parts = tuple(map(rewritten, message.parts))
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else Message(message.role, parts)


def _is_picture(part: Part, field: str) -> bool:
    """Whether a field holds the bytes of a picture, which are no text to be searched or changed."""
    return isinstance(part, File) and field == "uri" and _PICTURE.fullmatch(part.uri) is not None


def map_json(
    value: Any, text: Callable[[str], str], named: Callable[[str, str], str] | None = None
) -> Any:
    """Rewrite every string of a JSON value, keys included; the same object if none changes.

    `named` rewrites the string of a field with the field's name in view. Nothing recurses,
    however deep the value nests.
    """
    changed = False

    def string(old: str, key: str | None = None) -> str:
        nonlocal changed
        new = text(old) if named is None or key is None else named(key, old)
        changed = changed or new != old
        return new

    def shallow(item: Any) -> Any:
        match item:
            case str():
                return string(item)
            case list() | tuple():
                return [string(own) if isinstance(own, str) else own for own in item]
            case dict():
                return {
                    string(key): string(own, key) if isinstance(own, str) else own
                    for key, own in item.items()
                }
            case _:
                return item

    made = shallow(value)
    todo = [made] if isinstance(made, dict | list) else []
    while todo:
        holder = todo.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, dict | list | tuple):
                holder[key] = shallow(item)
                todo.append(holder[key])
    return made if changed else value
