"""Nodes placed at paths, as one tree.

Whatever is placed at a path stands there; a node placed below another becomes its
child, instead of a child with its id or after the others, in the order of
`rank`; an ancestor that nobody placed or described is a `group`. A node that shows a window of its
children gets no others: what is placed below it stands in for the children in the window. A
closed node hides what is placed below it. A change costs the path to it: every entry
remembers the tree below it until something there changes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sightline.slop.protocol.tree import Node

Ids = tuple[str, ...]


@dataclass(eq=False, repr=False, slots=True)
class _Entry:
    """One path: what was placed at it, what is placed below it, and the sum of both."""

    rank: int
    node: Node | None = None
    is_closed: bool = False
    below: dict[str, _Entry] = field(default_factory=dict)
    composed: Node | None = None
    # What its parent described there, when it was last composed.
    described: Node | None = None


class Composition:
    """One session's tree, composed of the nodes that were put at its paths."""

    def __init__(self, root: Node) -> None:
        self._root = _Entry(0, root)
        self._likeness: tuple[object, ...] | None = None
        self._closed: dict[Ids, Node] = {}

    @property
    def tree(self) -> Node:
        """The whole, as it is now."""
        return _composed(self._root, "", None)

    @property
    def likeness(self) -> tuple[object, ...]:
        """What the whole depends on: two that are equal here, while both live, are one tree.

        Every entry in order, by its id, its rank and the very node that was put there.
        """
        if self._likeness is None:
            found: list[object] = []
            stack = [("", self._root)]
            while stack:
                name, entry = stack.pop()
                found += (name, entry.rank, id(entry.node), entry.is_closed, len(entry.below))
                stack.extend(entry.below.items())
            self._likeness = tuple(found)
        return self._likeness

    def adopt(self, other: Composition) -> None:
        """Share the tree of another composition that has the same likeness."""
        self._root.composed = other.tree

    @property
    def closed(self) -> Collection[Node]:
        """The closed nodes, which nothing is to be added to."""
        return self._closed.values()

    def put(self, ids: Ids, node: Node | None, rank: int = 0, *, is_closed: bool = False) -> bool:
        """Put a node at a path, or take it away; False if there was none to take away."""
        if node is None and self.node_at(ids) is None:
            return False
        self._likeness = None
        entry = self._root
        entry.composed = None
        for node_id in ids:
            below = entry.below.get(node_id)
            if below is None:
                below = entry.below[node_id] = _Entry(rank)
            below.composed = None
            below.rank = min(below.rank, rank)
            entry = below
        entry.node = node
        entry.is_closed = is_closed
        if node is not None and is_closed:
            self._closed[ids] = node
        else:
            self._closed.pop(ids, None)
        if node is None:
            self._prune(ids)
        return True

    def shows(self, ids: Ids, node: Node | None, *, is_closed: bool) -> bool:
        """Tell whether exactly this was placed at a path."""
        return self.node_at(ids) is node and (ids in self._closed) == is_closed

    def node_at(self, ids: Ids) -> Node | None:
        """Return what was placed at exactly this path."""
        entry = self._root
        for node_id in ids:
            below = entry.below.get(node_id)
            if below is None:
                return None
            entry = below
        return entry.node

    def _prune(self, ids: Ids) -> None:
        """Forget the entries of a path that hold nothing any more."""
        steps = [self._root]
        for node_id in ids:
            steps.append(steps[-1].below[node_id])
        for depth in range(len(ids) - 1, -1, -1):
            entry = steps[depth + 1]
            if entry.node is not None or entry.below:
                return
            del steps[depth].below[ids[depth]]


def _composed(entry: _Entry, node_id: str, described: Node | None) -> Node:
    """Compose the node of an entry, whose parent may have described it as a child already."""
    if entry.node is None and entry.described is not described:
        entry.composed = None
    if entry.composed is None:
        node = entry.node or described or Node(node_id, "group")
        entry.described = described
        if entry.below and not entry.is_closed:
            node = node.with_child_list(_children(entry, node))
        entry.composed = node
    return entry.composed


def _children(entry: _Entry, node: Node) -> tuple[Node, ...]:
    listed = {child.id: child for child in node.children}
    below = sorted(entry.below.items(), key=lambda item: item[1].rank)
    if node.meta.window is not None:
        # SLOP, state tree: a window is a contiguous slice of all the children.
        below = [(name, inner) for name, inner in below if name in listed]
    parts = {name: _composed(inner, name, listed.get(name)) for name, inner in below}
    return tuple((listed | parts).values())
