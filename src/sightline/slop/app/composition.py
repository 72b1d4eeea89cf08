"""Nodes placed at paths, as one tree.

Whatever is placed at a path stands there; a node placed below another becomes its
child, in the place of a child with its id or after the others, in the order of
`rank`; an ancestor that nobody placed is a `group`. A change costs the path to it:
every place remembers the tree below it until something there changes.
"""

from __future__ import annotations

from sightline.slop.protocol.tree import Node

__all__ = ["Composition"]

Ids = tuple[str, ...]


class _Place:
    """One path: what was placed at it, what is placed below it, and the sum of both."""

    __slots__ = ("below", "composed", "own", "rank")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.own: Node | None = None
        self.below: dict[str, _Place] = {}
        self.composed: Node | None = None


class Composition:
    """A tree made of parts."""

    def __init__(self, root: Node) -> None:
        self._root = _Place(0)
        self._root.own = root
        self._likeness: tuple[object, ...] | None = None

    @property
    def tree(self) -> Node:
        """The whole, as it is now."""
        return _composed(self._root, "")

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
                found += (name, place.rank, id(place.own), len(place.below))
                stack.extend(place.below.items())
            self._likeness = tuple(found)
        return self._likeness

    def adopt(self, other: Composition) -> None:
        """Take another's tree for one's own, which is like it."""
        self._root.composed = other.tree

    def place(self, ids: Ids, node: Node | None, rank: int = 0) -> None:
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
        if node is None:
            self._prune(ids)

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


def _composed(place: _Place, node_id: str) -> Node:
    if place.composed is None:
        node = Node(node_id, "group") if place.own is None else place.own
        if place.below:
            below = sorted(place.below.items(), key=lambda item: item[1].rank)
            parts = {name: _composed(inner, name) for name, inner in below}
            children = [parts.pop(child.id, child) for child in node.children]
            node = node.with_child_list((*children, *parts.values()))
        place.composed = node
    return place.composed
