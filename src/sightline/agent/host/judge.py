"""What is known of a call before it runs, and what changed since the model or the user looked.

Facts come from what the app shows now, not from what it showed when the model decided.
They are the app's own claims all the same: the policy knows that.

A user who is asked agrees to what is shown: this action of this app by this connection, on
this node as it is. `Case.picture` is all of that. A call runs if the picture at the moment
of running is the one that was agreed to (law 11); if not, `differences` says in what.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sightline.agent.policy import Answer, Facts, Kind, Verdict, changed_since, rules_for
from sightline.context.messages.parts import ToolCall
from sightline.context.projection.temporal import changes_between
from sightline.context.projection.tools import ToolTarget
from sightline.errors import ActionError, InvalidInput, InvalidPath
from sightline.slop.app.validate import Validator
from sightline.slop.protocol.jsontext import canonical, members, text_of
from sightline.slop.protocol.scope import ScopedAction, find_action, inherited_context
from sightline.slop.protocol.tree import Affordance, Node
from sightline.slop.protocol.world import World

if TYPE_CHECKING:
    from sightline.agent.workspace.changes import Plan


# Tools of the host that write, each to the model's own notes.
_NOTES: Final = frozenset({"manage_scratchpad", "save_memo"})
MAX_CHANGES: Final = 12
_UNSHOWN: Final = "something that is not shown here has changed"
_LABELS: Final = ("label", "title", "name")


class Lapsed(Exception):
    """What was agreed to is no longer what would happen; nothing was done."""


class Shown(msgspec.Struct, frozen=True):
    """An app's node and the action on it, as far as the app shows them.

    `context` is what the context nodes around the node say: who the user is there, say.
    """

    name: str = ""
    node: Node | None = None
    offered: ScopedAction | None = None
    context: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def label(self) -> str:
        """What the node is called, in the app's words."""
        found = {} if self.node is None else self.node.properties
        return next((str(found[key]) for key in _LABELS if found.get(key)), "")

    @property
    def about(self) -> str:
        """What the app says of the action."""
        action = None if self.offered is None else self.offered.affordance
        return "" if action is None else action.description or action.label or ""

    def description(self, *, is_tool: bool) -> dict[str, str]:
        """All that the app says of the action, by label; an MCP tool's properties belong to it."""
        labels = ("the action's ", 'its "') if is_tool else "the action's "
        return {label: text for label, text in self.picture().items() if label.startswith(labels)}

    def picture(self) -> dict[str, str]:
        """All values that a decision on the call may depend on, by label; children are left out.

        Attention hints are left out: what an app finds urgent does not change what is done.
        """
        picture = {"the app's name": self.name}
        if self.offered is not None:
            picture["the action is offered by"] = self.offered.path
            fields = msgspec.structs.asdict(self.offered.affordance)
            picture |= {f"the action's {name}": _text(value) for name, value in fields.items()}
        if self.node is not None:
            picture["the node's type"] = self.node.type
            picture["its summary"] = self.node.meta.summary or ""
            properties = members(self.node.properties_json)
            picture |= {
                f"its {_text(key)}": canonical(value).decode() for key, value in properties.items()
            }
            picture |= {
                f"the {_text(key)} around it": _text(value) for key, value in self.context.items()
            }
            picture["its content"] = _text(self.node.content_ref)
            picture["its other fields"] = _text(self.node.unknown)
        return picture


class Case(msgspec.Struct, frozen=True):
    """A call with all that is needed to decide on it, and to show it to the user.

    `seen` is what the app shows, `safe` the same without keys, which is what is shown on. `plan`
    is what an action of our own would do to files, and `diff` the same to be read.
    """

    call: ToolCall
    facts: Facts
    params: dict[str, Any]
    target: ToolTarget | None = None
    seen: Shown = msgspec.field(default_factory=Shown)
    safe: Shown = msgspec.field(default_factory=Shown)
    plan: Plan | None = None
    diff: str = ""

    @property
    def digest(self) -> str:
        """Name what the user would agree to; equal in every program that would show the same."""
        shown = [self.facts, self.target, self.seen.picture()]
        return sha256(_text(shown).encode(errors="surrogatepass")).hexdigest()

    def same_plan(self, plan: Plan | None) -> bool:
        """Tell whether the same would be done to the same files."""
        if self.plan is None or plan is None:
            return self.plan is plan
        return self.plan.digest == plan.digest

    def same_facts(self, other: Case) -> bool:
        """Tell whether the policy would decide on the same facts."""
        return self.target == other.target and self.facts == other.facts

    def same(self, other: Case) -> bool:
        """Tell whether the user would agree to the same: facts, node and action."""
        return self.same_facts(other) and self.seen.picture() == other.seen.picture()

    def same_but_params(self, other: Case) -> bool:
        """Tell whether nothing but the parameters is another, and they do nothing to files."""
        facts = msgspec.structs.replace(self.facts, params=other.facts.params)
        same = facts == other.facts and self.seen.picture() == other.seen.picture()
        return same and other.plan is None


