"""What a request of an agent's would share with earlier ones, had all been made otherwise (pure).

    tools   sorted    by name
    tail    off       nothing stands in it of what apps show
            whole     the last whole state alone, behind the last message

A request weighs what its vendor counted, each unit of it as much as its bytes: nothing is sent
again, so the figures are estimates.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from sightline.gateway.bodies import RequestBody, Unit
from sightline.gateway.losses import common_units

# How what `--tail` puts into a request begins: whole, or what changed.
_WHOLE: Final = "Live state of the apps on this machine, told by Sightline"
_CHANGES: Final = "Data from apps:\n<slop-"


class AgentWishes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be different about an agent's requests; empty is as it was."""

    tools: Literal["", "sorted"] = ""
    tail: Literal["", "off", "whole"] = ""

    @property
    def how(self) -> list[str]:
        """Say how to have it so."""
        lines = [f"sightline gateway --tail {self.tail} -- AGENT"] if self.tail else []
        return [*lines, *["in the agent: send its tools sorted by name"] * bool(self.tools)]


class Shared(msgspec.Struct, frozen=True):
    """How many tokens a request has, and how many of them an earlier one begins with."""

    prompt: int
    reused: int

    def __add__(self, other: Shared) -> Shared:
        return Shared(self.prompt + other.prompt, self.reused + other.reused)


def otherwise(body: RequestBody, wishes: AgentWishes) -> tuple[Unit, ...]:
    """Return the units of a request as the wishes would have it."""
    tools, messages = body.tools, body.messages
    if wishes.tools:
        tools = tuple(sorted(tools, key=lambda tool: tool.name))
    if wishes.tail:
        wholes = [unit for unit in messages if is_whole_state(unit.text)]
        messages = tuple(unit for unit in messages if not is_state(unit))
        messages += tuple(wholes[-1:]) if wishes.tail == "whole" else ()
    return tools + body.system + messages


def is_whole_state(text: str) -> bool:
    """Whether a text tells the whole state of apps, as `--tail` puts it into a request."""
    return text.startswith(_WHOLE)


def is_state(unit: Unit) -> bool:
    """Whether a unit is what `--tail` put into a request: the whole state, or what changed."""
    return unit.role == "user" and unit.text.startswith((_WHOLE, _CHANGES))


def shared_by(
    units: tuple[Unit, ...], earlier: Iterable[tuple[Unit, ...]], tokens_per_byte: float
) -> Shared:
    """Weigh a request, and what of it the earlier one begins with that it begins most like."""
    common = max((common_units(units, one) for one in earlier), default=0)
    whole, alike = (sum(unit.size for unit in part) for part in (units, units[:common]))
    return Shared(round(whole * tokens_per_byte), round(alike * tokens_per_byte))
