"""Which groups of a conversation a prompt replays.

`Window(size=N)` is the last N groups in order, 0 for all of them. Sliding by one
group every turn changes the first message of every request and with it the whole
cached prefix, so a window may have slack: it grows from N to N+slack groups and
then folds back to N at once. `TokenWindow(budget=B)` does the same by weight.

Both cut on a grid computed from the sequence itself. Nothing is remembered, so
the same conversation has the same window after a restart and on another machine.

    groups shown by Window(2, slack=2):   2  3  4  2  3  4  2 …
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from sightline.errors import InvalidInput

_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Window:
    """The last `size` groups (0 = all), letting `slack` more gather before it folds back."""

    size: int = 0
    slack: int = 0

    def __post_init__(self) -> None:
        _checked(self.size, "size")
        _checked(self.slack, "slack")

    def shown(self, total: int) -> int:
        """Count the groups shown when the conversation has `total`: the last so many."""
        # std::slop, context management §1: the last N groups, 0 for the full history.
        if self.size == 0 or total <= self.size:
            return total
        return self.size + (total - self.size) % (self.slack + 1)


class TokenWindow(msgspec.Struct, frozen=True):
    """The newest groups that weigh at most `budget` tokens, cut in steps of `step` of it.

    With more than the budget at hand, the number of tokens left out is rounded up
    to the next multiple of the step, so the cut stays where it is until the
    conversation has grown by a whole step. The newest group is always shown.
    """

    budget: int
    step: float = 0.2

    def __post_init__(self) -> None:
        if _checked(self.budget, "budget") == 0:
            raise InvalidInput("a window's budget is a positive number of tokens")
        if not 0 <= self.step <= 1:
            raise InvalidInput(f"a window's step is a share of its budget, 0 to 1; not {self.step}")

    def left_out(self, total: int) -> int:
        """Count the tokens that leave when the conversation weighs `total`, from its start."""
        over = total - self.budget
        if over <= 0:
            return 0
        step = max(1, int(self.budget * self.step))
        return -(-over // step) * step


def _checked(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX:
        raise InvalidInput(f"a window's {name} is a whole number from 0 to {_MAX}; not {value!r}")
    return value
