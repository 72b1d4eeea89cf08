"""What a model can call, as tools: a fixed few, or one for every action on the screen.

*fixed* (the default): four tools that never change, whatever the apps show. The
tool list stands first in a prompt, and a changed list voids the whole cached
prefix; what can be done is in the state block anyway.

*dynamic*: one tool per action that is exposed now. Where many children of one node
share an action with the same schema, they share one tool that takes a `target`.

The same trees give the same bytes, in an order that does not depend on the apps'.
A tool set resolves its own names; `resolve_json` is the map to keep with a turn.
App text in descriptions is escaped like all app text.

Names are legal everywhere, unique after case folding, and the same for the same tools:
`{node id}__{action}`, each part with `_` for what is not a letter, digit or `_`.
Where two would get one name, the parents' ids are put before it until they differ;
with several apps the app's id comes first. A name over the limit is cut, and ends
in `_` and seven digits of a hash over what it stands for.

Names are never read back: a tool set carries the exact map from name to action.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from sightline.context.projection.escape import escape_line, escape_text
from sightline.errors import InvalidInput
from sightline.slop.protocol.jsontext import text_of
from sightline.slop.protocol.path import format_path
from sightline.slop.protocol.tree import Affordance, Node
from sightline.slop.protocol.world import World

NAME_LIMIT: Final = 64
_SHORTEST_LIMIT: Final = 16
_HASH_CHARS: Final = 7
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_]")


class WantedName(msgspec.Struct, frozen=True):
    """What a name is wanted for: an action on a node, given by the ids from the root to it.

    `app` is empty where there is only one. `variant` tells apart what has the same
    node and action; it shows in the name only where nothing else would.
    """

    app: str
    ids: tuple[str, ...]
    action: str
    variant: str = ""

    def name(self, parents: int) -> str:
        """The name with this many parents' ids in front."""
        ids = self.ids[max(len(self.ids) - 1 - parents, 0) :]
        parts = (self.app, *ids, self.action) if self.app else (*ids, self.action)
        name = "__".join(_ILLEGAL.sub("_", part) for part in parts)
        return f"_{name}" if name[:1].isdigit() else name

    def digest(self) -> str:
        """The hash over app, path, action and variant, by which two that share a name differ."""
        exact = "\0".join((self.app, *self.ids, self.action, self.variant)).encode(
            "utf-8", "surrogatepass"
        )
        return hashlib.sha256(exact).hexdigest()


def unique_names(
    wanted: Sequence[WantedName], limit: int = NAME_LIMIT, taken: Collection[str] = ()
) -> list[str]:
    """Name everything in `wanted`.

    Raises InvalidInput on a tiny limit, and where two of them are the same.
    """
    if limit < _SHORTEST_LIMIT:
        raise InvalidInput(f"a limit on names must be {_SHORTEST_LIMIT} or more, not {limit}")
    reserved = {name.casefold() for name in taken}
    parents = [0] * len(wanted)
    names = [item.name(0) for item in wanted]
    colliding = _colliding(names, reserved)
    while colliding:
        longer = [at for at in colliding if parents[at] < len(wanted[at].ids) - 1]
        if not longer:
            break
        for at in longer:
            parents[at] += 1
            names[at] = wanted[at].name(parents[at])
        colliding = _colliding(names, reserved)
    unsettled = set(colliding) | {at for at, name in enumerate(names) if len(name) > limit}
    digits = _HASH_CHARS
    while unsettled:
        if digits > limit - 2:
            raise InvalidInput("two actions have the same app, path and name")
        for at in unsettled:
            names[at] = _hashed(wanted[at], parents[at], limit, digits)
        # A cut name may meet another; more of the hash parts them.
        unsettled = set(_colliding(names, reserved))
        digits += 1
    return names


def _hashed(item: WantedName, parents: int, limit: int, digits: int) -> str:
    return f"{item.name(parents)[: limit - 1 - digits]}_{item.digest()[:digits]}"


def _colliding(names: Sequence[str], reserved: set[str]) -> list[int]:
    folded = [name.casefold() for name in names]
    counts = Counter(folded)
    return [at for at, name in enumerate(folded) if counts[name] > 1 or name in reserved]


GROUP_FROM: Final = 8
ENUM_UP_TO: Final = 20
_DESCRIPTION_CHARS: Final = 500
DANGEROUS: Final = "[dangerous: confirm with the user first]"
_TEXTS: Final = ("title", "description", "$comment")


