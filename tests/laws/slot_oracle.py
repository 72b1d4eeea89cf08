"""What the rules allow, found twice more and without the assembler's code.

`exhaustive` tries every combination of cuts and takes the best one by the rules'
own preference. `by_hand` does what the seed describes, one message at a time:
cap, trim from the least protected, give back what was freed. Both are for small
sets with whole-message trimming and no slack; both answer with the kept tokens of
each slot, or None when what must stay does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import floor

from laws.slot_sets import SlotSet
from sightline.context.messages.parts import Message, ToolCall, ToolResult
from sightline.context.tokens.tokens import CharsPerFour


@dataclass
class OracleSlot:
    name: str
    protected: int
    costs: list[int]  # of units, the last to leave first
    maximum: int
    minimum: int
    rank: tuple[int, int]

    def rungs(self) -> list[int]:
        return [sum(self.costs[:count]) for count in range(len(self.costs) + 1)]

    @property
    def cap(self) -> int:
        return max(0, self.maximum - self.protected)

    @property
    def due(self) -> int:
        return max(0, min(self.minimum, self.protected + sum(self.costs)) - self.protected)


def exhaustive(given: SlotSet) -> dict[str, int] | None:
    slots, room = read(given)
    if room < 0:
        return None
    goals = []
    for slot in slots:
        enough = [rung for rung in slot.rungs() if rung >= slot.due and rung <= slot.cap]
        within = [rung for rung in slot.rungs() if rung <= slot.cap]
        goals.append(min(enough) if enough else max(within))
    feasible = (
        kept
        for kept in product(*(s.rungs() for s in slots))
        if sum(kept) <= room and all(k <= s.cap for k, s in zip(kept, slots, strict=True))
    )
    best = max(
        feasible,
        key=lambda kept: ([min(k, g) for k, g in zip(kept, goals, strict=True)], list(kept)),
    )
    return {s.name: s.protected + k for s, k in zip(slots, best, strict=True)}


def by_hand(given: SlotSet) -> dict[str, int] | None:
    slots, room = read(given)
    if room < 0:
        return None
    kept = [list(slot.costs) for slot in slots]
    for slot, units in zip(slots, kept, strict=True):
        while sum(units) > slot.cap:
            units.pop()
    for respecting_minima in (True, False):
        for slot, units in reversed(list(zip(slots, kept, strict=True))):
            least = slot.due if respecting_minima else 0
            while units and total(kept) > room and sum(units[:-1]) >= least:
                units.pop()
    for slot, units in zip(slots, kept, strict=True):
        while len(units) < len(slot.costs):
            unit = slot.costs[len(units)]
            if sum(units) + unit > slot.cap or total(kept) + unit > room:
                break
            units.append(unit)
    return {s.name: s.protected + sum(units) for s, units in zip(slots, kept, strict=True)}


def total(kept: list[list[int]]) -> int:
    return sum(map(sum, kept))


def read(given: SlotSet) -> tuple[list[OracleSlot], int]:
    """Return the slots, the most protected first, and the room beside what must stay."""
    counter = CharsPerFour()
    default = all(not options.get("priority") for _, _, options in given.slots)
    ordered = sorted(
        enumerate(given.slots),
        key=lambda item: (
            item[1][2].get("stability") == "volatile",
            item[1][2].get("position", item[0]),
            item[0],
        ),
    )
    slots, room = [], given.budget
    for place, (_, (name, content, options)) in enumerate(ordered):
        protected, costs = 0, []
        for unit in units(messages(content, options.get("role") or "user")):
            cost = sum(counter.weigh(unit))
            if default and any(message.role == "system" for message in unit):
                protected += cost
            else:
                costs.append(cost)
        room -= protected
        maximum = hundredths(options.get("max_ratio", 1.0), given.budget)
        least = min(options.get("min_ratio", 0.0), options.get("max_ratio", 1.0))
        minimum = max(hundredths(least, given.budget), options.get("min_tokens", 0))
        slots.append(
            OracleSlot(
                name,
                protected,
                keeping_order(costs, options.get("keep", "tail")),
                maximum,
                min(minimum, maximum),
                (options.get("priority", 0), place),
            )
        )
    slots.sort(key=lambda slot: slot.rank, reverse=True)
    if sum(slot.due for slot in slots) > room:
        for slot in slots:
            slot.minimum = 0
    return slots, room


def hundredths(ratio: float, budget: int) -> int:
    return floor(round(ratio * 100) * budget / 100)


def messages(content: object, role: str) -> list[Message]:
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Message.of(role, content)]  # type: ignore[arg-type]  # a role by construction
    assert isinstance(content, list)
    return content


def units(given: list[Message]) -> list[list[Message]]:
    found: list[list[Message]] = []
    for message in given:
        answers = {p.call_id for p in message.parts if isinstance(p, ToolResult)}
        for unit in found:
            calls = {p.id for m in unit for p in m.parts if isinstance(p, ToolCall)}
            if calls & answers:
                unit.append(message)
                break
        else:
            found.append([message])
    return found


def keeping_order(costs: list[int], keep: str) -> list[int]:
    left = list(costs)
    order: list[int] = []
    while left:
        from_end = keep == "tail" or (keep == "middle-out" and len(order) % 2 == 0)
        order.append(left.pop(-1 if from_end else 0))
    return order
