"""Nodes placed at paths, as one tree.

Whatever is placed at a path stands there; a node placed below another becomes its
child, in the place of a child with its id or after the others, in the order of
`rank`; an ancestor that nobody placed or described is a `group`. A node that shows a window of its
children gets no others: what is placed below it stands in for the children in the window. A
closed node hides what is placed below it. A change costs the path to it: every place
remembers the tree below it until something there changes.
"""

from __future__ import annotations

from collections.abc import Collection

from sightline.slop.protocol.tree import Node

__all__ = ["Composition"]

Ids = tuple[str, ...]


class _Place:
    """One path: what was placed at it, what is placed below it, and the sum of both."""

    __slots__ = ("below", "composed", "described", "is_closed", "own", "rank")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.own: Node | None = None
        self.is_closed = False
        self.below: dict[str, _Place] = {}
        self.composed: Node | None = None
        # What its parent described there, when it was last composed.
        self.described: Node | None = None


class Composition:
    """A tree made of parts."""

    def __init__(self, root: Node) -> None:
        self._root = _Place(0)
        self._root.own = root
        self._likeness: tuple[object, ...] | None = None
        self._closed: dict[Ids, Node] = {}

    @property
    def tree(self) -> Node:
        """The whole, as it is now."""
        return _composed(self._root, "", None)

    @property
    def likeness(self) -> tuple[object, ...]:
        """What the whole depends on: two that are equal here, while both live, are one tree.

        Every place in order, by its name, its rank and the very node that was placed there.
        """
        if self._likeness is None:
            found: list[object] = []
            stack = [("", self._root)]
            while stack:
                name, place = stack.pop()
                found += (name, place.rank, id(place.own), place.is_closed, len(place.below))
                stack.extend(place.below.items())
            self._likeness = tuple(found)
        return self._likeness

    def adopt(self, other: Composition) -> None:
        """Take another's tree for one's own, which is like it."""
        self._root.composed = other.tree

    @property
    def closed(self) -> Collection[Node]:
        """The closed nodes, which nothing is to be added to."""
        return self._closed.values()

    def place(self, ids: Ids, node: Node | None, rank: int = 0, *, is_closed: bool = False) -> None:
        """Put a node at a path, or take it away."""
        if node is None and not self._is_placed(ids):
            return
        self._likeness = None
        place = self._root
        place.composed = None
        for node_id in ids:
            below = place.below.get(node_id)
            if below is None:
                below = place.below[node_id] = _Place(rank)
            below.composed = None
            below.rank = min(below.rank, rank)
            place = below
        place.own = node
        place.is_closed = is_closed
        if node is not None and is_closed:
            self._closed[ids] = node
        else:
            self._closed.pop(ids, None)
        if node is None:
            self._prune(ids)

    def shows(self, ids: Ids, node: Node | None, *, is_closed: bool) -> bool:
        """Tell whether exactly this was placed at a path."""
        return self.own(ids) is node and (ids in self._closed) == is_closed

    def own(self, ids: Ids) -> Node | None:
        """Return what was placed at exactly this path."""
        place = self._root
        for node_id in ids:
            below = place.below.get(node_id)
            if below is None:
                return None
            place = below
        return place.own

    def _is_placed(self, ids: Ids) -> bool:
        return self.own(ids) is not None

    def _prune(self, ids: Ids) -> None:
        """Forget places that hold nothing any more."""
        steps = [self._root]
        for node_id in ids:
            steps.append(steps[-1].below[node_id])
        for depth in range(len(ids) - 1, -1, -1):
            place = steps[depth + 1]
            if place.own is not None or place.below:
                return
            del steps[depth].below[ids[depth]]


def _composed(place: _Place, node_id: str, described: Node | None) -> Node:
    """Put together what stands at a place, where its parent may have described a child already."""
    if place.own is None and place.described is not described:
        place.composed = None
    if place.composed is None:
        node = place.own or described or Node(node_id, "group")
        place.described = described
        if place.below and not place.is_closed:
            node = node.with_child_list(_children(place, node))
        place.composed = node
    return place.composed


def _children(place: _Place, node: Node) -> tuple[Node, ...]:
    listed = {child.id: child for child in node.children}
    below = sorted(place.below.items(), key=lambda item: item[1].rank)
    if node.meta.window is not None:
        # SLOP, windowed collections: the window is a contiguous slice of all the children.
        below = [(name, inner) for name, inner in below if name in listed]
    parts = {name: _composed(inner, name, listed.get(name)) for name, inner in below}
    return tuple((listed | parts).values())
