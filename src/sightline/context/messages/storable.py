"""One rule for what can be stored: exactly, or not at all.

What would come back different is refused with the place that is wrong, and
nothing is stored: a field of another type than its part declares, NUL characters
(most SQLite tools stop reading at one), lone surrogates (no UTF-8), NaN and
infinities (no JSON), integers of more than 1,000 digits, nesting deeper than 128,
and anything over its size limit. Everything else, integers of any smaller size
and text of any script included, comes back as it was. `storable` makes a text
that passes, visibly, for who must store whatever a tool printed.
"""

from __future__ import annotations

import math
import re
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from sightline.context.messages.parts import Message, Part, Raw, Role
from sightline.errors import NotStorable, TooLarge

__all__ = ["MAX_DEPTH", "MAX_DIGITS", "check_json", "check_message", "check_text", "storable"]

MAX_DEPTH: Final = 128
MAX_DIGITS: Final = 1000
_LARGEST: Final = 10**MAX_DIGITS


def _types(hint: Any) -> tuple[Any, ...]:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(get_origin(kind) or kind for kind in kinds)


# Of each part its fields, and the types that their annotations name. Python holds nobody to them,
# and what another type was written as could not be read again.
_FIELDS: Final = {
    part: [
        (field, _types(hint))
        for field, hint in get_type_hints(part).items()
        if field in part.__struct_fields__
    ]
    for part in get_args(Part)
}
_JSON: Final = (str, int, float, bool, type(None), list, dict)
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def check_text(text: str, where: str, *, max_bytes: int | None = None) -> str:
    """Return the text if it can be stored as it is; raise `NotStorable` or `TooLarge` if not."""
    if text.isascii():
        size = len(text)
        bad = text.find("\x00")
    else:
        match = _UNSTORABLE.search(text)
        bad = match.start() if match else -1
        size = len(text.encode(errors="surrogatepass"))
    if bad >= 0:
        raise NotStorable(f"{where}: U+{ord(text[bad]):04X} at character {bad} cannot be stored")
    if max_bytes is not None and size > max_bytes:
        raise TooLarge(f"{where}: {size:,} bytes, and the limit is {max_bytes:,}")
    return text


def check_json(value: Any, where: str) -> None:
    """Raise `NotStorable` unless the value is JSON that reads back as it was written."""
    todo: list[tuple[Any, str, int]] = [(value, where, 0)]
    while todo:
        item, place, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise NotStorable(f"{where}: nested deeper than {MAX_DEPTH} levels")
        if type(item) not in _JSON:  # a subclass would come back as its base
            raise NotStorable(f"{place}: {type(item).__name__} is not JSON")
        match item:
            case str():
                check_text(item, place)
            case int():
                if not -_LARGEST < item < _LARGEST:
                    raise NotStorable(f"{place}: an integer of more than {MAX_DIGITS:,} digits")
            case float():
                if not math.isfinite(item):
                    raise NotStorable(f"{place}: {item} is not JSON")
            case list():
                todo.extend((child, f"{place}[{i}]", depth + 1) for i, child in enumerate(item))
            case dict():
                for key, child in item.items():
                    if type(key) is not str:
                        raise NotStorable(f"{place}: the key {key!r} is not a string")
                    check_text(key, f"a key of {place}")
                    todo.append((child, f"{place}.{key}", depth + 1))


def check_message(message: Message, where: str = "message") -> Message:
    """Return the message if every field of it can be stored; raise `NotStorable` if not."""
    if message.role not in get_args(Role):
        raise NotStorable(f"{where}: {message.role!r} is no role")
    if type(message.parts) is not tuple:
        raise NotStorable(f"{where}: its parts are a {type(message.parts).__name__}, not a tuple")
    for index, part in enumerate(message.parts):
        place = f"{where}, part {index}"
        if type(part) not in _FIELDS:
            raise NotStorable(f"{place}: {type(part).__name__} is no part")
        for field, types in _FIELDS[type(part)]:
            value = getattr(part, field)
            if type(value) not in types:
                raise NotStorable(f"{place} ({field}): {type(value).__name__} does not belong here")
            if type(value) is str:
                check_text(value, f"{place} ({field})")
            elif type(value) is Raw:
                if type(value.strategy) is not str:
                    raise NotStorable(f"{place} ({field}): its strategy is no string")
                check_json({"strategy": value.strategy, "data": value.data}, f"{place} ({field})")
            elif value is not None:
                check_json(value, f"{place} ({field})")
    return message


def storable(text: str) -> str:
    """Make a text storable: NUL becomes its picture (␀), a lone surrogate U+FFFD."""
    return _UNSTORABLE.sub(lambda match: "␀" if match[0] == "\x00" else "\ufffd", text)
