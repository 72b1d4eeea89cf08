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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import msgspec

from sightline.errors import InvalidInput
from sightline.slop.protocol.compaction import Compaction
from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.rewrite import DESCEND, RewriteMemory, RewriteStage, rewrite
from sightline.slop.protocol.shapes import depth_stub
from sightline.slop.protocol.share import share
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
