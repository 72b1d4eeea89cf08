"""What to tell a model that asked for something that is not there: what is, and what to do.

Pure; the names in it come from apps, and `results` makes the whole safe to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from sightline.context.projection.tools import QUERY
from sightline.errors import ActionError, ActionFailed, InvalidInput, InvalidPath
from sightline.slop.app.validate import Validator
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.scope import find_action
from sightline.slop.protocol.tree import Affordance, Node
from sightline.slop.protocol.world import World

_SHOWN: Final = 12
_CHARS: Final = 200
_SCHEMA_CHARS: Final = 2000


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which of the known names was probably meant, or which there are."""
    names = list(known)
    if close := get_close_matches(name, names, n=1):
        return f"Did you mean {_quoted(close[0])}?"
    return f"There are: {_listed(names)}." if names else "There are none."


class ToolArguments:
    """What a tool takes, by its schema."""

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        self._tool = tool
        self._known = schema["properties"]
        self._validator = Validator(schema)

    def check(self, given: Mapping[str, Any]) -> None:
        """Raise InvalidInput, with what was meant, unless these are arguments of the tool."""
        for name in given:
            if name not in self._known:
                hint = nearest(name, self._known)
                raise InvalidInput(f"{self._tool} has no argument {name!r:.100}. {hint}")
        try:
            self._validator.check(dict(given))
        except ActionError as error:
            raise InvalidInput(f"{self._tool}: {error.message}") from error


def missing_app(world: World, app: str) -> str:
    """Say that there is no such app, and which there are."""
    known = [state.id for state in world.apps] + [item.id for item in world.available]
    return f"There is no app {_quoted(app)}. {nearest(app, known)}"


def offered(world: World, app: str, path: str, action: str) -> Affordance | None:
    """Find an action as its app shows it now."""
    node = _node(world, app, path)
    actions = () if node is None else node.affordances
    return next((item for item in actions if item.action == action), None)


def missing_node(world: World, app: str, path: str, query_name: str = QUERY.name) -> str:
    """Say that there is no such node, how far its path leads, and what is there.

    `query_name` is the tool that shows more.
    """
    state = world.app(app)
    if state is None or state.tree is None:
        return f"There is no node {_quoted(path)} in {_quoted(app)}."
    ids, node, depth = parse_path(path), state.tree, 0
    while depth < len(ids) and (child := node.child(ids[depth])) is not None:
        node, depth = child, depth + 1
    if depth == len(ids):
        return f"{_quoted(path)} was not there when it was asked for, and is now: look again."
    above = format_path(ids[:depth])
    found = f"There is no {_quoted(ids[depth])} in {_quoted(above)} of {_quoted(app)}."
    if node.is_lazy or node.total_children > len(node.children):
        return (
            f"{found} Not all of it is shown: {query_name} {_quoted(above)} to see what is there."
        )
    return f"{found} {nearest(ids[depth], (child.id for child in node.children))}"


def about_failure(
    error: ActionFailed, world: World, app: str, path: str, action: str,
    query_name: str = QUERY.name,
) -> str:  # fmt: skip
    """Say what to do after an app refused an action."""
    match error.reason:
        case "not_found" if offered(world, app, path, action) is None:
            return missing_action(world, app, path, action, query_name)
        case "not_found":
            return ""  # something that its parameters name: the app has said what
        case "invalid_params":
            shown = offered(world, app, path, action)
            schema = "" if shown is None else msgspec.json.encode(shown.params or {}).decode()
            return f"Its parameters: {schema:.{_SCHEMA_CHARS}}" if schema else ""
        case "conflict":
            return "The state does not permit it now; look at the current one before you go on."
        case "unauthorized":
            return "The app does not allow it; trying again will not help."
        case _:
            return "Whether any of it was done is not known: look at the current state."


def missing_action(
    world: World, app: str, path: str, action: str, query_name: str = QUERY.name
) -> str:
    """Say that a node has no such action now, which it has, or that there is no such node."""
    state, node = world.app(app), _node(world, app, path)
    if state is None or state.tree is None or node is None:
        return missing_node(world, app, path, query_name)
    if outer := _outer(state.tree, path, action):
        return f"{_quoted(action)} is an action of {_quoted(outer)}: use that path."
    names = [item.action for item in node.affordances]
    return f"{_quoted(path)} has no action {_quoted(action)} now. {nearest(action, names)}"


def _node(world: World, app: str, path: str) -> Node | None:
    state = world.app(app)
    try:
        return None if state is None or state.tree is None else state.tree.at(path)
    except InvalidPath:
        return None


def _outer(tree: Node, path: str, action: str) -> str:
    found = find_action(tree, path, action)
    return "" if found is None or found.path == path else found.path


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(_quoted, names[:_SHOWN]))
    more = len(names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _quoted(name: str) -> str:
    return f'"{name[:_CHARS]}"'
