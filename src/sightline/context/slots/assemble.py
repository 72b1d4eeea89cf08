"""Decide who gets the tokens, and account for it. The theory is at the top of `slots`.

What was offered before is laid out already (`units`), one sort orders the slots, and
then the work is per slot: two questions to its ladder. So the cost is linear in what is
new and in what is kept, however much there is to be cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec

from sightline.context.messages.parts import Message
from sightline.context.slots.ladder import CharLadder, Ladder, Rung
from sightline.context.slots.options import SlotOptions, share_of
from sightline.context.slots.prompt import (
    Lines,
    MessageLine,
    Notice,
    Prompt,
    Receipt,
    Rule,
    SlotLine,
    digest_of,
)
from sightline.context.slots.units import Layout, MessageBlocks, Units, joined, lay_out
from sightline.context.tokens.tokens import Counter
from sightline.errors import DoesNotFit

NOTHING: Final = Rung(0, 0)
NO_UNITS: Final = Units()


class Slot(msgspec.Struct, frozen=True):
    """One call of `Slots.add`: its messages, its options, and which call it was."""

    name: str
    messages: MessageBlocks
    options: SlotOptions
    index: int

    @property
    def render_key(self) -> tuple[bool, int, int]:
        """Volatile slots stand behind the boundary; then by position, then by `add` order."""
        position = self.options.position
        return (
            self.options.stability == "volatile",
            self.index if position is None else position,
            self.index,
        )


class Share(msgspec.Struct):
    """What one slot gets, while it is being decided. Costs are without the protected part."""

    slot: Slot
    units: Units = NO_UNITS
    protected: Units = NO_UNITS
    maximum: int = 0
    minimum: int = 0
    ladder: Ladder = msgspec.field(default_factory=lambda: Ladder(NO_UNITS, "tail"))
    floor: Rung = NOTHING
    allowed: Rung = NOTHING
    rung: Rung = NOTHING

    @property
    def cap(self) -> int:
        """What the maximum leaves beside the protected messages."""
        return max(0, self.maximum - self.protected.total)

    @property
    def offered(self) -> int:
        return self.protected.total + self.ladder.total

    @property
    def kept(self) -> int:
        return self.protected.total + self.rung.cost

    @property
    def required(self) -> int:
        """What the minimum asks for beside the protected messages; no more than there is."""
        return max(0, min(self.minimum, self.offered) - self.protected.total)


def assemble(
    slots: Sequence[Slot],
    budget: int,
    counter: Counter,
    tools: Sequence[dict[str, Any]] = (),
    notices: Sequence[Notice] = (),
) -> Prompt:
    """Put the slots together within the budget, or raise `DoesNotFit` with the arithmetic."""
    shares = _lay_out(slots, counter)
    tool_tokens = sum(counter.count(msgspec.json.encode(tool).decode()) for tool in tools)
    room = _room(shares, budget, counter.request_overhead, tool_tokens)
    warnings = list(notices)
    _set_bounds(shares, budget, counter)
    # ctx.slots, notes: where the minima exceed the budget, they are ignored and priority decides.
    if sum(share.required for share in shares) > room:
        warnings.append(_minima_ignored(shares, room))
        for share in shares:
            share.minimum = 0
    trimming_order = sorted(shares, key=lambda share: share.slot.options.priority)
    _fill(trimming_order[::-1], budget, room)
    warnings += [warning for share in shares for warning in _complaints_about(share)]
    return _write(shares, budget, counter, tuple(tools), tool_tokens, warnings)


def _lay_out(slots: Sequence[Slot], counter: Counter) -> list[Share]:
    """Weigh the messages and deal their units out to the slots.

    A tool call and its results are one unit even across slots; the most protected
    of them holds it, so that the unit stays or goes as a whole.
    """
    ordered = sorted(slots, key=lambda slot: slot.render_key)
    laid = lay_out([slot.messages for slot in ordered], counter)
    starts = list(accumulate((len(slot.messages) for slot in ordered), initial=0))
    if not all(layout.closed for layouts in laid for layout in layouts):
        laid = [[layout] for layout in _dealt_out(laid, ordered, starts)]
        starts = [0] * len(starts)
    shares = []
    # ctx.slots, priority: while all have the default, system messages will not be trimmed.
    protecting = all(slot.options.priority == 0 for slot in slots)
    for slot, layouts, start in zip(ordered, laid, starts, strict=False):
        share = Share(slot, Units(layouts, start))
        if protecting and any(layout.has_system for layout in layouts):
            parted = [layout.parted() for layout in layouts]
            share.protected = Units([protected for protected, _ in parted], start)
            share.units = Units([rest for _, rest in parted], start)
        shares.append(share)
    return shares


def _dealt_out(
    laid: Sequence[Sequence[Layout]], slots: Sequence[Slot], starts: Sequence[int]
) -> list[Layout]:
    """Lay everything out as one, and give each slot its units."""
    whole = joined(layout for layouts in laid for layout in layouts)
    held: list[list[int]] = [[] for _ in slots]
    for unit in whole.units:
        homes = (bisect_right(starts, index) - 1 for index in whole.members(unit))
        home = max(homes, key=lambda number: (slots[number].options.priority, number))
        held[home].append(unit)
    return [whole.only(units) for units in held]


def _room(shares: Sequence[Share], budget: int, overhead: int, tools: int) -> int:
    """Return what is left for everything that may be cut."""
    protected = [share for share in shares if share.protected.total]
    fixed = [("request frame", overhead), ("tools", tools)]
    fixed += [(f"system messages of {s.slot.name!r}", s.protected.total) for s in protected]
    needed = sum(tokens for _, tokens in fixed)
    if needed > budget:
        terms = " + ".join(f"{tokens} ({what})" for what, tokens in fixed if tokens)
        raise DoesNotFit(f"{terms} = {needed} tokens, which must stay, and the budget is {budget}")
    return budget - needed


def _set_bounds(shares: Sequence[Share], budget: int, counter: Counter) -> None:
    for share in shares:
        options = share.slot.options
        if options.trim_behavior == "char":
            share.ladder = CharLadder(share.units, options.keep, counter)
        else:
            share.ladder = Ladder(share.units, options.keep)
        # ctx.slots, minRatio: the larger of the two minima, clamped to the maximum.
        share.maximum = share_of(options.max_ratio, budget)
        least = max(share_of(options.min_ratio, budget), options.min_tokens)
        share.minimum = min(least, share.maximum)


def _fill(shares: Sequence[Share], budget: int, room: int) -> None:
    """Give each its minimum, then each as much as there is, the most protected first.

    A minimum is met by whole units and may cost more than it says; where the minima
    then do not all fit, the least protected fall short.
    """
    for share in shares:
        floor = share.ladder.lowest(share.required)
        if floor.cost > min(room, share.cap):
            floor = share.ladder.highest(min(room, share.cap))
        share.floor = floor
        room -= floor.cost
    for share in shares:
        allowance = min(share.cap, room + share.floor.cost)
        share.allowed = share.rung = _not_below(share.floor, share.ladder.highest(allowance))
        grid = share_of(share.slot.options.slack, budget)
        if grid:
            folded = share.ladder.folded(allowance, grid)
            share.rung = folded if folded.cost >= share.floor.cost else share.allowed
        room -= share.rung.cost - share.floor.cost


def _not_below(floor: Rung, rung: Rung) -> Rung:
    """A tokenizer may find fewer tokens in a longer text; what was promised stays."""
    return rung if rung.cost >= floor.cost else floor


def _write(
    shares: Sequence[Share],
    budget: int,
    counter: Counter,
    tools: tuple[dict[str, Any], ...],
    tool_tokens: int,
    warnings: Sequence[Notice],
) -> Prompt:
    stable = sum(len(s.slot.messages) for s in shares if not s.slot.render_key[0])
    parts = list(map(_kept_of, shares))
    lines = tuple(
        _slot_line(share, len(part), counter) for share, part in zip(shares, parts, strict=True)
    )
    kept = {index: message for part in parts for index, message in part.items()}
    indexes = sorted(kept)
    boundary = bisect_left(indexes, stable)
    messages = tuple(kept[index] for index in indexes)
    prefix = messages[:boundary]
    total = counter.request_overhead + tool_tokens + sum(line.kept for line in lines)
    receipt = Receipt(
        budget=budget,
        counter=counter.name,
        provenance=counter.provenance,
        overhead=counter.request_overhead,
        tools=tool_tokens,
        total=total,
        free=budget - total,
        boundary=boundary,
        prefix_digest=digest_of(tools, prefix),
        slots=lines,
        warnings=tuple(warnings),
    )
    return Prompt(messages, boundary, receipt, tools)


def _kept_of(share: Share) -> dict[int, Message]:
    """What is in the prompt of a slot, by where it stands."""
    kept = share.protected.messages(range(len(share.protected)))
    for numbers in share.ladder.kept(0, share.rung.whole):
        kept.update(share.units.messages(numbers))
    if share.rung.piece is not None:
        kept.update(share.rung.piece.messages)
    return kept


_PRESENT: Final = ("kept", "protected")


def _slot_line(share: Share, present: int, counter: Counter) -> SlotLine:
    """Account for a slot of which so many messages are in the prompt."""
    return SlotLine(
        name=share.slot.name,
        priority=share.slot.options.priority,
        stability=share.slot.options.stability,
        offered=share.offered,
        kept=share.kept,
        cut=share.offered - share.kept,
        maximum=share.maximum,
        minimum=share.minimum,
        messages=Lines(present, lambda: _message_lines(share, counter)),
    )


def _message_lines(share: Share, counter: Counter) -> list[MessageLine]:
    """Account for every message of a slot, in prompt order."""
    piece: dict[int, int] = {} if share.rung.piece is None else share.rung.piece.weights
    lines: dict[int, MessageLine] = {}
    for rule, units, numbers in _by_rule(share):
        for start, layout, every in units.members_of(numbers):
            for index in every:
                message, offered = layout.messages[index], layout.weights[index]
                tokens = offered if rule in _PRESENT else piece.get(start + index, 0)
                lines[start + index] = MessageLine(
                    message.role,
                    offered,
                    tokens,
                    offered - tokens,
                    rule,
                    counter.provenance_of(message),
                    emptied=tokens == 0 and start + index in piece and rule not in _PRESENT,
                )
    return [lines[index] for index in sorted(lines)]


def _by_rule(share: Share) -> Iterator[tuple[Rule, Units, range]]:
    """Sort the units by what kept them or took them out: the first limit that did.

    The rungs of the limits lie below one another, so each rule has one stretch of the
    units in keeping order. A unit kept in part belongs to the limit that shortened it.
    """
    start = share.rung.whole
    found: list[tuple[Rule, int, int]] = [("kept", 0, start)]
    limits: list[tuple[Rule, Rung, Rung]] = [("slack", share.rung, share.allowed)]
    if share.slot.options.max_ratio < 1:
        limits.append(("budget", share.allowed, share.ladder.highest(share.cap)))
    for rule, lower, upper in limits:
        if lower.cost < upper.cost:
            end = max(start, upper.whole + (upper.piece is not None))
            found.append((rule, start, end))
            start = end
    rest: Rule = "max_ratio" if share.slot.options.max_ratio < 1 else "budget"
    found.append((rest, start, share.ladder.top))
    yield "protected", share.protected, range(len(share.protected))
    for rule, first, end in found:
        for numbers in share.ladder.kept(first, end):
            yield rule, share.units, numbers


def _minima_ignored(shares: Sequence[Share], room: int) -> Notice:
    terms = " + ".join(f"{s.required} ({s.slot.name})" for s in shares if s.required)
    text = f"priority alone decides: {terms} exceed the {room} tokens left"
    return Notice("minima_ignored", "", f"the minima are ignored, {text}")


def _complaints_about(share: Share) -> Iterator[Notice]:
    name, minimum = share.slot.name, share.slot.options.min_tokens
    if minimum > share.maximum:
        text = f"slot {name!r}: min_tokens {minimum} is over its maximum {share.maximum}"
        yield Notice("minimum_over_maximum", name, text)
    due = min(share.minimum, share.offered)
    if share.kept < due:
        text = f"slot {name!r} keeps {share.kept} of a minimum of {due} tokens"
        yield Notice("minimum_not_honoured", name, text)
    if len(share.units) and not len(share.protected) and not (share.rung.whole or share.rung.piece):
        limit = "more protected slots needed the room"
        if share.ladder.highest(share.cap) == share.rung:
            limit = f"its maximum is {share.maximum}"
        text = f"slot {name!r} is left empty: {share.offered} tokens offered, {limit}"
        yield Notice("slot_left_empty", name, text)
