"""What a subscriber sees of a tree.

In this order, each only when asked for:

    filter     drop what is not salient enough or not of the wanted types, with all below it
    truncate   at a distance from the root, a node with children becomes a depth stub
    compact    while there are too many nodes, collapse the lowest-scoring subtree
    window     a slice of the root's children

`shapes` has what a truncated and a compacted node look like.

Every step returns the same object where it changes nothing, so a view without
restrictions is the tree itself. A `Projector` remembers its last tree and view:
the view of the next tree costs what changed, and shares the rest.

*Bounds* are an app's own limits on depth and nodes. A limit belongs to a path: the whole
app's, or that of one of its views, whose depth is counted from the view. A subscription to
a node further in counts from there. So nobody is sent all of a large app unasked, and
everybody can have any part of it: what is left out are depth stubs and compacted nodes, to
be subscribed to or queried by their paths. A query is not limited, nor is what can be done:
both go by the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from sightline.errors import InvalidInput, InvalidPath
from sightline.slop.protocol.compaction import Compaction
from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.path import format_path
from sightline.slop.protocol.rewrite import DESCEND, RewriteMemory, RewriteStage, rewrite, share
from sightline.slop.protocol.shapes import depth_stub
from sightline.slop.protocol.tree import DEFAULT_SALIENCE, Meta, Node


@dataclass(frozen=True, slots=True)
class View:
    """How much of a tree to show: its depth, its number of nodes, a filter, a window.

    Equal views of one tree are equal, so they can be shared.
    """

    depth: int = -1
    max_nodes: int | None = None
    min_salience: float | None = None
    types: frozenset[str] | None = None
    window: tuple[int, int] | None = None
    retain_ancestors: bool = False
    available_actions: bool = False

    def __post_init__(self) -> None:
        if self.depth < -1:
            raise InvalidInput(f"depth must be -1 (unlimited) or more, not {self.depth}")
        if self.max_nodes is not None and self.max_nodes < 1:
            raise InvalidInput(f"max_nodes must be 1 or more, not {self.max_nodes}")
        if self.min_salience is not None and not 0 <= self.min_salience <= 1:
            raise InvalidInput(f"min_salience must be from 0 to 1, not {self.min_salience}")
        if self.window is not None and min(self.window) < 0:
            raise InvalidInput("a window's offset and count must be 0 or more")


class Projector:
    """Shows one view of a tree that changes; each result shares what did not change."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._compaction = None if view.max_nodes is None else Compaction(view.max_nodes)
        self._steps = list(_steps(view, self._compaction))

    @property
    def most_nodes(self) -> int | None:
        """How many nodes the last view has at most, where that is known without counting them."""
        return None if self._compaction is None else self._compaction.nodes

    def project(self, root: Node) -> Node:
        """Return the view of this tree."""
        for step in self._steps:
            root = step(root)
        return root


def project(root: Node, view: View) -> Node:
    """Return one view of one tree."""
    return Projector(view).project(root)


def _steps(view: View, compaction: Compaction | None) -> Iterator[Callable[[Node], Node]]:
    if view.min_salience is not None or view.types is not None:
        stage: RewriteStage = _Filter(view.min_salience, view.types, view.retain_ancestors)
        yield partial(rewrite, stage=stage, memory=RewriteMemory())
    if view.depth >= 0:
        stage = _Truncate(view.depth, view.available_actions)
        yield partial(rewrite, stage=stage, memory=RewriteMemory())
    if compaction is not None:
        yield compaction.of
    if view.window is not None:
        offset, count = view.window
        yield _Sharing(partial(window, offset=offset, count=count))


class _Sharing:
    """A step that looks at the whole tree anew, and keeps last time's objects."""

    def __init__(self, step: Callable[[Node], Node]) -> None:
        self._step = step
        self._source: Node | None = None
        self._result: Node | None = None

    def __call__(self, source: Node) -> Node:
        if self._result is None or source is not self._source:
            result = self._step(source)
            self._result = result if self._result is None else share(self._result, result)
            self._source = source
        return self._result


def window(root: Node, offset: int, count: int) -> Node:
    """Show a slice of the root's children, by their positions in the whole collection.

    A root that holds a window of its own can only show what of it is inline; the
    result's `meta.window` says what that was.
    """
    meta = root.meta
    first = meta.window[0] if meta.window is not None else 0
    start = max(offset - first, 0)
    shown = root.children[start : max(offset + count - first, 0)]
    position = first + start if shown else offset
    changed = members(root.meta_json)
    # SLOP, state tree: windowed collections.
    changed["window"] = text_of([position, len(shown)])
    changed["total_children"] = text_of(root.total_children)
    return root.with_text("meta", text_of(changed)).with_child_list(tuple(shown))


class _Filter(msgspec.Struct, frozen=True):
    min_salience: float | None
    types: frozenset[str] | None
    retain_ancestors: bool

    def enter(self, node: Node, distance: int) -> Node | object | None:
        if distance == 0:
            return DESCEND
        # SLOP, scaling: salience filtering is per node, without ancestor retention.
        passes = self._passes(node)
        if node.child_list and (passes or self.retain_ancestors):
            return DESCEND
        return node if passes else None

    def leave(self, node: Node, distance: int) -> bool:
        """Say whether a node is kept although nothing below it is."""
        return not self.retain_ancestors or distance == 0 or self._passes(node)

    def _passes(self, node: Node) -> bool:
        if self.types is not None and node.type not in self.types:
            return False
        return self.min_salience is None or _salience(node.meta) >= self.min_salience


class _Truncate(msgspec.Struct, frozen=True):
    depth: int
    available_actions: bool

    def enter(self, node: Node, distance: int) -> Node | object | None:
        if not node.child_list:
            return node
        # SLOP, state tree, progressive disclosure: nodes beyond the depth become depth stubs.
        if distance < self.depth:
            return DESCEND
        return depth_stub(node, available_actions=self.available_actions)

    def leave(self, node: Node, distance: int) -> bool:
        return True


def _salience(meta: Meta) -> float:
    return DEFAULT_SALIENCE if meta.salience is None else meta.salience


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