def case_of(
    call: ToolCall,
    target: ToolTarget | None,
    *,
    reads: bool,
    world: World,
    safe: World,
    origin: str = "",
    is_ours: bool = False,
    is_server: bool = False,
) -> Case:
    """Collect the facts. `reads` says whether a call without a target changes nothing.

    `world` is what the apps show, and `safe` the same without keys; `origin` is that of the
    call's app, `is_ours` says that it is one of ours, and `is_server` that it is an MCP server.
    """
    if target is None:
        kind: Kind = "note" if call.name in _NOTES and not reads else "read"
        return Case(call, Facts(kind=kind), call.arguments)
    seen, shown = shown_by(world, target), shown_by(safe, target)
    offered = None if seen.offered is None else seen.offered.affordance
    is_tool = is_server and target.path.startswith("/tools/")
    facts = Facts(
        kind="invoke",
        app=target.app,
        origin=origin,
        is_ours=is_ours,
        is_tool=is_tool,
        path=target.path,
        label=shown.label,
        action=target.action,
        params=target.params,
        declared=offered is not None,
        dangerous=offered is not None and offered.dangerous is True,
        idempotent=offered is not None and offered.idempotent is True,
        digest=sha256(_text(seen.description(is_tool=is_tool)).encode()).hexdigest(),
        seen=shown.description(is_tool=is_tool),
    )
    return Case(call, facts, target.params, target, seen, shown)


def differences(agreed: Case, now: Case) -> tuple[str, ...]:
    """Say line by line what of a call has changed since it was agreed to."""
    lines: list[str] = []
    if agreed.facts.origin != now.facts.origin:
        lines.append(f"the app's origin: {agreed.facts.origin or 'none'} → {now.facts.origin}")
    if agreed.target != now.target:
        params = _changes(*({n: _text(v) for n, v in c.params.items()} for c in (agreed, now)))
        lines += params or ["the call itself is another one"]
    elif not agreed.same_plan(now.plan):
        lines.append("the files are not as they were: this is the diff as of now")
    lines += _changes(agreed.safe.picture(), now.safe.picture())
    if not lines and not agreed.same(now):
        lines.append(_UNSHOWN)
    return tuple(lines) or ("it changed, and changed back",)


def changes_since_answer(facts: Facts, remembered: Iterable[Answer]) -> tuple[str, ...]:
    """Return how the description of an action that the user allowed has changed."""
    answer = changed_since(facts, remembered)
    return tuple(_changes(answer.seen, facts.seen) or [_UNSHOWN]) if answer else ()


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    pairs = ((name, before.get(name), after.get(name)) for name in {**before, **after})
    return [
        f"{name}: {'nothing' if was is None else was} → {'nothing' if now is None else now}"
        for name, was, now in pairs
        if was != now
    ]


def check_params(case: Case, params: dict[str, Any]) -> None:
    """Raise InvalidInput unless a call can have other parameters, and its action takes these."""
    if case.target is None:
        raise InvalidInput("only the parameters of an app's action can be changed")
    schema = None if case.seen.offered is None else case.seen.offered.affordance.params
    if schema is None:
        return
    try:
        Validator(schema).check(params)
    except ActionError as error:
        raise InvalidInput(f"{case.facts.action}: {error.message}") from error


def with_network(case: Case) -> dict[str, Any] | None:
    """Give the parameters of a command with network; None if it has it, or cannot have it."""
    if not case.facts.is_ours or case.seen.offered is None or case.params.get("network"):
        return None
    known = (case.seen.offered.affordance.params or {}).get("properties", {})
    return {**case.params, "network": True} if {"command", "network"} <= known.keys() else None


def offered_rules(case: Case, decision: Verdict = "approve") -> tuple[Answer, ...]:
    """Give the rules that an answer can be remembered as; for a command those with network last."""
    params = with_network(case) if decision == "approve" else None
    more = () if params is None else rules_for(msgspec.structs.replace(case.facts, params=params))
    return (*rules_for(case.facts, decision), *more)


def revision_note(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Say to a model which parameters of its call the user changed."""
    changed = {name: value for name, value in after.items() if before.get(name, ...) != value}
    left_out = [name for name in before if name not in after]
    parts = [f"to {_text(changed)}"] if changed else []
    parts += [f"left out: {', '.join(left_out)}"] if left_out else []
    return f"The user changed the parameters before it ran: {'; '.join(parts) or 'to the same'}."


def changes_since(seen: World, now: World, facts: Facts) -> tuple[str, ...]:
    """Say what is different in a call's app since the model looked, the action itself first."""
    target = ToolTarget(facts.app, facts.path, facts.action, {})
    before, after = _affordance(seen, target), _affordance(now, target)
    changes: list[str] = []
    if before is not None and after is None:
        changes.append("the action is no longer offered there")
    elif before is None and after is not None:
        changes.append("the action was not offered there when the model looked")
    elif before is not None and after is not None and before != after:
        changes.append("the action is described differently now")
    lines = list(changes_between(_alone(seen, facts.app), _alone(now, facts.app)))
    changes += lines[:MAX_CHANGES]
    if len(lines) > MAX_CHANGES:
        changes.append(f"and {len(lines) - MAX_CHANGES} more changes")
    return tuple(changes)


def _affordance(world: World, target: ToolTarget) -> Affordance | None:
    offered = shown_by(world, target).offered
    return None if offered is None else offered.affordance


def shown_by(world: World, target: ToolTarget) -> Shown:
    """Look at the node and the action that a call is for, in a world."""
    app = world.app(target.app)
    if app is None or app.tree is None or app.status != "connected":
        return Shown("" if app is None else app.name)
    try:
        offered = find_action(app.tree, target.path, target.action)
        around = inherited_context(app.tree, target.path)
        return Shown(app.name, app.tree.at(target.path), offered, around)
    except InvalidPath:
        return Shown(app.name)


def _text(value: object) -> str:
    return bytes(text_of(msgspec.to_builtins(value))).decode()


def _alone(world: World, app_id: str) -> World:
    app = world.app(app_id)
    return World(() if app is None else (app,))
