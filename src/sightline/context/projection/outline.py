"""A tree laid out for choosing: one pass, document order, every subtree a run of neighbours.

For each node: where it hangs, how much hangs below it, how relevant it is, and
which claim it has to be shown. Claims come before relevance:

    PINNED   the app or the user pinned it, or something above it
    FOCUS    it is in focus, or in the view that is (the *active view*)
    REST     everything else

What stands above a claim shares it: a node cannot be shown without its ancestors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from sightline.slop.protocol.path import format_path
from sightline.slop.protocol.tree import DEFAULT_SALIENCE, Meta, Node

__all__ = ["FOCUS", "PINNED", "REST", "Outline"]

PINNED, FOCUS, REST = range(3)

_metas: Final = msgspec.json.Decoder(list[Meta | None])
_BLANK: Final = Meta()


class Outline:
    """One app's tree, in document order; position 0 is the root."""

    def __init__(self, root: Node, pins: Collection[str] = ()) -> None:
        self.nodes: list[Node] = []
        self.parents: list[int] = []
        stack = [(root, -1)]
        while stack:
            node, parent = stack.pop()
            mine = len(self.nodes)
            self.nodes.append(node)
            self.parents.append(parent)
            if node.child_list:
                stack.extend((child, mine) for child in reversed(node.child_list))
        self.below = [0] * len(self.nodes)
        for at in range(len(self.nodes) - 1, 0, -1):
            self.below[self.parents[at]] += self.below[at] + 1
        metas = self._metas()
        self._rank(metas)
        self._claim(metas, {self._find(path) for path in pins} - {None})

    def children(self, at: int) -> Iterator[int]:
        """The positions of a node's children, in document order."""
        child, last = at + 1, at + self.below[at]
        while child <= last:
            yield child
            child += 1 + self.below[child]

    def ranked_children(self, at: int) -> list[int]:
        """The positions of a node's children, who should be shown first in front."""
        return sorted(self.children(at), key=self.key)

    def key(self, at: int) -> tuple[int, float, int]:
        """Order nodes: claim, then relevance, then document order."""
        return self.claims[at], -self.relevance[at], at

    def level(self, at: int) -> int:
        """How far a node is from the root."""
        return sum(1 for _ in self.ancestors(at))

    def ancestors(self, at: int) -> Iterator[int]:
        """The positions above a node, nearest first."""
        while (at := self.parents[at]) >= 0:
            yield at

    def path(self, at: int) -> str:
        """The request path of a node."""
        ids = [self.nodes[up].id for up in self.ancestors(at)]
        return format_path([*reversed(ids[:-1]), self.nodes[at].id]) if at else "/"

    def _find(self, path: str) -> int | None:
        at = 0
        for node_id in path.strip("/").split("/") if path.strip("/") else ():
            found = (child for child in self.children(at) if self.nodes[child].id == node_id)
            child = next(found, None)
            if child is None:
                return None
            at = child
        return at

    def _metas(self) -> list[Meta]:
        metas = [_BLANK] * len(self.nodes)
        having = [at for at, node in enumerate(self.nodes) if node.meta_json]
        texts = b",".join(bytes(self.nodes[at].meta_json) for at in having)  # type: ignore[arg-type]  # those that have one
        for at, meta in zip(having, _metas.decode(b"[" + texts + b"]"), strict=True):
            if meta is not None:
                metas[at] = meta
        return metas

    def _rank(self, metas: list[Meta]) -> None:
        """Salience as declared; else the default, but no more than the parent's.

        A node is as relevant as the most salient thing below it that says so itself.
        """
        self.salience = [0.0] * len(metas)
        for at, meta in enumerate(metas):
            declared = meta.salience
            if declared is None:
                above = self.salience[self.parents[at]] if at else DEFAULT_SALIENCE
                declared = min(DEFAULT_SALIENCE, above)
            self.salience[at] = declared
        self.relevance = list(self.salience)
        for at in range(len(metas) - 1, 0, -1):
            parent = self.parents[at]
            declares = metas[at].salience is not None or self.relevance[at] > self.salience[at]
            if declares and self.relevance[at] > self.relevance[parent]:
                self.relevance[parent] = self.relevance[at]

    def _claim(self, metas: list[Meta], pins: set[int | None]) -> None:
        self.claims = [REST] * len(metas)
        # Shown whatever it costs: what is pinned, what leads there, and the root.
        self.always = {0}
        for at, meta in enumerate(metas):
            if meta.focus is True:
                self._claim_subtree(self._active_view(at), FOCUS)
        for at, meta in enumerate(metas):
            if meta.pinned is True or at in pins:
                self._claim_subtree(at, PINNED)
                self.always.update((at, *self.ancestors(at)))

    def _claim_subtree(self, at: int, claim: int) -> None:
        if self.claims[at] <= claim:
            return
        self.claims[at : at + self.below[at] + 1] = [
            min(mine, claim) for mine in self.claims[at : at + self.below[at] + 1]
        ]
        for up in self.ancestors(at):
            self.claims[up] = min(self.claims[up], claim)

    def _active_view(self, at: int) -> int:
        path = (at, *self.ancestors(at))
        return next((up for up in path if self.nodes[up].type == "view"), at)
