"""What a subscriber sees of a tree.

In this order, each only when asked for:

    filter     drop what is not salient enough or not of the wanted types, with all below it
    truncate   at a distance from the root, a node with children becomes a depth stub
    compact    while there are too many nodes, collapse the lowest-scoring subtree
    window     a slice of the root's children

A *depth stub* says "there is something here, ask": id, type and meta only. A
*compacted node* says "its subtree had to go": id, type, properties, affordances
and meta. The two shapes are never blurred, and in both `meta.total_children` is
the declared total where the app declared one.

Every step returns the same object where it changes nothing, so a view without
restrictions is the tree itself. A `Projector` remembers its last tree and view:
the view of the next tree costs what changed, and shares the rest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from sightline.errors import InvalidInput
from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.rewrite import DESCEND, RewriteMemory, RewriteStage, rewrite
from sightline.slop.protocol.share import share
from sightline.slop.protocol.tree import Meta, Node

__all__ = ["Projector", "View", "compact", "filter_tree", "project", "truncate", "window"]

DEFAULT_SALIENCE: Final = 0.5
_NO_PROPERTIES: Final = Raw(b"{}")


@dataclass(frozen=True, slots=True)
class View:
    """What to show. Equal views of one tree are equal, so they can be shared."""

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
        self._steps = list(_steps(view))

    def project(self, root: Node) -> Node:
        """Return the view of this tree."""
        for step in self._steps:
            root = step(root)
        return root


def project(root: Node, view: View) -> Node:
    """Return one view of one tree."""
    return Projector(view).project(root)


def _steps(view: View) -> Iterator[Callable[[Node], Node]]:
    if view.min_salience is not None or view.types is not None:
        stage: RewriteStage = _Filter(view.min_salience, view.types, view.retain_ancestors)
        yield partial(rewrite, stage=stage, memory=RewriteMemory())
    if view.depth >= 0:
        stage = _Truncate(view.depth, view.available_actions)
        yield partial(rewrite, stage=stage, memory=RewriteMemory())
    if view.max_nodes is not None:
        yield _Sharing(partial(compact, max_nodes=view.max_nodes))
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


def filter_tree(
    root: Node,
    min_salience: float | None = None,
    types: frozenset[str] | None = None,
    *,
    retain_ancestors: bool = False,
) -> Node:
    """Drop nodes below a salience or of other types, with their subtrees; never the root.

    With `retain_ancestors` a node stays if something below it does.
    """
    return rewrite(root, _Filter(min_salience, types, retain_ancestors))


def truncate(root: Node, depth: int, *, available_actions: bool = False) -> Node:
    """Make depth stubs of the nodes with children at this distance from the root."""
    return root if depth < 0 else rewrite(root, _Truncate(depth, available_actions))


def window(root: Node, offset: int, count: int) -> Node:
    """Show a slice of the root's children, by their place in the whole collection.

    A root that holds a window of its own can only show what of it is inline; the
    result's `meta.window` says what that was.
    """
    meta = root.meta
    first = meta.window[0] if meta.window is not None else 0
    start = max(offset - first, 0)
    shown = root.children[start : max(offset + count - first, 0)]
    place = first + start if shown else offset
    changed = members(root.meta_json)
    changed["window"] = text_of([place, len(shown)])
    changed["total_children"] = text_of(root.total_children)
    return root.with_text("meta", text_of(changed)).with_child_list(tuple(shown))


def depth_stub(node: Node, *, available_actions: bool = False) -> Node:
    """The node as a pointer to itself: id, type and meta."""
    actions = [item.action for item in node.affordances] if available_actions else []
    hints: dict[str, object] = {"available_actions": actions} if actions else {}
    return _with_total(node, Node(node.id, node.type), hints)


def compacted_node(node: Node) -> Node:
    """The node without its subtree and content reference.

    One that has neither properties nor affordances says that it has no properties: a consumer
    tells it from a depth stub, which says nothing of them.
    """
    properties = node.properties_json
    if isinstance(properties, UnsetType) and isinstance(node.affordances_json, UnsetType):
        properties = _NO_PROPERTIES
    bare = Node(node.id, node.type, properties, affordances_json=node.affordances_json)
    hints: dict[str, object] = {}
    if not node.meta.summary:
        hints["summary"] = f"{node.total_children} children"
    return _with_total(node, bare, hints)


def _with_total(node: Node, shape: Node, hints: dict[str, object]) -> Node:
    if node.meta.total_children is None:
        hints["total_children"] = len(node.children)
    if not hints:
        return msgspec.structs.replace(shape, meta_json=node.meta_json)
    meta = members(node.meta_json)
    meta.update((name, text_of(value)) for name, value in hints.items())
    return shape.with_text("meta", text_of(meta))


@dataclass(frozen=True, slots=True)
class _Filter(RewriteStage):
    min_salience: float | None
    types: frozenset[str] | None
    retain_ancestors: bool

    def enter(self, node: Node, distance: int) -> Node | object | None:
        if distance == 0:
            return DESCEND
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


@dataclass(frozen=True, slots=True)
class _Truncate(RewriteStage):
    depth: int
    available_actions: bool

    def enter(self, node: Node, distance: int) -> Node | object | None:
        if not node.child_list:
            return node
        if distance < self.depth:
            return DESCEND
        return depth_stub(node, available_actions=self.available_actions)

    def leave(self, node: Node, distance: int) -> bool:
        return True


def _salience(meta: Meta) -> float:
    return DEFAULT_SALIENCE if meta.salience is None else meta.salience


def compact(root: Node, max_nodes: int) -> Node:
    """Collapse the lowest-scoring subtrees until at most `max_nodes` nodes are left.

    score = salience - distance * 0.01 - descendants * 0.001, ties in document order,
    as the tree is before anything is collapsed. The root, its children, pinned nodes
    and what is above or below a pinned node stay, over budget if need be.
    """
    outline = _Outline(root)
    descendants = outline.descendants
    excess = len(outline.nodes) - max_nodes
    # Collapsed subtrees, none inside another, by where they begin.
    collapsed: list[int] = []
    for at in outline.candidates() if excess > 0 else ():
        if excess <= 0:
            break
        here = bisect_right(collapsed, at)
        if here and at <= collapsed[here - 1] + descendants[collapsed[here - 1]]:
            continue
        swallowed = slice(here, bisect_right(collapsed, at + descendants[at]))
        excess -= descendants[at] - sum(descendants[inner] for inner in collapsed[swallowed])
        collapsed[swallowed] = [at]
    return outline.rebuilt(collapsed)


class _Outline:
    """A tree laid out in document order: every subtree is a run of neighbours."""

    def __init__(self, root: Node) -> None:
        self.nodes: list[Node] = []
        self.parents: list[int] = []
        self.distances: list[int] = []
        stack = [(root, -1, 0)]
        while stack:
            node, parent, distance = stack.pop()
            mine = len(self.nodes)
            self.nodes.append(node)
            self.parents.append(parent)
            self.distances.append(distance)
            if node.child_list:
                stack.extend((child, mine, distance + 1) for child in reversed(node.child_list))
        self.descendants = [0] * len(self.nodes)
        for at in range(len(self.nodes) - 1, 0, -1):
            self.descendants[self.parents[at]] += self.descendants[at] + 1

    def candidates(self) -> list[int]:
        """What may be collapsed, lowest score first."""
        metas = [node.meta for node in self.nodes]
        kept = bytearray(meta.pinned is True for meta in metas)
        for at in range(1, len(self.nodes)):
            if kept[self.parents[at]]:
                kept[at] = 1
        for at in range(len(self.nodes) - 1, 0, -1):
            if kept[at]:
                kept[self.parents[at]] = 1
        scored = [
            (_salience(metas[at]) - self.distances[at] * 0.01 - self.descendants[at] * 0.001, at)
            for at in range(1, len(self.nodes))
            if self.descendants[at] and self.distances[at] > 1 and not kept[at]
        ]
        scored.sort()
        return [at for _, at in scored]

    def rebuilt(self, collapsed: list[int]) -> Node:
        """Make the tree with these subtrees collapsed; what is above none of them is shared."""
        results = {at: compacted_node(self.nodes[at]) for at in collapsed}
        dirty = {self.parents[at] for at in collapsed}
        for at in range(max(dirty, default=-1), -1, -1):
            if at in dirty:
                results[at] = self.nodes[at].with_child_list(self._children(at, results))
                dirty.add(self.parents[at])
        return results.get(0, self.nodes[0])

    def _children(self, at: int, results: dict[int, Node]) -> tuple[Node, ...]:
        children = []
        child, last = at + 1, at + self.descendants[at]
        while child <= last:
            children.append(results.get(child, self.nodes[child]))
            child += 1 + self.descendants[child]
        return tuple(children)
