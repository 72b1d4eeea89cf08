"""What applies at a node: its own actions and context, and those of everything around it.

Scope works as in a program: local first, then the parent, then the root. At each level
the node itself comes first and then its children of type `context`, which speak for the
level they stand on. An inner action or value hides an outer one of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from sightline.errors import InvalidPath
from sightline.slop.protocol.path import format_path, join, parse_path
from sightline.slop.protocol.tree import Affordance, Node

_CONTEXT: Final = "context"


class ScopedAction(NamedTuple):
    """An action and the path of the node that offers it."""

    path: str
    affordance: Affordance


def actions_in_scope(tree: Node, path: str) -> list[ScopedAction]:
    """Return the actions that can be reached from a node, nearest first. Raises InvalidPath."""
    found: dict[str, ScopedAction] = {}
    for where, node in _outward(tree, path):
        for affordance in node.affordances:
            found.setdefault(affordance.action, ScopedAction(where, affordance))
    return list(found.values())


def find_action(tree: Node, path: str, action: str) -> ScopedAction | None:
    """Look for an action at a node and then upward. Raises InvalidPath for the node itself."""
    found = actions_in_scope(tree, path)
    return next((scoped for scoped in found if scoped.affordance.action == action), None)


def inherited_context(tree: Node, path: str) -> dict[str, Any]:
    """Return what the context nodes around a node say, the nearest last word. Raises InvalidPath.

    Outer values come first, in their order; what is said again further in takes their place.
    """
    context: dict[str, Any] = {}
    for _, node in reversed(list(_outward(tree, path))):
        # SLOP, scaling: inner scopes inherit the context of outer ones.
        if node.type == _CONTEXT:
            context.update(node.properties)
    return context


def nearest_context(tree: Node, path: str) -> dict[str, Any]:
    """Like `inherited_context`, from as far down a path as the tree goes: the rest is not shown."""
    ids = parse_path(path)
    for end in range(len(ids), 0, -1):
        try:
            return inherited_context(tree, format_path(ids[:end]))
        except InvalidPath:
            continue
    return inherited_context(tree, "/")


def _outward(tree: Node, path: str) -> Iterator[tuple[str, Node]]:
    """Go from a node to the root, through the context nodes of each level."""
    ids = parse_path(path)
    line = [tree]
    for node_id in ids:
        child = line[-1].child(node_id)
        if child is None:
            raise InvalidPath(path, f"there is no node {node_id!r}")
        line.append(child)
    # SLOP, scaling: scope resolution, local first, then the parent, then the root.
    for depth in range(len(line) - 1, -1, -1):
        where, node = format_path(ids[:depth]), line[depth]
        yield where, node
        for child in node.children:
            # The one that we came through has had its turn.
            if child.type == _CONTEXT and (depth == len(ids) or child.id != ids[depth]):
                yield join(where, child.id), child
