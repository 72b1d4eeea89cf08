"""The door to the ledger: what comes from outside passes here before it is stored.

    a stored message never contains a context block        (law 7)
    guarded(guarded(m)) == guarded(m)

A user may paste a whole request, a tool may return one, a model may repeat what it saw,
in its words, its thoughts or the arguments of a call. Blocks are taken out of all of
them; what a vendor wants back byte for byte (`raw`) goes if there was one in it, because
half of it is worth nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sightline.context.parts import File, Message, Part, Raw, Reasoning, Text, ToolCall
from sightline.context.storable import storable
from sightline.projection.strip import TAG, strip_blocks

__all__ = ["guarded", "guarded_text"]


def guarded_text(text: str) -> str:
    """Return a text without context blocks, and storable."""
    return strip_blocks(storable(text))


def guarded(message: Message, *, broken_off: bool = False) -> Message:
    """Return the message without context blocks; itself if it has none.

    In one that broke off, a block that was opened goes to the end of what was said.
    """
    parts: list[Part] = []
    for part in message.parts:
        clean = _guarded_part(_ended(part) if broken_off else part)
        # A text that was nothing but a block is nothing.
        if not (isinstance(clean, Text | Reasoning) and not clean.text and clean.raw is None):
            parts.append(clean)
    made = tuple(parts)
    return message if made == message.parts else Message(message.role, made)


def _ended(part: Part) -> Part:
    """Close the block that a text broke off in."""
    if not isinstance(part, Text | Reasoning):
        return part
    tags = list(TAG.finditer(part.text))
    if not tags or tags[-1]["closing"]:
        return part
    return msgspec.structs.replace(part, text=f"{part.text}></{tags[-1]['name']}>")


def _guarded_part(part: Part) -> Part:
    raw = _guarded_raw(part.raw)
    if isinstance(part, Text | Reasoning):
        text = guarded_text(part.text)
        # What a vendor signed or numbered belongs to the words as they were.
        same = text == part.text
        return part if same and raw is part.raw else type(part)(text, raw if same else None)
    if isinstance(part, ToolCall):
        arguments = _guarded_json(part.arguments)
        name = guarded_text(part.name)
        return ToolCall(guarded_text(part.id), name, arguments, raw)
    if isinstance(part, File):
        name = guarded_text(part.name)
        return msgspec.structs.replace(part, uri=storable(part.uri), name=name, raw=raw)
    return msgspec.structs.replace(
        part,
        call_id=guarded_text(part.call_id),
        content=guarded_text(part.content),
        name=guarded_text(part.name),
        raw=raw,
    )


def _guarded_raw(raw: Raw | None) -> Raw | None:
    if raw is None or _guarded_json(raw.data) == raw.data:
        return raw
    return None


def _guarded_json(value: Any) -> Any:
    """Guard every string of a JSON value. What a decoder read is never deep enough to matter."""
    match value:
        case str():
            return guarded_text(value)
        case list():
            return [_guarded_json(item) for item in value]
        case dict():
            return {guarded_text(key): _guarded_json(item) for key, item in value.items()}
        case _:
            return value
