"""Account for what was decided: the lines of the receipt, and what a person should know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sightline.context.slots.ladder import Rung
from sightline.context.slots.receipt import Lines, MessageLine, Notice, Rule, SlotLine
from sightline.context.slots.shares import Share, ShareTable
from sightline.context.tokens.tokens import Counter

__all__ = ["complaints_about", "minima_ignored", "slot_line"]

PRESENT: Final = ("kept", "protected")


def slot_line(share: Share, table: ShareTable, counter: Counter) -> SlotLine:
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


def _message_lines(share: Share, table: ShareTable, counter: Counter) -> list[MessageLine]:
    """Account for every message of a slot, in prompt order."""
    kept: dict[int, int] = {} if share.rung.piece is None else dict(share.rung.piece.weights)
    rules: dict[int, Rule] = {}
    for rule, units in _by_rule(share):
        for unit in units:
            for index in table.members(unit):
                rules[index] = rule
                if rule in PRESENT:
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
                emptied=tokens == 0 and index in kept and rules[index] not in PRESENT,
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
