"""The gate: every text that goes into a ledger or out to a vendor passes here, once.

    passed(passed(x)) == passed(x)

1. *Storable*, exactly or not at all: a field of another type than its part declares, NUL
   characters (most SQLite tools stop reading at one), lone surrogates (no UTF-8), NaN and
   infinities (no JSON), integers of more than 1,000 digits and nesting deeper than 128 would
   come back different. Everything else, text of any script included, comes back as it was.
2. *No tail.* Context blocks leave every string, and a tag that belongs to no block can no
   longer open or close one (projection/strip.py). A vendor's raw form cannot be edited, for
   it may be signed: one with a block in it is left out, and the neutral part is replayed.
3. *No key* (redact.py). After the blocks, so that what is taken apart there is seen here as
   it will stand; a mark in place of a key is no tag.
4. *The size*, of what is left.

There are two manners. A ledger refuses what cannot be stored, with the place that is wrong,
and nothing is stored (`Gate`); a retry passes it too, so an idempotency key meets the messages
that it stored. A host has to go on with whatever was said, and mends it, visibly (`guarded`):
arguments that nobody could store make that one call unreadable. Keys are the ledger's to
take out, which may be told not to. Nothing here recurses, however deep a value nests, and
what passes unchanged is the same object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

import msgspec

from sightline.context.messages.parts import (
    UNREADABLE,
    File,
    Message,
    Part,
    Raw,
    Reasoning,
    Role,
    Text,
)
from sightline.context.messages.redact import redact, redact_field
from sightline.context.projection.strip import close_block, has_block, strip_blocks
from sightline.errors import InvalidInput, NotStorable, TooLarge
from sightline.slop.protocol.jsontext import text_of

MAX_DEPTH: Final = 128
MAX_DIGITS: Final = 1000
UNREADABLE_CHARS: Final = 2_000
_LARGEST: Final = 10**MAX_DIGITS
_MIB: Final = 1024 * 1024
_ROLES: Final = get_args(Role)
_MAX_COUNT: Final = 2**53  # what every JSON reader takes for an exact integer
# Every printable character of ASCII but the space: what a key is made of.
_ESCAPED: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)+"')  # JSON strings with anything spelled
_KEY_CHARACTERS: Final = "".join(map(chr, range(0x21, 0x7F)))
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_PICTURE: Final = re.compile(r"data:image/[a-z]{1,20};base64,[A-Za-z0-9+/]*={0,2}")

# Rewrites a string; the second is the name of the field that it is the value of, if it is one.
Rule: TypeAlias = Callable[[str, str], str]
# Where a value is in another: where its holder is, and its name or number there.
_Path: TypeAlias = tuple[Any, ...]


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


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """Sizes in bytes of UTF-8; over one of them nothing is stored and `TooLarge` says so."""

    message: int = 64 * _MIB
    scratchpad: int = 64 * 1024
    state: int = 256 * 1024
    memo: int = 64 * 1024
    receipt: int = 16 * _MIB
    strategy_state: int = 16 * _MIB
    error: int = 64 * 1024
    name: int = 256


class Gate(msgspec.Struct, frozen=True):
    """Checks and cleans what is stored in a ledger. `redacting=False` stores texts as they come."""

    limits: LedgerLimits = LedgerLimits()
    redacting: bool = True

    def text(self, text: str, where: str, max_bytes: int) -> str:
        """Check a text, take tails and keys out of it, and hold it to its size."""
        return check_text(self._rule(check_text(text, where), ""), where, max_bytes=max_bytes)

    def json(self, value: dict[str, Any], where: str, max_bytes: int) -> str:
        """Write a JSON value whose strings passed as texts do."""
        check_json(value, where)
        text = msgspec.json.encode(_map_json(value, self._rule)).decode()
        return check_text(text, where, max_bytes=max_bytes)

    def json_text(self, data: bytes) -> bytes:
        """Take keys out of JSON as it stands, be it a part: of the text and of what it spells."""
        text = data.decode(errors="replace")
        if self.redacting:
            text = _ESCAPED.sub(_without_spelled_key, redact(text))
        return text.encode()

    def beginning(self, text: str, *, whole: bool = False) -> str:
        """Pass the beginning of a text that is still being said, whatever it is.

        A context block that is open goes to the end, and so does a word that may still
        become a key, unless what is said is `whole`.
        """
        text = storable(text if whole else text.rstrip(_KEY_CHARACTERS))
        return self._rule(close_block(text), "")

    def line(self, text: str, where: str) -> str:
        """Pass a name: one line, not empty."""
        if not text.strip() or not text.isprintable():
            raise InvalidInput(f"{where} is one line of printable text; not {text[:60]!r}")
        name = self.text(text.strip(), where, self.limits.name)
        if not name.isprintable():  # what stood on both sides of a block
            name = " ".join(name.split())
        if not name:
            raise InvalidInput(f"{where} is a context block and nothing else")
        return name

    def message(self, message: Message) -> Message:
        """Check a message, and take tails and keys out of it."""
        check_message(message)
        if len(message.parts) == 1 and type(part := message.parts[0]) is Text and not part.raw:
            clean = self._rule(part.text, "")
            return message if clean == part.text else Message.of(message.role, clean)
        return _map_message(
            message, self._rule, lambda value: _map_json(value, self._rule), self._raw
        )

    @staticmethod
    def count(value: object, where: str) -> int:
        """Check a number of tokens, bytes or money."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
            raise InvalidInput(f"{where} is a whole number from 0 to 2^53; not {value!r}")
        return value

    def _rule(self, text: str, name: str) -> str:
        text = strip_blocks(text)
        return _without_key(text, name) if self.redacting else text

    def _raw(self, raw: Raw) -> Raw | None:
        found = False

        def look(text: str, name: str) -> str:
            nonlocal found
            found = found or has_block(text)
            return _without_key(text, name) if self.redacting else text

        strategy, data = look(raw.strategy, ""), _map_json(raw.data, look)
        if found:
            return None
        return raw if data is raw.data and strategy == raw.strategy else Raw(strategy, data)


