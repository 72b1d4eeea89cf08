"""The counter that a recorded request was weighed with.

An estimate is corrected by what a vendor reports, and the correction is kept nowhere. But
the receipt has every weight that came of it:

    weight = fixed + ⌈estimate x factor⌉      so factor is in ((kept - 1) / n, kept / n]

All messages of a request together leave an interval so small that any factor in it weighs
them alike.
"""

from __future__ import annotations

import math

from sightline.agent.host import stage
from sightline.agent.host.journal import Recorded
from sightline.context.dialects.profile import Profile
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt
from sightline.context.tokens.estimate import Calibration
from sightline.context.tokens.tokens import Counter

__all__ = ["counter_as_then", "counter_of"]


def counter_of(profile: Profile, calibration: Calibration | None = None) -> Counter:
    """Return the counter of a model for one look: what is looked at does not come again."""
    return stage.counter_of(profile, calibration).alone()


def counter_as_then(recorded: Recorded) -> Counter:
    """Return the counter of a recorded request, corrected as it was."""
    plain = counter_of(recorded.profile)
    weighed = _weighed(recorded.prompt)
    once, twice = (
        counter_of(recorded.profile, Calibration(start=factor)).weigh([m for m, _ in weighed])
        for factor in (1.0, 2.0)
    )
    least, most = 0.0, math.inf
    for (_, weight), one, two in zip(weighed, once, twice, strict=True):
        estimate, corrected = two - one, weight - (2 * one - two)
        if estimate > 0:
            least = max(least, (corrected - 1) / estimate)
            most = min(most, corrected / estimate)
    if not least < most < math.inf:
        return plain  # its counter is not one that is corrected
    return counter_of(recorded.profile, Calibration(start=(least + most) / 2))


def _weighed(prompt: Prompt) -> list[tuple[Message, int]]:
    """The messages that are in a prompt as they were offered, with their weights."""
    lines = [line for slot in prompt.receipt.slots for line in slot.messages if line.is_present]
    if len(lines) != len(prompt.messages):
        return []
    placed = zip(prompt.messages, lines, strict=True)
    return [(message, line.kept) for message, line in placed if not line.cut]
