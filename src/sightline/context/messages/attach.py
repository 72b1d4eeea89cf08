"""Files in what a user says: where one is named, and how its content stands in a message.

`@notes.txt` names a file, `@"my notes.txt"` one with blanks in its name. The mark counts at
the beginning of a word only, so an address (`ada@example.org`) and a name in backticks
(`` `@types/node` ``) are text. Punctuation that ends a sentence may belong to the name or
not: `mentions` gives both, the longer one first.

A text is quoted whole, in a fence that nothing in it can close. It is then part of what was
said: the ledger keeps it, and a file that changes later changes no history.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from sightline.context.messages.parts import File

_MENTION: Final = re.compile(r'(?<![^\s(\[{])@(?:"([^"\n]+)"|([^\s"]+))')
_ENDS: Final = ".,;:!?)]}'\u2026"
_TICKS: Final = re.compile("`+")
# No vendor takes a longer one, and JPEG and GIF cannot say a longer one: it is a lie.
_LONGEST_SIDE: Final = 0xFFFF
_PNG: Final = b"\x89PNG\r\n\x1a\n"
# The markers of a JPEG whose segment begins with the size: SOF0 to SOF15 without DHT, JPG, DAC.
_SIZED: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


# What may name a file, as it could be spelled.
Spellings: TypeAlias = tuple[str, ...]


def mentions(text: str) -> Iterator[Spellings]:
    """Yield what stands behind an `@`, in order, each once."""
    seen: set[str] = set()
    for match in _MENTION.finditer(text):
        word = match[1] or match[2]
        if word not in seen:
            seen.add(word)
            yield (word,) if match[1] else tuple(_spellings(word))


def _spellings(word: str) -> Iterator[str]:
    yield word
    while word and word[-1] in _ENDS:
        word = word[:-1]
        if word:
            yield word


def quoted(name: str, text: str) -> str:
    """Write a file's text as a part of a message."""
    return f"The file {name}, as it was when this was said:\n\n{fenced(text)}"


def fenced(text: str) -> str:
    """Put a text between fences that it cannot end."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(text))])
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}"


def image_of(name: str, data: bytes) -> File | None:
    """Make a file part with the whole image in it; None if it is no kind that vendors take."""
    head = image_head(data)
    if head is None:
        return None
    uri = f"data:{head.mime};base64,{b64encode(data).decode()}"
    return File(uri, head.mime, name, len(data), width=head.width, height=head.height)


class ImageHead(NamedTuple):
    """What the beginning of an image says of it."""

    mime: str
    width: int | None = None
    height: int | None = None


def image_head(data: bytes) -> ImageHead | None:
    """Read the beginning of an image; None if it is no kind that vendors take."""
    if data.startswith(_PNG) and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        is_sane = max(width, height) <= _LONGEST_SIDE
        return ImageHead("image/png", width, height) if is_sane else ImageHead("image/png")
    if data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        return ImageHead("image/gif", *struct.unpack("<HH", data[6:10]))
    if data.startswith(b"\xff\xd8\xff"):
        return ImageHead("image/jpeg", *_jpeg_size(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return ImageHead("image/webp")
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | tuple[None, None]:
    """Find the frame that says how large it is, segment by segment."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        if data[at + 1] in _SIZED:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0])
    return None, None
