"""Take context blocks out of text that comes from outside, before it is stored.

    strip_blocks(strip_blocks(x)) == strip_blocks(x)
    strip_blocks(message + tail) == message, for a message that has no tags in it

A user may paste a whole request, a tool may return one, a model may repeat what it
saw. Blocks go, with what is in them; a tag that belongs to no block stays readable
but can no longer open or close one. Text without tags is returned as it is.
"""

from __future__ import annotations

import re
from typing import Final

from sightline._lazy import lazy_pattern
from sightline.context.projection.escape import ascii_only, has_tag, mark, reveal
from sightline.context.projection.lookalikes import LATER_LETTERS

# SLOP, context injection, conformance 1: no state-tail block stays in the history.
# Complete tags as hosts write them; the escaped forms are words of their own.
_TAG: Final = lazy_pattern(
    rf"<\s*(?!\s)(?P<closing>/?)\s*(?P<name>slop-(?:state|apps-available))(?![\w{LATER_LETTERS}-])",
    re.IGNORECASE,
)
_ASCII_TAG: Final = ascii_only(lambda: _TAG.pattern, re.IGNORECASE)


def strip_blocks(text: str) -> str:
    """Remove every context block and neutralise stray tags. Idempotent, linear."""
    if text.isascii() and "<" not in text and "&" not in text and "%" not in text:
        return text
    kept: list[str] = []
    at = 0
    for start, end in _blocks(text):
        kept.append(text[at:start])
        at = end
    if at:
        kept.append(text[at:])
        pieces = [kept[0].rstrip(), *(piece.strip() for piece in kept[1:-1]), kept[-1].lstrip()]
        text = "\n\n".join(piece for piece in pieces if piece)
    return _without_tags(text)


def close_block(text: str) -> str:
    """Close the block that a text broke off in, so that it goes as a whole one does."""
    tags = list(_TAG.finditer(text)) if "<" in text else []
    if not tags or tags[-1]["closing"]:
        return text
    return f"{text}></{tags[-1]['name']}>"


def has_block(text: str) -> bool:
    """Tell whether there is a context block in a text, a tag alone being none."""
    return "<" in text and bool(_blocks(text))


def _blocks(text: str) -> list[tuple[int, int]]:
    """Find the outermost blocks. One that is opened more often than closed ends at its last tag."""
    found: list[tuple[int, int]] = []
    is_ascii = text.isascii()
    if is_ascii and "slop-" not in text.lower():
        return found
    depth = start = last_close = 0
    at = 0
    last = text.rfind(">")
    pattern = _ASCII_TAG if is_ascii else _TAG
    while (tag := pattern.search(text, at)) and tag.end() <= last:
        at = text.index(">", tag.end()) + 1
        if not tag["closing"]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            last_close = at
            if not depth:
                found.append((start, at))
    if depth and last_close > start:
        found.append((start, last_close))
    return found


def _without_tags(text: str) -> str:
    return reveal(mark(text, lines=False)) if has_tag(text) else text