class Tool(msgspec.Struct, frozen=True):
    """A tool in no vendor's format: name, description, JSON Schema of the arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class Target(msgspec.Struct, frozen=True):
    """What a tool stands for. A grouped tool has `paths`, and the argument that picks one."""

    app: str
    path: str
    action: str
    paths: tuple[str, ...] = ()
    argument: str = ""


class ToolTarget(NamedTuple):
    """A tool call, resolved: what to invoke."""

    app: str
    path: str
    action: str
    params: dict[str, Any]


class ToolSet(msgspec.Struct, frozen=True):
    """Tools, and what each of them stands for."""

    tools: tuple[Tool, ...]
    targets: Mapping[str, Target] = msgspec.field(default_factory=dict)

    def tools_json(self) -> bytes:
        """The tools as a JSON list; the same bytes for the same tools."""
        return msgspec.json.encode(self.tools)

    def resolve_json(self) -> bytes:
        """The map from name to app, path and action, to be kept with the turn."""
        return msgspec.json.encode(
            {name: _target_value(target) for name, target in self.targets.items()}
        )

    def resolve(self, name: str, arguments: Mapping[str, Any]) -> ToolTarget:
        """Say what a call of a tool invokes. Raises InvalidInput if it invokes nothing."""
        if name == INVOKE.name and name not in self.targets:
            return _fixed_call(arguments)
        target = self.targets.get(name)
        if target is None:
            raise InvalidInput(f"there is no tool {name!r}")
        params = dict(arguments)
        if not target.paths:
            return ToolTarget(target.app, target.path, target.action, params)
        path = params.pop(target.argument, None)
        if path not in target.paths:
            raise InvalidInput(
                f"{name}: {target.argument} must be one of its {len(target.paths)} paths"
            )
        return ToolTarget(target.app, path, target.action, params)


def object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    """Write the JSON Schema of an object: the names that it must have, and what each may be."""
    return {"type": "object", "properties": properties, "required": list(required)}


_APP: Final = {"type": "string", "description": "The id in the app's heading, e.g. mail-app"}
_PATH: Final = {
    "type": "string",
    "description": "Ids from below the root, e.g. /inbox/msg-42; / is the root",
}

INVOKE: Final = Tool(
    "slop_invoke",
    "Do one of the actions listed in the current state block. The app checks again whether it is "
    "allowed. Actions that cannot be undone may need the user's approval.",
    object_schema(
        "app",
        "path",
        "action",
        app=_APP,
        path=_PATH,
        action={"type": "string", "description": "The action's name, as listed on the node"},
        params={"type": "object", "description": "The action's parameters"},
    ),
)
QUERY: Final = Tool(
    "slop_query",
    "Read more of an app's state than the current state block shows: children not loaded, or "
    "another part of a collection.",
    object_schema(
        "app",
        app=_APP,
        path=_PATH,
        depth={"type": "integer", "minimum": -1, "description": "Levels below it; -1 is all"},
        offset={"type": "integer", "minimum": 0, "description": "The first child to show"},
        count={"type": "integer", "minimum": 1, "description": "How many children to show"},
    ),
)
FOCUS: Final = Tool(
    "slop_focus",
    "Ask that a node is shown in full in the next state blocks.",
    object_schema("app", "path", app=_APP, path=_PATH),
)
UNFOCUS: Final = Tool(
    "slop_unfocus",
    "Let a node that you focused be shown as any other again.",
    object_schema("app", "path", app=_APP, path=_PATH),
)
FIXED_TOOLS: Final = (INVOKE, QUERY, FOCUS, UNFOCUS)


def fixed_tools() -> ToolSet:
    """The tools that are the same in every request."""
    return ToolSet(FIXED_TOOLS)


class _Offer(msgspec.Struct, frozen=True):
    """One tool to be: an action on one node, or (`paths`) on several children of one."""

    app: str
    ids: tuple[str, ...]
    affordance: Affordance
    paths: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return format_path(self.ids[1:])

    def wanted(self, *, prefixed: bool) -> WantedName:
        group = bytes(text_of(self.affordance)).hex() if self.paths else ""
        prefix = self.app if prefixed else ""
        return WantedName(prefix, self.ids, self.affordance.action, f"{self.app} {group}")


def dynamic_tools(
    world: World,
    *,
    limit: int = NAME_LIMIT,
    group_from: int = GROUP_FROM,
    prefix_apps: bool | None = None,
) -> ToolSet:
    """Make a tool of every action that is exposed by a connected app.

    `limit` is the longest name the vendor takes. From `group_from` nodes on, children
    of one node that share an action share a tool. App ids are put before the names
    where there are several apps, or as `prefix_apps` says.
    """
    prefixed = len(world.apps) > 1 if prefix_apps is None else prefix_apps
    offers: list[_Offer] = []
    for app in world.apps:
        if app.live_tree is not None:
            offers.extend(_offers(app.id, app.live_tree, group_from))
    wanted = [offer.wanted(prefixed=prefixed) for offer in offers]
    names = unique_names(wanted, limit, taken=[tool.name for tool in FIXED_TOOLS])
    pairs = sorted(
        (_tool(name, offer) for name, offer in zip(names, offers, strict=True)),
        key=lambda pair: pair[0].name,
    )
    return ToolSet(tuple(tool for tool, _ in pairs), {tool.name: target for tool, target in pairs})


def _offers(app: str, root: Node, group_from: int) -> Iterator[_Offer]:
    """Go through a tree; children that share an action, byte for byte, come as one offer."""
    for affordance in root.affordances:
        yield _Offer(app, (root.id,), affordance)
    stack: list[tuple[Node, tuple[str, ...]]] = [(root, (root.id,))]
    while stack:
        parent, above = stack.pop()
        groups: dict[bytes, list[_Offer]] = {}
        for child in parent.children:
            for affordance in child.affordances:
                offer = _Offer(app, (*above, child.id), affordance)
                groups.setdefault(bytes(text_of(affordance)), []).append(offer)
        for offers in groups.values():
            if len(offers) < group_from:
                yield from offers
            else:
                paths = tuple(offer.path for offer in offers)
                yield _Offer(app, above, offers[0].affordance, paths)
        below = [(child, (*above, child.id)) for child in parent.children if child.child_list]
        stack.extend(reversed(below))


def _tool(name: str, offer: _Offer) -> tuple[Tool, Target]:
    affordance = offer.affordance
    schema = _parameters(affordance.params)
    if not offer.paths:
        tool = Tool(name, _description(affordance, f"on {offer.path}"), schema)
        return tool, Target(offer.app, offer.path, affordance.action)
    argument = _free_name(schema["properties"])
    choice: dict[str, Any] = {"type": "string", "description": "The path of the node to act on"}
    if len(offer.paths) <= ENUM_UP_TO:
        choice["enum"] = list(offer.paths)
    schema["properties"] = {argument: choice, **schema["properties"]}
    schema["required"] = [argument, *schema.get("required", ())]
    where = f"on one of {len(offer.paths)} nodes in {offer.path}"
    tool = Tool(name, _description(affordance, where), schema)
    return tool, Target(offer.app, offer.path, affordance.action, offer.paths, argument)


def _description(affordance: Affordance, where: str) -> str:
    label, about = affordance.label or affordance.action, affordance.description
    words = escape_line(f"{label}: {about}" if about else label)
    if len(words) > _DESCRIPTION_CHARS:
        words = f"{words[: _DESCRIPTION_CHARS - 1]}…"
    text = f"{words} ({escape_line(where)})"
    return f"{DANGEROUS} {text}" if affordance.dangerous else text


def _parameters(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """The app's schema as an object schema, with its prose escaped."""
    schema = _escaped_prose(dict(params or {}))
    schema["type"] = "object"
    if not isinstance(schema.get("properties"), dict):
        schema["properties"] = {}
    if not isinstance(schema.get("required"), list):
        schema.pop("required", None)
    return schema


def _escaped_prose(schema: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _TEXTS and isinstance(value, str):
            result[key] = escape_text(value)
        elif isinstance(value, dict):
            result[key] = _escaped_prose(value)
        elif isinstance(value, list):
            result[key] = [_escaped_prose(v) if isinstance(v, dict) else v for v in value]
        else:
            result[key] = value
    return result


def _free_name(properties: Mapping[str, Any]) -> str:
    name = "target"
    while name in properties:
        name += "_path"
    return name


def _fixed_call(arguments: Mapping[str, Any]) -> ToolTarget:
    match {**arguments, "params": arguments.get("params") or {}}:
        case {"app": str(app), "path": str(path), "action": str(action), "params": dict(params)}:
            return ToolTarget(app, path, action, params.copy())
    raise InvalidInput("slop_invoke takes app, path and action as strings, params as an object")


def _target_value(target: Target) -> dict[str, Any]:
    value: dict[str, Any] = {"path": target.path, "action": target.action}
    if target.app:
        value = {"app": target.app, **value}
    if target.paths:
        value.update(paths=list(target.paths), argument=target.argument)
    return value
