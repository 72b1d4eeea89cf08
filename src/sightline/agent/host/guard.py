"""The door to the ledger: what comes from outside passes here before it is stored.

    a stored message never contains a context block        (law 7)
    guarded(guarded(m)) == guarded(m)

A user may paste a whole request, a tool may return one, a model may repeat what it saw,
in its words, its thoughts or the arguments of a call. Blocks are taken out of all of
them; what a vendor wants back byte for byte (`raw`) goes if there was one in it, or if it
cannot be stored as it is, because half of it is worth nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sightline.context.messages.parts import Message, Part, Raw, Reasoning, Text
from sightline.context.messages.storable import check_json, storable
from sightline.context.messages.strings import map_json, map_strings
from sightline.context.projection.strip import close_block, strip_blocks
from sightline.errors import NotStorable

__all__ = ["guarded", "guarded_text"]


def guarded_text(text: str) -> str:
    """Return a text without context blocks, and storable."""
    return strip_blocks(storable(text))


def guarded(message: Message, *, broken_off: bool = False) -> Message:
    """Return the message without context blocks; itself if it has none.

    In one that broke off, a block that was opened goes to the end of what was said.
    """
    said = Message(message.role, tuple(map(_ended, message.parts))) if broken_off else message
    clean = map_strings(said, text=guarded_text, value=_guarded_json, raw=_guarded_raw)
    parts = tuple(filter(_says_something, map(_unbound, said.parts, clean.parts)))
    return message if parts == message.parts else Message(message.role, parts)


def _ended(part: Part) -> Part:
    """Close the block that a text broke off in."""
    if not isinstance(part, Text | Reasoning):
        return part
    return msgspec.structs.replace(part, text=close_block(part.text))


def _unbound(old: Part, new: Part) -> Part:
    """Part a text that changed from what a vendor signed or numbered, which was the old one."""
    if not isinstance(old, Text | Reasoning) or not isinstance(new, Text | Reasoning):
        return new
    return new if new.text == old.text else type(new)(new.text)


def _says_something(part: Part) -> bool:
    """Tell whether a part is left; a text that was nothing but a block is nothing."""
    return not isinstance(part, Text | Reasoning) or bool(part.text) or part.raw is not None


def _guarded_json(value: Any) -> Any:
    return map_json(value, guarded_text)


def _guarded_raw(raw: Raw | None) -> Raw | None:
    if raw is None or _guarded_json(raw.data) is not raw.data:
        return None
    try:
        check_json({"strategy": raw.strategy, "data": raw.data}, "raw")
    except NotStorable:
        return None
    return raw
