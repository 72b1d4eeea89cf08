"""Mode `plan`: what the model is told of it, and the plan that an answer ends in.

    plan_of(told to the model, followed) != ""      an answer without the heading is no plan

The words stand in the tail, so that entering or leaving the mode changes no byte of the prefix.
"""

from __future__ import annotations

import re
from typing import Final

from sightline.context.messages.state import unfenced

PLANNING: Final = """\
## Plan mode

The user wants a plan before anything is done. Look, search, take notes and ask as you like; every \
action that could change something is refused. When you know enough, end your answer with the \
heading `### PLAN`, and below it what is to be done: where, in which order, and how you will check \
it. The user accepts the plan, changes or refuses it; carry it out only when it is accepted."""

# As models write it: any level, any case, blanks or one colon behind it.
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+PLAN[ \t]*(?::[ \t]*)?", re.IGNORECASE | re.ASCII)


def plan_of(answer: str) -> str:
    """Find the plan of an answer: all that follows its last heading `### PLAN`; empty if none.

    A heading in a code block is none.
    """
    ends = [start + len(line) for start, line in unfenced(answer) if _HEADING.fullmatch(line)]
    return answer[ends[-1] :].strip() if ends else ""


def accepted(plan: str, changed: str) -> str:
    """Write what a user says who accepts a plan, or another one in its stead."""
    changed = changed.strip()
    if changed in ("", plan):
        return "I accept your plan. Carry it out."
    return f"I changed your plan. Carry out this one:\n\n{changed}"
