"""The values that the assembler works on: slots as declared, and what each is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from sightline.context.messages.parts import Message
from sightline.context.slots.ladder import Ladder, Rung
from sightline.context.slots.options import SlotOptions

__all__ = ["Share", "ShareTable", "Slot"]

NOTHING = Rung(0, 0)


class Slot(msgspec.Struct, frozen=True):
    """One call of `Slots.add`: its messages, its options, and which call it was."""

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

    @property
    def required(self) -> int:
        """What the minimum asks for beside the protected messages; no more than there is."""
        return max(0, min(self.minimum, self.offered) - self.protected_cost)


@dataclass(slots=True)
class ShareTable:
    """The messages of all slots in one list, in render order, with their weights and shares.

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
