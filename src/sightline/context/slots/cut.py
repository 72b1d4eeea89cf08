"""Cut the text of a message, or of a tool call with its results, by characters.

The promise: roles and structure stay. Only text changes (what was said, what a
tool answered); calls, files and signed reasoning are whole or not there at all.
A cut falls between graphemes. Where the middle is taken out, `…` stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from sightline.context.messages.graphemes import cut_at_or_after, cut_at_or_before
from sightline.context.messages.parts import Message, Part, Text, ToolResult
from sightline.context.slots.options import Keep

SEAM: Final = "…"


class _Segment(NamedTuple):
    """A text that can be cut: which part of which message, and where it lies in the whole."""

    message: int
    part: int
    start: int
    text: str


class UnitText:
    """The texts of one unit, end to end, as something that can be cut at any length."""

    def __init__(self, messages: Mapping[int, Message]) -> None:
        self._messages = messages
        self._segments: list[_Segment] = []
        self.chars = 0
        for index, message in messages.items():
            for number, part in enumerate(message.parts):
                text = _text_of(part)
                if text:
                    self._segments.append(_Segment(index, number, self.chars, text))
                    self.chars += len(text)

    def cut(self, chars: int, keep: Keep) -> dict[int, Message]:
        """Return the messages with at most so many characters of text left.

        A text part cut to nothing is taken out; the answer of a tool becomes empty,
        because its call must keep an answer.
        """
        head, tail = _kept_ends(chars, keep)
        cut: dict[int, dict[int, str]] = {}
        for segment in self._segments:
            left = _clip_head(segment, head)
            right = _clip_tail(segment, self.chars - tail)
            if len(left) + len(right) >= len(segment.text):
                kept = segment.text
            else:
                kept = left + (SEAM if keep == "middle-out" and left and right else "") + right
            cut.setdefault(segment.message, {})[segment.part] = kept
        return {
            index: _with_texts(message, cut.get(index, {}))
            for index, message in self._messages.items()
        }

    def says_something(self, messages: Mapping[int, Message]) -> bool:
        """Tell whether any of the unit's text is left."""
        return any(_text_of(part) for message in messages.values() for part in message.parts)


def _kept_ends(chars: int, keep: Keep) -> tuple[int, int]:
    """How many characters to keep at the start and at the end."""
    if keep == "tail":
        return 0, chars
    if keep == "head":
        return chars, 0
    return chars - chars // 2, chars // 2


def _clip_head(segment: _Segment, end: int) -> str:
    inside = min(max(end - segment.start, 0), len(segment.text))
    return segment.text[: cut_at_or_before(segment.text, inside)]


def _clip_tail(segment: _Segment, start: int) -> str:
    inside = min(max(start - segment.start, 0), len(segment.text))
    return segment.text[cut_at_or_after(segment.text, inside) :]


def _text_of(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    return part.content if isinstance(part, ToolResult) else ""


def _with_texts(message: Message, texts: Mapping[int, str]) -> Message:
    parts: list[Part] = []
    for number, part in enumerate(message.parts):
        text = texts.get(number)
        if text is None or text == _text_of(part):
            parts.append(part)
        elif isinstance(part, ToolResult):
            # A vendor's own bytes would bring back what was cut.
            parts.append(msgspec.structs.replace(part, content=text, raw=None))
        elif text:
            parts.append(Text(text))
    return Message(message.role, tuple(parts))
