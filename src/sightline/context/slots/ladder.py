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
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from sightline.context.messages.parts import Message
from sightline.context.slots.cut import UnitText
from sightline.context.slots.options import Keep
from sightline.context.tokens.tokens import Counter

__all__ = ["CharLadder", "Ladder", "Piece", "Rung"]


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
    """The rungs of a slot that is trimmed by whole messages.

    A unit is named by the index of its first message; `costs` are in the order of
    `units`, oldest first.
    """

    def __init__(self, units: Sequence[int], costs: Sequence[int], keep: Keep) -> None:
        self.units = _in_keeping_order(units, keep)
        self._sums = list(accumulate(_in_keeping_order(costs, keep), initial=0))

    @property
    def total(self) -> int:
        """What everything costs."""
        return self._sums[-1]

    def highest(self, allowance: int) -> Rung:
        """Return the highest rung that costs at most the allowance."""
        whole = max(0, bisect_right(self._sums, allowance) - 1)
        return Rung(self._sums[whole], whole)

    def lowest(self, minimum: int) -> Rung:
        """Return the lowest rung that costs at least the minimum, or the top."""
        whole = min(bisect_left(self._sums, minimum), len(self.units))
        return Rung(self._sums[whole], whole)

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

    def __init__(
        self,
        units: Sequence[int],
        costs: Sequence[int],
        keep: Keep,
        messages_of: Callable[[int], Mapping[int, Message]],
        counter: Counter,
    ) -> None:
        super().__init__(units, costs, keep)
        self._keep: Keep = keep
        self._messages_of = messages_of
        self._counter = counter

    def highest(self, allowance: int) -> Rung:
        rung = super().highest(allowance)
        if rung.whole == len(self.units):
            return rung
        piece = self._longest(self._text_of(rung.whole), allowance - rung.cost)
        return rung if piece is None else self._with(rung, piece)

    def lowest(self, minimum: int) -> Rung:
        above = super().lowest(minimum)
        if above.cost == minimum or above.whole == 0 or self._sums[above.whole] < minimum:
            return above
        below = Rung(self._sums[above.whole - 1], above.whole - 1)
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
        return UnitText(self._messages_of(self.units[whole]))

    def _cut(self, text: UnitText, chars: int) -> Piece:
        messages = text.cut(chars, self._keep)
        weights = self._counter.weigh(list(messages.values()), remember=False)
        return Piece(messages, dict(zip(messages, weights, strict=True)))

    def _longest(self, text: UnitText, allowance: int) -> Piece | None:
        best, _ = self._search(text, allowance)
        return best if best is not None and text.says_something(best.messages) else None

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


def _in_keeping_order(oldest_first: Sequence[int], keep: Keep) -> Sequence[int]:
    if keep == "head":
        return oldest_first
    newest_first = oldest_first[::-1]
    if keep == "tail":
        return newest_first
    order = [one for pair in zip(newest_first, oldest_first, strict=True) for one in pair]
    return order[: len(oldest_first)]
