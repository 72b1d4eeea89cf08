"""Decide who gets the tokens. The theory is at the top of `slots`.

One pass over the messages weighs and groups them, one sort orders the slots,
and then the work is per slot: two questions to its ladder. So the cost is
linear in what was offered, whatever is cut.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import msgspec

from sightline.context.ladder import CharLadder, Ladder, Rung
from sightline.context.options import SlotOptions, share_of
from sightline.context.parts import Message, tool_rounds
from sightline.context.prompt import Prompt, digest_of
from sightline.context.receipt import Lines, MessageLine, Notice, Receipt, Rule, SlotLine
from sightline.context.tokens import Counter
from sightline.errors import DoesNotFit

__all__ = ["Slot", "assemble"]

NOTHING = Rung(0, 0)


class Slot(msgspec.Struct, frozen=True):
    """One call of `add`: what was offered, under which rules, as the how-manieth."""

    name: str
    messages: tuple[Message, ...]
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


@dataclass(slots=True)
class Share:
    """What one slot gets, while it is being decided. Costs are without the protected part."""

    slot: Slot
    units: Sequence[int] = ()
    protected: list[int] = field(default_factory=list)
    protected_cost: int = 0
    maximum: int = 0
    minimum: int = 0
    ladder: Ladder = field(default_factory=lambda: Ladder((), (), "tail"))
    floor: Rung = NOTHING
    allowed: Rung = NOTHING
    rung: Rung = NOTHING

    @property
    def cap(self) -> int:
        """What the maximum leaves beside the protected messages."""
        return max(0, self.maximum - self.protected_cost)

    @property
    def offered(self) -> int:
        return self.protected_cost + self.ladder.total

    @property
    def kept(self) -> int:
        return self.protected_cost + self.rung.cost


@dataclass(slots=True)
class _Table:
    """Everything offered, flat, in render order.

    A unit is named by its first message; `rounds` has the units of more than one.
    """

    messages: list[Message]
    weights: list[int]
    shares: list[Share]
    rounds: dict[int, tuple[int, ...]]

    def members(self, unit: int) -> tuple[int, ...]:
        return self.rounds.get(unit, (unit,))

    def messages_of(self, unit: int) -> dict[int, Message]:
        return {index: self.messages[index] for index in self.members(unit)}

    def cost(self, unit: int) -> int:
        return sum(map(self.weights.__getitem__, self.members(unit)))


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
    if sum(_required(share) for share in table.shares) > room:
        warnings.append(_minima_ignored(table.shares, room))
        for share in table.shares:
            share.minimum = 0
    trimming_order = sorted(table.shares, key=lambda share: share.slot.options.priority)
    _fill(trimming_order[::-1], budget, room)
    warnings += [warning for share in table.shares for warning in _complaints(share)]
    return _write(table, budget, counter, tuple(tools), tool_tokens, warnings)


def _lay_out(slots: Sequence[Slot], counter: Counter) -> _Table:
    """Weigh the messages and deal their units out to the slots.

    A tool call and its results are one unit even across slots; the most protected
    of them holds it, so that the unit stays or goes as a whole.
    """
    shares = [Share(slot) for slot in sorted(slots, key=lambda slot: slot.render_key)]
    messages = [message for share in shares for message in share.slot.messages]
    rounds = {unit[0]: unit for unit in tool_rounds(messages)}
    table = _Table(messages, counter.weigh(messages), shares, rounds)
    held: list[list[int]] = [[] for _ in shares]
    starts = list(accumulate((len(share.slot.messages) for share in shares), initial=0))
    for unit in rounds.values():
        home = bisect_right(starts, unit[0]) - 1
        if unit[-1] >= starts[home + 1]:
            homes = (bisect_right(starts, index) - 1 for index in unit)
            home = max(homes, key=lambda number: (shares[number].slot.options.priority, number))
        held[home].append(unit[0])
    in_rounds = {index for unit in rounds.values() for index in unit}
    protecting = all(slot.options.priority == 0 for slot in slots)
    for share, own_rounds, start, stop in zip(shares, held, starts, starts[1:], strict=False):
        share.units = range(start, stop)
        if rounds:
            alone = [index for index in share.units if index not in in_rounds]
            share.units = sorted(alone + own_rounds)
        if protecting and any(message.role == "system" for message in share.slot.messages):
            _protect_system_messages(share, table)
    return table


def _protect_system_messages(share: Share, table: _Table) -> None:
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


def _set_bounds(table: _Table, budget: int, counter: Counter) -> None:
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
        share.maximum = share_of(options.max_ratio, budget)
        ratio = min(options.min_ratio, options.max_ratio)
        share.minimum = min(max(share_of(ratio, budget), options.min_tokens), share.maximum)


def _required(share: Share) -> int:
    """What the minimum asks for beside the protected messages; no more than there is."""
    return max(0, min(share.minimum, share.offered) - share.protected_cost)


def _fill(shares: Sequence[Share], budget: int, room: int) -> None:
    """Give each its minimum, then each as much as there is, the most protected first.

    A minimum is met by whole units and may cost more than it says; where the minima
    then do not all fit, the least protected fall short.
    """
    for share in shares:
        floor = share.ladder.lowest(_required(share))
        if floor.cost > min(room, share.cap):
            floor = share.ladder.highest(min(room, share.cap))
        share.floor = floor
        room -= floor.cost
    for share in shares:
        allowance = min(share.cap, room + share.floor.cost)
        share.allowed = _not_below(share.floor, share.ladder.highest(allowance))
        grid = share_of(share.slot.options.slack, budget)
        folded = share.ladder.folded(allowance, grid)
        share.rung = folded if folded.cost >= share.floor.cost else share.allowed
        room -= share.rung.cost - share.floor.cost


def _not_below(floor: Rung, rung: Rung) -> Rung:
    """A tokenizer may find fewer tokens in a longer text; what was promised stays."""
    return rung if rung.cost >= floor.cost else floor


def _minima_ignored(shares: Sequence[Share], room: int) -> Notice:
    terms = " + ".join(f"{_required(s)} ({s.slot.name})" for s in shares if _required(s))
    return Notice(
        "minima_ignored",
        "",
        f"the minima are ignored, priority alone decides: {terms} exceed the {room} tokens left",
    )


def _complaints(share: Share) -> list[Notice]:
    slot, found = share.slot, []
    asked = slot.options.min_tokens
    if asked > share.maximum:
        found.append(
            Notice(
                "minimum_over_maximum",
                slot.name,
                f"slot {slot.name!r}: min_tokens {asked} is over its maximum {share.maximum}",
            )
        )
    due = min(share.minimum, share.offered)
    if share.kept < due:
        found.append(
            Notice(
                "minimum_not_honoured",
                slot.name,
                f"slot {slot.name!r} keeps {share.kept} of a minimum of {due} tokens",
            )
        )
    if share.units and not share.protected and not (share.rung.whole or share.rung.piece):
        limit = (
            f"its maximum is {share.maximum}"
            if share.ladder.highest(share.cap) == share.rung
            else "more protected slots needed the room"
        )
        found.append(
            Notice(
                "slot_left_empty",
                slot.name,
                f"slot {slot.name!r} is left empty: {share.offered} tokens offered, {limit}",
            )
        )
    return found


def _write(
    table: _Table,
    budget: int,
    counter: Counter,
    tools: tuple[dict[str, Any], ...],
    tool_tokens: int,
    warnings: Sequence[Notice],
) -> Prompt:
    lines = tuple(_slot_line(share, table, counter) for share in table.shares)
    stable = sum(len(s.slot.messages) for s in table.shares if not s.slot.render_key[0])
    kept: dict[int, Message] = {}
    for share in table.shares:
        for unit in chain(share.protected, share.ladder.units[: share.rung.whole]):
            for index in table.members(unit):
                kept[index] = table.messages[index]
        if share.rung.piece is not None:
            kept.update(share.rung.piece.messages)
    places = sorted(kept)
    boundary = bisect_left(places, stable)
    messages = tuple(kept[index] for index in places)
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


def _slot_line(share: Share, table: _Table, counter: Counter) -> SlotLine:
    return SlotLine(
        name=share.slot.name,
        priority=share.slot.options.priority,
        stability=share.slot.options.stability,
        offered=share.offered,
        kept=share.kept,
        cut=share.offered - share.kept,
        maximum=share.maximum,
        minimum=share.minimum,
        messages=Lines(lambda: _message_lines(share, table, counter)),
    )


def _message_lines(share: Share, table: _Table, counter: Counter) -> list[MessageLine]:
    """Account for every message of a slot, in prompt order."""
    kept: dict[int, int] = {} if share.rung.piece is None else dict(share.rung.piece.weights)
    rules: dict[int, Rule] = {}
    for rule, units in _by_rule(share):
        for unit in units:
            for index in table.members(unit):
                rules[index] = rule
                if rule in ("kept", "protected"):
                    kept[index] = table.weights[index]
    lines = []
    for index in sorted(rules):
        message, offered, tokens = table.messages[index], table.weights[index], kept.get(index, 0)
        lines.append(
            MessageLine(
                message.role,
                offered,
                tokens,
                offered - tokens,
                rules[index],
                counter.provenance_of(message),
            )
        )
    return lines


def _by_rule(share: Share) -> list[tuple[Rule, Sequence[int]]]:
    """Sort the units by what kept them or took them out: the first limit that did.

    The rungs of the limits lie below one another, so each rule has one stretch of the
    units in keeping order. A unit kept in part belongs to the limit that shortened it.
    """
    units = share.ladder.units
    start = share.rung.whole
    found: list[tuple[Rule, Sequence[int]]] = [
        ("protected", share.protected),
        ("kept", units[:start]),
    ]
    limits: list[tuple[Rule, Rung, Rung]] = [("slack", share.rung, share.allowed)]
    if share.slot.options.max_ratio < 1:
        limits.append(("budget", share.allowed, share.ladder.highest(share.cap)))
    for rule, lower, upper in limits:
        if lower.cost < upper.cost:
            end = max(start, upper.whole + (upper.piece is not None))
            found.append((rule, units[start:end]))
            start = end
    found.append(("max_ratio" if share.slot.options.max_ratio < 1 else "budget", units[start:]))
    return found
