"""A tree laid out for choosing: document order, every subtree a run of neighbours.

For each node: where it hangs, how much hangs below it, how relevant it is, and
which claim it has to be shown. Claims come before relevance:

    PINNED   the app or the user pinned it, or something above it
    FOCUS    it is in focus, or in the view that is (the *active view*)
    REST     everything else

What stands above a claim shares it: a node cannot be shown without its ancestors.

A position is a node's number in document order. Only what may be shown gets one: the
root, what has a claim, and whatever is asked for by rank. What has to be known of all the
others is kept with their lists, and goes with these; so of a later tree only the lists on
the way to what changed are looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec

from sightline.slop.protocol.path import format_path
from sightline.slop.protocol.tree import DEFAULT_SALIENCE, Meta, Node, fold

PINNED, FOCUS, REST = range(3)

_metas: Final = msgspec.json.Decoder(list[Meta | None])
_BLANK: Final = Meta()
# Lower than any salience: nothing below says how salient it is.
_SILENT: Final = -1.0
_RANKINGS: Final = 4


# What orders all nodes that could be shown: claim, then how irrelevant, then position.
Key: TypeAlias = tuple[int, float, int]


class _Notes:
    """What choosing has to know of a run of siblings, by their offsets in it."""

    __slots__ = ("below", "declared", "flagged", "peak", "peaks", "rankings", "size", "starts")

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.below: list[int] = []
        # The salience that a node declares itself, and the highest that one below it declares.
        self.declared: list[float | None] = []
        self.peaks: list[float] = []
        # Where each subtree begins, the first one at 0.
        self.starts: list[int] = []
        # Who has something pinned or in focus, or is that.
        self.flagged: list[int] = []
        self.rankings: dict[float, tuple[list[int], list[float]]] = {}
        self.size = 0
        self.peak = _SILENT
        for offset, (node, meta) in enumerate(zip(nodes, _metas_of(nodes), strict=True)):
            below, peak, flagged = 0, _SILENT, meta.pinned is True or meta.focus is True
            for notes in map(_notes, node.runs()) if node.child_list else ():
                below += notes.size
                peak = max(peak, notes.peak)
                flagged = flagged or bool(notes.flagged)
            self.below.append(below)
            self.declared.append(meta.salience)
            self.peaks.append(peak)
            self.starts.append(self.size)
            if flagged:
                self.flagged.append(offset)
            self.size += 1 + below
            self.peak = max(self.peak, peak, _SILENT if meta.salience is None else meta.salience)

    def ranked(self, above: float) -> tuple[list[int], list[float]]:
        """The offsets, most relevant first, and how relevant each node is.

        `above` is what an undeclared salience counts as here.
        """
        known = self.rankings.get(above)
        if known is None:
            relevance = [
                max(above if declared is None else declared, peak)
                for declared, peak in zip(self.declared, self.peaks, strict=True)
            ]
            order = sorted(range(len(relevance)), key=relevance.__getitem__, reverse=True)
            if len(self.rankings) >= _RANKINGS:
                self.rankings = {}
            known = self.rankings[above] = (order, relevance)
        return known


def _notes(run: object) -> _Notes:
    notes: _Notes = run.known[_Notes]  # type: ignore[attr-defined]  # a run, of either kind
    return notes


def _metas_of(nodes: tuple[Node, ...]) -> list[Meta]:
    metas = [_BLANK] * len(nodes)
    having = [at for at, node in enumerate(nodes) if node.meta_json]
    texts = b",".join(bytes(nodes[at].meta_json) for at in having)  # type: ignore[arg-type]  # those that have one
    for at, meta in zip(having, _metas.decode(b"[" + texts + b"]"), strict=True):
        if meta is not None:
            metas[at] = meta
    return metas


def size_of(tree: Node) -> int:
    """How many nodes a tree has."""
    fold(tree, _Notes)
    return 1 + sum(_notes(run).size for run in tree.runs())


class _Row(NamedTuple):
    """A run of the children of the node at `parent`, and where it begins.

    `first` is the place of its first node among all children; `above` is what a salience that
    they do not declare counts as.
    """

    parent: int
    nodes: tuple[Node, ...]
    notes: _Notes
    position: int
    first: int
    above: float


class Ranked:
    """A run of siblings, who should be shown first in front; `end` says how many may be at all."""

    __slots__ = ("_claim", "_keys", "_order", "_outline", "_relevance", "_row", "end")

    def __init__(self, outline: Outline, row: _Row, keys: list[Key] | None) -> None:
        """Take the keys, in order, where not everybody has the same claim."""
        self._outline = outline
        self._row = row
        self._keys = keys
        self._claim = outline.region(row.parent)
        self._order, self._relevance = row.notes.ranked(row.above)
        self.end = len(self._order)

    def key(self, rank: int) -> Key:
        """The sort key of the node of this rank, which gets a position in the outline."""
        if self._keys is not None:
            key = self._keys[rank]
            self._outline.lay_out(self._row, self._offset(key))
            return key
        offset = self._order[rank]
        return self._claim, -self._relevance[offset], self._outline.lay_out(self._row, offset)

    def leave_out(self, min_salience: float) -> int:
        """Let nobody be shown who is too faint and has no claim; returns how many nodes that is."""
        if self._keys is None:
            order = self._order if self._claim == REST else []
        else:
            order = [self._offset(key) for key in self._keys if key[0] == REST]
        faint = [offset for offset in order if self._relevance[offset] < min_salience]
        self.end -= len(faint)
        return sum(1 + self._row.notes.below[offset] for offset in faint)

    def _offset(self, key: Key) -> int:
        return bisect_left(self._row.notes.starts, key[2] - self._row.position)


class Outline:
    """One app's tree, in document order; position 0 is the root."""

    def __init__(self, root: Node, pins: Collection[str] = ()) -> None:
        fold(root, _Notes)
        runs = [_notes(run) for run in root.runs()]
        declared = root.meta.salience
        salience = DEFAULT_SALIENCE if declared is None else declared
        self.nodes = {0: root}
        self.parents = {0: -1}
        self.levels = {0: 0}
        # The place of a node among its parent's children.
        self.indexes = {0: 0}
        self.below = {0: sum(notes.size for notes in runs)}
        self.salience: dict[int, float] = {0: salience}
        # Claims of whole subtrees, and of what leads to them.
        self._claimed: dict[int, int] = {}
        self._leading: dict[int, int] = {}
        # The children of a node that have a claim of their own.
        self._special: dict[int, set[int]] = {}
        # Shown whatever it costs: what is pinned, what leads there, and the root.
        self.always = {0}
        self._claim({at for at in map(self._find, pins) if at is not None})

    def offers(self, at: int) -> list[Ranked]:
        """The children of a node in runs, each ranked."""
        found: list[Ranked] = []
        special = self._special.get(at, set())
        for row in self._rows(at):
            claiming = {child for child in special if 0 <= child - row.position < row.notes.size}
            found.append(Ranked(self, row, self._keys(row, claiming) if claiming else None))
        return found

    def claim(self, at: int) -> int:
        """How strong a node's claim to be shown is: pinned, in focus, or neither."""
        return min(self.region(at), self._leading.get(at, REST))

    def region(self, at: int) -> int:
        """The claim that a node passes on to all below it."""
        if not self._claimed:
            return REST
        path = (at, *self.ancestors(at))
        return min(self._claimed.get(up, REST) for up in path)

    def lay_out(self, row: _Row, offset: int) -> int:
        """Give a node of a run its position."""
        at = row.position + row.notes.starts[offset]
        if at not in self.nodes:
            declared = row.notes.declared[offset]
            self.nodes[at] = row.nodes[offset]
            self.parents[at] = row.parent
            self.levels[at] = self.levels[row.parent] + 1
            self.indexes[at] = row.first + offset
            self.below[at] = row.notes.below[offset]
            self.salience[at] = row.above if declared is None else declared
        return at

    def ancestors(self, at: int) -> Iterator[int]:
        """The positions above a node, nearest first."""
        while (at := self.parents[at]) >= 0:
            yield at

    def path(self, at: int) -> str:
        """The request path of a node."""
        ids = [self.nodes[up].id for up in self.ancestors(at)]
        return format_path([*reversed(ids[:-1]), self.nodes[at].id]) if at else "/"

    def _rows(self, at: int) -> Iterator[_Row]:
        position, index = at + 1, 0
        above = min(DEFAULT_SALIENCE, self.salience[at])
        for run in self.nodes[at].runs():
            notes = _notes(run)
            yield _Row(at, run.nodes, notes, position, index, above)
            position += notes.size
            index += len(run.nodes)

    def _keys(self, row: _Row, special: set[int]) -> list[Key]:
        """The keys of a run in which some have claims of their own, in order."""
        _, relevance = row.notes.ranked(row.above)
        region = self.region(row.parent)
        positions = [row.position + start for start in row.notes.starts]
        return sorted(
            (self.claim(at) if at in special else region, -share, at)
            for at, share in zip(positions, relevance, strict=True)
        )

    def _find(self, path: str) -> int | None:
        at = 0
        for node_id in path.strip("/").split("/") if path.strip("/") else ():
            found = (
                self.lay_out(row, offset)
                for row in self._rows(at)
                for offset, node in enumerate(row.nodes)
                if node.id == node_id
            )
            child = next(found, None)
            if child is None:
                return None
            at = child
        return at

    def _claim(self, pins: set[int]) -> None:
        flagged = list(self._flagged())
        for at in flagged:
            if self.nodes[at].meta.focus is True:
                self._claim_subtree(self._active_view(at), FOCUS)
        pinned = {at for at in flagged if self.nodes[at].meta.pinned is True}
        for at in sorted(pinned | pins):
            self._claim_subtree(at, PINNED)
            self.always.update((at, *self.ancestors(at)))

    def _flagged(self) -> Iterator[int]:
        """Everything that is pinned or in focus, and what leads there, in document order."""
        stack = [0]
        while stack:
            at = stack.pop()
            yield at
            below = [
                self.lay_out(row, offset) for row in self._rows(at) for offset in row.notes.flagged
            ]
            stack.extend(reversed(below))

    def _claim_subtree(self, at: int, claim: int) -> None:
        if self.claim(at) <= claim:
            return
        self._claimed[at] = claim
        for up in self.ancestors(at):
            self._leading[up] = min(self._leading.get(up, REST), claim)
        for child in (at, *self.ancestors(at)):
            self._special.setdefault(self.parents[child], set()).add(child)

    def _active_view(self, at: int) -> int:
        path = (at, *self.ancestors(at))
        return next((up for up in path if self.nodes[up].type == "view"), at)
