"""Decide who gets the tokens. The theory is at the top of `slots`.

What was offered before is laid out already (`units`), one sort orders the slots, and
then the work is per slot: two questions to its ladder. So the cost is linear in what is
new and in what is kept, however much there is to be cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec

from sightline.context.messages.parts import Message
from sightline.context.slots.account import complaints_about, minima_ignored, slot_line
from sightline.context.slots.ladder import CharLadder, Ladder, Rung
from sightline.context.slots.options import share_of
from sightline.context.slots.prompt import Prompt, digest_of
from sightline.context.slots.receipt import Notice, Receipt
from sightline.context.slots.shares import Share, Slot
from sightline.context.slots.units import Layout, Units, joined, lay_out
from sightline.context.tokens.tokens import Counter
from sightline.errors import DoesNotFit


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
        warnings.append(minima_ignored(shares, room))
        for share in shares:
            share.minimum = 0
    trimming_order = sorted(shares, key=lambda share: share.slot.options.priority)
    _fill(trimming_order[::-1], budget, room)
    warnings += [warning for share in shares for warning in complaints_about(share)]
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
    protected = [share for share in shares if share.protected_cost]
    fixed = [("request frame", overhead), ("tools", tools)]
    fixed += [(f"system messages of {s.slot.name!r}", s.protected_cost) for s in protected]
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
        slot_line(share, len(part), counter) for share, part in zip(shares, parts, strict=True)
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
