"""Decide who gets the tokens. The theory is at the top of `slots`.

One pass over the messages weighs and groups them, one sort orders the slots,
and then the work is per slot: two questions to its ladder. So the cost is
linear in what was offered, whatever is cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import msgspec

from sightline.context.messages.parts import Message, tool_rounds
from sightline.context.slots.account import complaints_about, minima_ignored, slot_line
from sightline.context.slots.ladder import CharLadder, Ladder, Rung
from sightline.context.slots.options import share_of
from sightline.context.slots.prompt import Prompt, digest_of
from sightline.context.slots.receipt import Notice, Receipt
from sightline.context.slots.shares import Share, ShareTable, Slot
from sightline.context.tokens.tokens import Counter
from sightline.errors import DoesNotFit

__all__ = ["assemble"]


def assemble(
    slots: Sequence[Slot],
    budget: int,
    counter: Counter,
    tools: Sequence[dict[str, Any]] = (),
    notices: Sequence[Notice] = (),
) -> Prompt:
    """Put the slots together within the budget, or raise `DoesNotFit` with the arithmetic."""
    table = _lay_out(slots, counter)
    tool_tokens = sum(counter.count(msgspec.json.encode(tool).decode()) for tool in tools)
    room = _room(table.shares, budget, counter.request_overhead, tool_tokens)
    warnings = list(notices)
    _set_bounds(table, budget, counter)
    # ctx.slots, notes: where the minima exceed the budget, they are ignored and priority decides.
    if sum(share.required for share in table.shares) > room:
        warnings.append(minima_ignored(table.shares, room))
        for share in table.shares:
            share.minimum = 0
    trimming_order = sorted(table.shares, key=lambda share: share.slot.options.priority)
    _fill(trimming_order[::-1], budget, room)
    warnings += [warning for share in table.shares for warning in complaints_about(share)]
    return _write(table, budget, counter, tuple(tools), tool_tokens, warnings)


def _lay_out(slots: Sequence[Slot], counter: Counter) -> ShareTable:
    """Weigh the messages and deal their units out to the slots.

    A tool call and its results are one unit even across slots; the most protected
    of them holds it, so that the unit stays or goes as a whole.
    """
    shares = [Share(slot) for slot in sorted(slots, key=lambda slot: slot.render_key)]
    messages = [message for share in shares for message in share.slot.messages]
    rounds = {unit[0]: unit for unit in tool_rounds(messages)}
    table = ShareTable(messages, counter.weigh(messages), shares, rounds)
    held: list[list[int]] = [[] for _ in shares]
    spanning = False
    starts = list(accumulate((len(share.slot.messages) for share in shares), initial=0))
    for unit in rounds.values():
        home = bisect_right(starts, unit[0]) - 1
        if unit[-1] >= starts[home + 1]:
            spanning = True
            homes = (bisect_right(starts, index) - 1 for index in unit)
            home = max(homes, key=lambda number: (shares[number].slot.options.priority, number))
        held[home].append(unit[0])
    in_rounds = {index for unit in rounds.values() for index in unit}
    # ctx.slots, priority: while all have the default, system messages will not be trimmed.
    protecting = all(slot.options.priority == 0 for slot in slots)
    for share, own_rounds, start, stop in zip(shares, held, starts, starts[1:], strict=False):
        share.units = range(start, stop)
        if rounds:
            alone = [index for index in share.units if index not in in_rounds]
            share.units = sorted(alone + own_rounds)
        if protecting and (spanning or _has_system_message(share.slot)):
            _protect_system_messages(share, table)
    return table


def _has_system_message(slot: Slot) -> bool:
    return any(message.role == "system" for message in slot.messages)


def _protect_system_messages(share: Share, table: ShareTable) -> None:
    units, share.units = share.units, []
    for unit in units:
        if any(table.messages[index].role == "system" for index in table.members(unit)):
            share.protected.append(unit)
            share.protected_cost += table.cost(unit)
        else:
            share.units.append(unit)


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


def _set_bounds(table: ShareTable, budget: int, counter: Counter) -> None:
    for share in table.shares:
        options = share.slot.options
        if isinstance(share.units, range):
            costs = table.weights[share.units.start : share.units.stop]
        else:
            weights, rounds = table.weights, table.rounds
            costs = [table.cost(u) if u in rounds else weights[u] for u in share.units]
        if options.trim_behavior == "char":
            share.ladder = CharLadder(share.units, costs, options.keep, table.messages_of, counter)
        else:
            share.ladder = Ladder(share.units, costs, options.keep)
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
    table: ShareTable,
    budget: int,
    counter: Counter,
    tools: tuple[dict[str, Any], ...],
    tool_tokens: int,
    warnings: Sequence[Notice],
) -> Prompt:
    lines = tuple(slot_line(share, table, counter) for share in table.shares)
    stable = sum(len(s.slot.messages) for s in table.shares if not s.slot.render_key[0])
    kept: dict[int, Message] = {}
    for share in table.shares:
        for unit in chain(share.protected, share.ladder.units[: share.rung.whole]):
            for index in table.members(unit):
                kept[index] = table.messages[index]
        if share.rung.piece is not None:
            kept.update(share.rung.piece.messages)
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
