"""How much a subscription is shown at most: an app's own limits on depth and nodes. Pure.

A limit belongs to a path: the whole app's, or that of one of its views, whose depth is counted
from the view. A subscription to a node further in counts from there. So nobody is sent all of a
large app unasked, and everybody can have any part of it: what is left out are depth stubs and
compacted nodes, to be subscribed to or queried by their paths. A query is not limited, nor is
what can be done: both go by the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from sightline.errors import InvalidPath
from sightline.slop.protocol.path import format_path
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import Projector, View

Ids = tuple[str, ...]


class Bound(msgspec.Struct, frozen=True):
    """At most so many levels below a node, at most so many nodes; None is no limit."""

    depth: int | None = None
    max_nodes: int | None = None

    def __post_init__(self) -> None:
        """Raise InvalidInput for numbers that mean nothing."""
        View(depth=0 if self.depth is None else self.depth, max_nodes=self.max_nodes)

    def or_else(self, other: Bound) -> Bound:
        """Take from another what this one does not say."""
        return Bound(
            other.depth if self.depth is None else self.depth,
            other.max_nodes if self.max_nodes is None else self.max_nodes,
        )

    def applied_to(self, view: View) -> View:
        """Say what of a view is really shown."""
        depths = [depth for depth in (view.depth, self.depth) if depth is not None and depth >= 0]
        nodes = [count for count in (view.max_nodes, self.max_nodes) if count is not None]
        return replace(view, depth=min(depths, default=-1), max_nodes=min(nodes) if nodes else None)


_NONE: Final = Bound()


class Bounds:
    """The limits of an app and of its views, by path; `hints` puts actions' names on stubs."""

    def __init__(self, *, hints: bool = False) -> None:
        self._bounds: dict[Ids, Bound] = {}
        self._hints = hints
        # Goes up whenever a limit is set, so that whoever holds a bounding sees that it is old.
        self.version = 0

    def set(self, path: Ids, bound: Bound) -> None:
        """Limit what is shown from a path on."""
        if bound != _NONE or path in self._bounds:
            self._bounds[path] = bound
            self.version += 1

    def nearest(self, path: Ids) -> Bound:
        """What holds for a subscription to a path: the nearest limit of each kind around it."""
        found = _NONE
        for end in range(len(path), -1, -1):
            found = found.or_else(self._bounds.get(path[:end], _NONE))
        return found

    def at(self, path: Ids) -> Bounding | None:
        """What cuts the tree of a subscription to a path; None where nothing does."""
        bound, inner = self.nearest(path), self._inside(path)
        return Bounding(bound, inner, hints=self._hints) if inner or bound != _NONE else None

    def _inside(self, path: Ids) -> dict[Ids, Bounding]:
        """What cuts the views below a path, by their paths from there; inner ones are theirs."""
        below = [other for other in self._bounds if _is_inside(other, path)]
        nearest = [one for one in below if not any(_is_inside(one, other) for other in below)]
        return {
            one[len(path) :]: Bounding(self._bounds[one], self._inside(one), hints=self._hints)
            for one in nearest
        }


class Bounding:
    """Cuts an app's tree for one subscription; each result shares what did not change."""

    def __init__(self, bound: Bound, inner: dict[Ids, Bounding], *, hints: bool = False) -> None:
        self.bound = bound
        self._inner = inner
        depth = -1 if bound.depth is None else bound.depth
        self._truncate = Projector(View(depth=depth, available_actions=hints))
        self._compact = Projector(View(max_nodes=bound.max_nodes))
        self._source: Node | None = None
        self._result: Node | None = None

    def __call__(self, source: Node) -> Node:
        """Return what of a tree is shown."""
        if self._result is None or source is not self._source:
            self._source, self._result = source, self._cut(source)
        return self._result

    def _cut(self, tree: Node) -> Node:
        # A view that counts its own levels is a leaf to what counts around it.
        parts = {
            path: node
            for path, inner in self._inner.items()
            if inner.bound.depth is not None and (node := _find(tree, path)) is not None
        }
        for path in parts:
            tree = tree.change_at(path, _without_children)
        tree = self._truncate.project(tree)
        for path, inner in self._inner.items():
            left = _find(tree, path)
            if left is not None:
                tree = tree.change_at(path, _always(inner(parts.get(path, left))))
        return self._compact.project(tree)


def _is_inside(one: Ids, other: Ids) -> bool:
    return len(one) > len(other) and one[: len(other)] == other


def _find(tree: Node, path: Ids) -> Node | None:
    try:
        return tree.at(format_path(path))
    except InvalidPath:
        return None


def _without_children(node: Node) -> Node:
    return node.with_child_list(())


def _always(node: Node) -> Callable[[Node], Node]:
    return lambda _: node
