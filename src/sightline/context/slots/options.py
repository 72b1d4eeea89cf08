"""What a slot may ask for: each option with its range, checked before anything is assembled.

Ranges and defaults are those of `ctx.slots`; `stability`, `keep` and `slack` are ours.
A bad value raises `InvalidSlot`, which names the slot and the option. Options
from JSON may be spelled `max_ratio` or `maxRatio`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from sightline.context.messages.parts import Role
from sightline.errors import InvalidSlot

TrimBehavior: TypeAlias = Literal["message", "char"]
Stability: TypeAlias = Literal["frozen", "append", "volatile"]
Keep: TypeAlias = Literal["tail", "head", "middle-out"]


class SlotOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The declared rules of one slot. `slots.Slots.add` explains each."""

    priority: int = 0
    max_ratio: float = 1.0
    min_ratio: float = 0.0
    min_tokens: int = 0
    position: int | None = None
    role: Role | None = None
    trim_behavior: TrimBehavior = "message"
    stability: Stability = "append"
    keep: Keep = "tail"
    slack: float = 0.0

    def check(self, slot: str) -> None:
        """Raise `InvalidSlot` for the first option that is out of its range."""
        for option in ("priority", "min_tokens"):
            _check_integer(slot, option, getattr(self, option))
        if self.position is not None:
            _check_integer(slot, "position", self.position)
        if self.min_tokens < 0:
            raise InvalidSlot(slot, "min_tokens", f"{self.min_tokens} is negative")
        for option in ("max_ratio", "min_ratio", "slack"):
            _check_ratio(slot, option, getattr(self, option))
        for option, allowed in CHOICES.items():
            value = getattr(self, option)
            if value not in allowed and not (option == "role" and value is None):
                raise InvalidSlot(slot, option, f"{value!r} is not one of {', '.join(allowed)}")
        if self.slack >= 1:
            raise InvalidSlot(slot, "slack", "a whole budget of slack leaves nothing to keep")
        if self.slack and self.keep != "tail":
            raise InvalidSlot(slot, "slack", f"only a kept tail moves; keep is {self.keep!r}")

    @classmethod
    def from_json(cls, slot: str, given: Mapping[str, Any]) -> SlotOptions:
        """Read options in either spelling; raise `InvalidSlot` for one that does not exist."""
        values: dict[str, Any] = {}
        for key, value in given.items():
            option = re.sub("(?<=[a-z])[A-Z]", lambda m: f"_{m[0].lower()}", key)
            if option not in cls.__struct_fields__:
                known = ", ".join(cls.__struct_fields__)
                raise InvalidSlot(slot, key, f"there is no such option; there are {known}")
            if option in values:
                raise InvalidSlot(slot, key, f"given twice, also as {option}")
            values[option] = value
        options = cls(**values)
        options.check(slot)
        return options


CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "role": get_args(Role),
    "trim_behavior": get_args(TrimBehavior),
    "stability": get_args(Stability),
    "keep": get_args(Keep),
}


def share_of(ratio: float, tokens: int) -> int:
    """Return ⌊ratio x tokens⌋ of the ratio as it was written: 0.29 of 100 is 29, not 28."""
    return int(Decimal(repr(float(ratio))) * tokens)


def _check_integer(slot: str, option: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSlot(slot, option, f"{value!r} is not a whole number")


def _check_ratio(slot: str, option: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise InvalidSlot(slot, option, f"{value!r} is not a number")
    if not 0 <= value <= 1:
        raise InvalidSlot(slot, option, f"{value!r} is not between 0 and 1")
