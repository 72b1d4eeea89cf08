"""Account for what was decided: the lines of the receipt, and what a person should know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sightline.context.slots.ladder import Rung
from sightline.context.slots.receipt import Lines, MessageLine, Notice, Rule, SlotLine
from sightline.context.slots.shares import Share
from sightline.context.slots.units import Units
from sightline.context.tokens.tokens import Counter

PRESENT: Final = ("kept", "protected")


def slot_line(share: Share, present: int, counter: Counter) -> SlotLine:
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
                tokens = offered if rule in PRESENT else piece.get(start + index, 0)
                lines[start + index] = MessageLine(
                    message.role,
                    offered,
                    tokens,
                    offered - tokens,
                    rule,
                    counter.provenance_of(message),
                    emptied=tokens == 0 and start + index in piece and rule not in PRESENT,
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


def minima_ignored(shares: Sequence[Share], room: int) -> Notice:
    terms = " + ".join(f"{s.required} ({s.slot.name})" for s in shares if s.required)
    return Notice(
        "minima_ignored",
        "",
        f"the minima are ignored, priority alone decides: {terms} exceed the {room} tokens left",
    )


def complaints_about(share: Share) -> list[Notice]:
    slot, found = share.slot, []
    minimum = slot.options.min_tokens
    if minimum > share.maximum:
        found.append(
            Notice(
                "minimum_over_maximum",
                slot.name,
                f"slot {slot.name!r}: min_tokens {minimum} is over its maximum {share.maximum}",
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
    if len(share.units) and not len(share.protected) and not (share.rung.whole or share.rung.piece):
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