def guarded(message: Message, *, broken_off: bool = False) -> Message:
    """Mend a message from outside, so that a ledger takes it; itself if nothing is wrong with it.

    In one that broke off, a block that was opened goes to the end of what was said. What a
    vendor wants back byte for byte (`raw`) goes if there was a block in it, or if it cannot
    be stored as it is, because half of it is worth nothing.
    """
    ended = Message(message.role, tuple(map(_ended, message.parts))) if broken_off else message
    clean = _map_message(ended, _mended, _guarded_arguments, _guarded_raw)
    parts = tuple(filter(_says_something, map(_unbound, ended.parts, clean.parts)))
    return message if parts == message.parts else Message(message.role, parts)


def guarded_text(text: str) -> str:
    """Mend a text: without context blocks, and storable."""
    return strip_blocks(storable(text))


def guarded_json(value: Any) -> Any:
    """Mend every string of a JSON value as `guarded_text` does."""
    return _map_json(value, _mended)


def storable(text: str) -> str:
    """Make a text storable: NUL becomes its picture (␀), a lone surrogate U+FFFD."""
    return _UNSTORABLE.sub(lambda match: "␀" if match[0] == "\x00" else "\ufffd", text)


def storable_json(value: Any) -> Any:
    """Make every string of a JSON value storable."""
    return _map_json(value, lambda text, _name: storable(text))


def shown_text(text: str) -> str:
    """Mend a text that goes out and into no ledger: no block in it, and no key."""
    return redact(guarded_text(text))


def shown_json(value: Any) -> Any:
    """Take keys out of every string of a JSON value that goes out, its field's name in view."""
    return _map_json(value, _without_key)


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
    todo: list[tuple[Any, _Path, int]] = [(value, (), 0)]
    while todo:
        item, path, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise NotStorable(f"{where}: nested deeper than {MAX_DEPTH} levels")
        kind = type(item)  # a subclass would come back as its base
        if kind is str:
            if not item.isascii() or "\x00" in item:
                check_text(item, _location(where, path))
        elif kind is dict:
            for key, child in item.items():
                if type(key) is not str:
                    raise NotStorable(f"{_location(where, path)}: the key {key!r} is not a string")
                if not key.isascii() or "\x00" in key:
                    check_text(key, f"a key of {_location(where, path)}")
                todo.append((child, (path, key), depth + 1))
        elif kind is list:
            todo.extend((child, (path, index), depth + 1) for index, child in enumerate(item))
        elif kind is int:
            if not -_LARGEST < item < _LARGEST:
                location = _location(where, path)
                raise NotStorable(f"{location}: an integer of more than {MAX_DIGITS:,} digits")
        elif kind is float:
            if not math.isfinite(item):
                raise NotStorable(f"{_location(where, path)}: {item} is not JSON")
        elif item is not None and kind is not bool:
            raise NotStorable(f"{_location(where, path)}: {kind.__name__} is not JSON")


