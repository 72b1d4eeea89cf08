"""Every way of cutting one slot, from nothing to everything.

The ways form a ladder: each rung holds all that the rungs below it hold, and
costs at least as much. So "trim this slot" is "go down", "refill it" is "go
up", and the assembler only ever asks for the highest rung under an allowance or
the lowest above a minimum. With whole messages a rung is a number of units and
both questions are one binary search over cumulative costs. With characters there
are also the rungs inside one unit, found by probing; the probes do not depend on
the allowance, which is what makes a larger one never keep less.

The order in which units are kept:

    tail         newest first; the oldest leaves first
    head         oldest first; the newest leaves first
    middle-out   newest, oldest, next newest, …; the middle leaves first

Inside a unit, a message or a tool call with its results, roles and structure stay. Only
text is cut (what was said, what a tool answered); calls, files and signed reasoning are
whole or not there at all. A cut falls between graphemes. Where the middle is taken out,
`…` stands for it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from sightline.context.messages.graphemes import cut_at_or_after, cut_at_or_before
from sightline.context.messages.parts import Message, Part, Text, ToolResult
from sightline.context.slots.options import Keep
from sightline.context.slots.units import Units
from sightline.context.tokens.tokens import Counter

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


class Piece(NamedTuple):
    """One unit kept in part: what its messages become, by index, and their weights."""

    messages: dict[int, Message]
    weights: dict[int, int]


class Rung(NamedTuple):
    """One way of cutting: so many whole units in keeping order, and perhaps a piece of the next."""

    cost: int
    whole: int
    piece: Piece | None = None


class Ladder:
    """The rungs of a slot that is trimmed by whole messages."""

    def __init__(self, units: Units, keep: Keep) -> None:
        self._units = units
        self._keep: Keep = keep

    @property
    def total(self) -> int:
        """What everything costs."""
        return self._units.total

    @property
    def top(self) -> int:
        """How many units there are."""
        return len(self._units)

    def kept(self, start: int, stop: int) -> list[range]:
        """Number the units from one place in keeping order up to another, as the slot has them."""
        (old, new), (older, newer) = self._ends(start), self._ends(stop)
        return [range(old, older), range(self.top - newer, self.top - new)]

    def highest(self, allowance: int) -> Rung:
        """Return the highest rung that costs at most the allowance."""
        whole = max(0, bisect_right(range(self.top + 1), allowance, key=self._cost) - 1)
        return Rung(self._cost(whole), whole)

    def lowest(self, minimum: int) -> Rung:
        """Return the lowest rung that costs at least the minimum, or the top."""
        whole = min(bisect_left(range(self.top + 1), minimum, key=self._cost), self.top)
        return Rung(self._cost(whole), whole)

    def _cost(self, whole: int) -> int:
        """What the first so many units in keeping order cost."""
        old, new = self._ends(whole)
        return self._units.cost(old) + self.total - self._units.cost(self.top - new)

    def _ends(self, whole: int) -> tuple[int, int]:
        """How many of the first so many units are the oldest, and how many the newest."""
        if self._keep == "middle-out":
            return whole // 2, whole - whole // 2
        return (whole, 0) if self._keep == "head" else (0, whole)

    def folded(self, allowance: int, grid: int) -> Rung:
        """Return the highest rung whose cut, in tokens, is at least a multiple of the grid.

        What is cut is counted from the oldest content on, so the place stays where it
        is while content is appended, until the allowance asks for one step more. A
        fold that would leave nothing is not made.
        """
        over = self.total - allowance
        if over <= 0:
            return self.highest(allowance)
        rung = self.highest(self.total - -(-over // grid) * grid)
        return rung if rung.cost else self.highest(allowance)


class CharLadder(Ladder):
    """The rungs of a slot that is trimmed by characters, at grapheme boundaries."""

    def __init__(self, units: Units, keep: Keep, counter: Counter) -> None:
        super().__init__(units, keep)
        self._counter = counter

    def highest(self, allowance: int) -> Rung:
        rung = super().highest(allowance)
        if rung.whole == self.top:
            return rung
        text = self._text_of(rung.whole)
        piece, _ = self._search(text, allowance - rung.cost)
        if piece is None or not text.says_something(piece.messages):
            return rung
        return self._with(rung, piece)

    def lowest(self, minimum: int) -> Rung:
        above = super().lowest(minimum)
        if above.cost == minimum or above.whole == 0 or above.cost < minimum:
            return above
        below = Rung(self._cost(above.whole - 1), above.whole - 1)
        text = self._text_of(below.whole)
        _, chars = self._search(text, minimum - below.cost - 1)
        while chars < text.chars:
            piece = self._cut(text, chars)
            if text.says_something(piece.messages):
                cut = self._with(below, piece)
                # A part of a text can be more tokens than the whole, which says more for less.
                return cut if cut.cost < above.cost else above
            chars *= 2
        return above

    def _with(self, rung: Rung, piece: Piece) -> Rung:
        return Rung(rung.cost + sum(piece.weights.values()), rung.whole, piece)

    def _text_of(self, whole: int) -> UnitText:
        one, other = self.kept(whole, whole + 1)
        return UnitText(self._units.messages(one or other))

    def _cut(self, text: UnitText, chars: int) -> Piece:
        messages = text.cut(chars, self._keep)
        weights = self._counter.weigh(list(messages.values()), remember=False)
        return Piece(messages, dict(zip(messages, weights, strict=True)))

    def _search(self, text: UnitText, allowance: int) -> tuple[Piece | None, int]:
        """Find the longest piece within the allowance, and the length that is too long.

        Doubles the length until it is too much, then bisects: the cost is that of
        counting what is kept a few times over, however long the text is.
        """
        best: Piece | None = None
        low, high = 0, 1
        while high < text.chars:
            piece = self._cut(text, high)
            if sum(piece.weights.values()) > allowance:
                break
            best, low, high = piece, high, high * 2
        high = min(high, text.chars)
        while high - low > 1:
            middle = (low + high) // 2
            piece = self._cut(text, middle)
            if sum(piece.weights.values()) > allowance:
                high = middle
            else:
                best, low = piece, middle
        return best, high
