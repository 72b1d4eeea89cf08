"""A state block in a word: the one before it in the same user turn still holds.

    <slop-state generated_at="2026-04-28T10:30:07Z" format="text/tree">
    (unchanged since observation 1 of this turn)
    </slop-state>

It is rendered fresh, has its own time and stands last, as every tail; only its body is
a reference. Two tails are the same if nothing but their times differs: an app that
lost its connection, an action that appeared, a catalogue that grew is a change.
"""

from __future__ import annotations

import re
from typing import Final

from sightline.context.projection.escape import BLOCK_NAMES

_TIME: Final = re.compile(rf'^(<(?:{"|".join(BLOCK_NAMES)})) generated_at="[^"\n]*"', re.MULTILINE)
_STATE: Final = re.compile(
    rf'^<{BLOCK_NAMES[0]} generated_at="[^"\n]*" format="([^"\n]*)">$', re.MULTILINE
)


def timeless(tail: str) -> str:
    """Return a tail without the times of its blocks, to compare it with another."""
    return _TIME.sub(r"\1", tail)


def brief_state(tail: str, observation: int) -> str:
    """Return the state block of a tail with a reference for a body; empty if it has none.

    The body is of the block's own format, so that what parses bodies can parse this one.
    """
    opening = _STATE.search(tail)
    if opening is None:
        return ""
    body = f'{{"unchanged_since_observation":{observation}}}'
    if opening[1] == "text/tree":
        body = f"(unchanged since observation {observation} of this turn)"
    return f"{opening[0]}\n{body}\n</{BLOCK_NAMES[0]}>"