def _location(where: str, path: _Path) -> str:
    """Name a part of a JSON value in an error: `arguments.items[3]`."""
    steps: list[str] = []
    while path:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return where + "".join(reversed(steps))


def check_message(message: Message, where: str = "message") -> None:
    """Raise `NotStorable` unless every field of a message can be stored."""
    if message.role not in _ROLES:
        raise NotStorable(f"{where}: {message.role!r} is no role")
    if type(message.parts) is not tuple:
        raise NotStorable(f"{where}: its parts are a {type(message.parts).__name__}, not a tuple")
    for index, part in enumerate(message.parts):
        location = f"{where}, part {index}"
        if type(part) not in _FIELDS:
            raise NotStorable(f"{location}: {type(part).__name__} is no part")
        for field, types in _FIELDS[type(part)]:
            value = getattr(part, field)
            if type(value) not in types:
                raise NotStorable(
                    f"{location} ({field}): {type(value).__name__} does not belong here"
                )
            if type(value) is Raw:
                if type(value.strategy) is not str:
                    raise NotStorable(f"{location} ({field}): its strategy is no string")
                value = {"strategy": value.strategy, "data": value.data}
            if value is not None and (
                type(value) is not str or not value.isascii() or "\x00" in value
            ):
                check_json(value, f"{location} ({field})")


def _map_json(value: Any, rule: Rule) -> Any:
    """Rewrite every string of a JSON value, keys included; the same object if none changes."""
    changed = False

    def string(old: str, name: str = "") -> str:
        nonlocal changed
        new = rule(old, name)
        changed = changed or new != old
        return new

    def shallow(item: Any) -> Any:
        match item:
            case str():
                return string(item)
            case list() | tuple():
                return [string(member) if isinstance(member, str) else member for member in item]
            case dict():
                return {
                    (name := string(key)): string(member, name)
                    if isinstance(member, str)
                    else member
                    for key, member in item.items()
                }
            case _:
                return item

    rewritten = shallow(value)
    todo = [rewritten] if isinstance(rewritten, dict | list) else []
    while todo:
        holder = todo.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, dict | list | tuple):
                holder[key] = shallow(item)
                todo.append(holder[key])
    return rewritten if changed else value


def _map_message(
    message: Message,
    text: Rule,
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
                new = old if _is_picture(part, field) else text(old, "")
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


def _without_key(text: str, name: str) -> str:
    return redact_field(name, text) if name else redact(text)


def _without_spelled_key(found: re.Match[str]) -> str:
    try:
        text = msgspec.json.decode(found[0], type=str)
    except msgspec.DecodeError:
        return found[0]
    clean = redact(text)
    return found[0] if clean == text else msgspec.json.encode(clean).decode()


def _mended(text: str, _name: str) -> str:
    return guarded_text(text)


def _ended(part: Part) -> Part:
    """Close the block that a text broke off in."""
    if not isinstance(part, Text | Reasoning):
        return part
    return msgspec.structs.replace(part, text=close_block(part.text))


def _unbound(old: Part, new: Part) -> Part:
    """Drop the vendor's form of a text that changed: it signed or numbered the old one."""
    if not isinstance(old, Text | Reasoning) or not isinstance(new, Text | Reasoning):
        return new
    return new if new.text == old.text else type(new)(new.text)


def _says_something(part: Part) -> bool:
    """Tell whether anything is left of a part; a text may have been nothing but a context block."""
    return not isinstance(part, Text | Reasoning) or bool(part.text) or part.raw is not None


def _guarded_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        mended: dict[str, Any] = _map_json(arguments, _mended)
        check_json(mended, "the arguments")
    except (NotStorable, TypeError):
        return {UNREADABLE: guarded_text(_written(arguments))[:UNREADABLE_CHARS]}
    return mended


def _written(arguments: dict[str, Any]) -> str:
    try:
        return bytes(text_of(arguments)).decode()
    except (TypeError, ValueError):
        return "no JSON"


def _guarded_raw(raw: Raw) -> Raw | None:
    try:
        check_json({"strategy": raw.strategy, "data": raw.data}, "raw")
    except NotStorable:
        return None
    return raw if _map_json(raw.data, _mended) is raw.data else None
