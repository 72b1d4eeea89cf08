"""What is known of a call before it runs, and what changed since the model looked.

Facts come from what the app shows now, not from what it showed when the model decided.
They are the app's own claims all the same: the policy knows that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sightline.context.parts import ToolCall
from sightline.errors import InvalidPath
from sightline.policy import Facts, Kind
from sightline.projection.temporal import changes_between
from sightline.projection.tools import Call
from sightline.protocol.scope import find_action
from sightline.protocol.tree import Affordance
from sightline.protocol.world import World

__all__ = ["Case", "case_of", "changes_since"]

# Tools of the host that write, each to the model's own notes.
_NOTES: Final = frozenset({"manage_scratchpad", "save_memo"})
MAX_CHANGES: Final = 12


@dataclass(frozen=True, slots=True)
class Case:
    """A call with all that is needed to decide on it, and to show it to the user."""

    call: ToolCall
    facts: Facts
    params: dict[str, Any]


def case_of(call: ToolCall, target: Call | None, *, reads: bool, world: World) -> Case:
    """Collect the facts. `reads` says whether a call without a target changes nothing."""
    if target is None:
        kind: Kind = "note" if call.name in _NOTES and not reads else "read"
        return Case(call, Facts(kind=kind), call.arguments)
    offered = _affordance(world, target)
    facts = Facts(
        kind="invoke",
        app=target.app,
        path=target.path,
        action=target.action,
        declared=offered is not None,
        dangerous=offered is not None and offered.dangerous is True,
        idempotent=offered is not None and offered.idempotent is True,
    )
    return Case(call, facts, target.params)


def changes_since(seen: World, now: World, facts: Facts) -> tuple[str, ...]:
    """Say what is different in a call's app since the model looked, the action itself first."""
    target = Call(facts.app, facts.path, facts.action, {})
    before, after = _affordance(seen, target), _affordance(now, target)
    told: list[str] = []
    if before is not None and after is None:
        told.append("the action is no longer offered there")
    elif before is None and after is not None:
        told.append("the action was not offered there when the model looked")
    elif before is not None and after is not None and before != after:
        told.append("the action is described differently now")
    lines = list(changes_between(_alone(seen, facts.app), _alone(now, facts.app)))
    told += lines[:MAX_CHANGES]
    if len(lines) > MAX_CHANGES:
        told.append(f"and {len(lines) - MAX_CHANGES} more changes")
    return tuple(told)


def _affordance(world: World, target: Call) -> Affordance | None:
    app = world.app(target.app)
    if app is None or app.tree is None or app.status != "connected":
        return None
    try:
        found = find_action(app.tree, target.path, target.action)
    except InvalidPath:
        return None
    return None if found is None else found.affordance


def _alone(world: World, app_id: str) -> World:
    app = world.app(app_id)
    return World(() if app is None else (app,))
