"""The values that the assembler works on: slots as declared, and what each is given."""

from __future__ import annotations

from typing import Final

import msgspec

from sightline.context.slots.ladder import Ladder, Rung
from sightline.context.slots.options import SlotOptions
from sightline.context.slots.units import MessageBlocks, Units

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
    def protected_cost(self) -> int:
        return self.protected.total

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
