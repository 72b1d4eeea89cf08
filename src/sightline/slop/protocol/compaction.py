"""Collapse the lowest-scoring subtrees of a tree that changes, at the cost of the change.

    Compaction(n).of(tree) is what collapsing one subtree after the other leaves of it

*Theory of operation.* Scores are those of the tree before anything is collapsed, so what
is collapsed in the end is whatever scores at most as much as the last one did: a
*threshold*. How many nodes a threshold hides in a run of siblings, and from which score to
which that stays so, depends on the run and its distance from the root alone. It is kept
with the run, and goes with it (so nothing in it may lead back to the run: nodes are not
looked at by the garbage collector). A later tree shares its runs with the one before, all but
those on the way to what changed: only these are counted anew.

The threshold of the last tree is mostly that of the next, or a few scores away. The first
one is found from above: with everything collapsed that may be, the highest score is
opened, then the next, until there would be too many nodes.

Of subtrees that score the same the first ones in the document go. So the threshold is one
score for all of the tree but the way to the last subtree that goes; before that way its
score is collapsed too, behind it what scores less.

Nothing recurses: runs are noted on the way down and worked through backwards.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf, nextafter
from operator import is_
from typing import Final, TypeAlias

import msgspec

from sightline.slop.protocol.rewrite import settled, share
from sightline.slop.protocol.shapes import compacted_node
from sightline.slop.protocol.siblings import Chunk, ShortList, Siblings
from sightline.slop.protocol.tree import DEFAULT_SALIENCE, Node

# A threshold at which everything is collapsed that may be: no salience is above 1.
_ALL: Final = 2.0
# So many scores from one tree to the next, and the threshold is looked for from above again.
_NEAR: Final = 64
# A run is asked about few thresholds: that of each view, and the one just below it.
_CUTS: Final = 8

_Run: TypeAlias = Chunk | ShortList
_Shown: TypeAlias = Chunk | tuple[Node, ...]


def compact(root: Node, max_nodes: int) -> Node:
    """Collapse the lowest-scoring subtrees until at most `max_nodes` nodes are left.

    score = salience - distance * 0.01 - descendants * 0.001, ties in document order,
    as the tree is before anything is collapsed. The root, its children, pinned nodes
    and what is above or below a pinned node stay, over budget if need be.
    """
    return Compaction(max_nodes).of(root)


class Compaction:
    """Compacts one tree as it changes; each result shares with the last what did not change."""

    def __init__(self, max_nodes: int) -> None:
        self.max_nodes = max_nodes
        # How many nodes the last result has.
        self.nodes = 0
        self._threshold: float | None = None
        self._source: Node | None = None
        self._result: Node | None = None

    def of(self, root: Node) -> Node:
        """Return this tree with as much collapsed as must be."""
        if self._result is None or root is not self._source:
            result = self._compacted(root)
            self._result = result if self._result is None else share(self._result, result)
            self._source = root
        return self._result

    def _compacted(self, root: Node) -> Node:
        runs = root.runs()
        _look_at(root, self._source)
        self.nodes = 1 + sum(_facts(run).size for run in runs)
        excess = self.nodes - self.max_nodes
        if excess <= 0 or root.meta.pinned is True:
            return root
        threshold = self._threshold = self._find_threshold(runs, excess)
        result, hidden = _collapsed(root, threshold, excess)
        self.nodes -= hidden
        return result

    def _find_threshold(self, runs: tuple[_Run, ...], excess: int) -> float:
        """The lowest score at which enough is hidden; if none is, that of everything."""
        threshold = self._threshold
        for _ in range(0 if threshold is None else _NEAR):
            assert threshold is not None  # noqa: S101 - or there is nothing to be near to
            hidden, lowest, highest = _hidden(runs, 1, threshold)
            if hidden < excess:
                if highest == inf:
                    return _ALL
                threshold = highest
                if _hidden(runs, 1, threshold)[0] >= excess:
                    return threshold
            else:
                threshold = nextafter(lowest, -inf)
                if _hidden(runs, 1, threshold)[0] < excess:
                    return lowest
        return _from_above(runs, self.max_nodes)


class _Parent(msgspec.Struct):
    """A node with children, as far as compaction looks at it."""

    node: Node
    salience: float
    below: int
    is_pinned: bool
    holds_pinned: bool
    runs: tuple[_Run, ...]
    # What is shown of it where it is collapsed, and where it was open last.
    compacted: Node | None = None
    opened: Node | None = None
    # The same of the node that stood here before this one.
    was_compacted: Node | None = None
    was_opened: Node | None = None

    def score(self, distance: int) -> float:
        """The threshold at which it collapses; infinity if it never does."""
        # SLOP, attention, compaction: the root, its children and what is pinned stay.
        if distance < 2 or self.holds_pinned:
            return inf
        return self.salience - distance * 0.01 - self.below * 0.001


class _Cut(msgspec.Struct):
    """What a threshold from `lowest` up to, but not including, `highest` hides of a run."""

    distance: int
    lowest: float
    highest: float
    hidden: int
    shown: _Shown | None = None


_NOTHING: Final = _Cut(0, -inf, inf, 0)


class _Facts(msgspec.Struct):
    """What compaction knows of a run of siblings: its nodes, those below them, what hides them."""

    size: int
    holds_pinned: bool
    parents: list[_Parent]
    offsets: list[int]
    cuts: tuple[_Cut, ...] = ()

    def cut(self, distance: int, threshold: float) -> _Cut | None:
        for cut in self.cuts:
            if cut.lowest <= threshold < cut.highest and cut.distance == distance:
                return cut
        return None


def _facts(run: _Run) -> _Facts:
    facts: _Facts = run.known[_Facts]
    return facts


def _look_at(root: Node, past: Node | None) -> None:
    """Find the facts of all runs below a node, where they are not known.

    `past` is what the node was when it was last looked at: what is known of the nodes of a run
    that changed, but did not change themselves, is found there.
    """
    new: list[tuple[_Run, dict[str, _Parent]]] = []
    stack = [(root, past)]
    while stack:
        node, past = stack.pop()
        runs = node.runs()
        unknown = [run for run in runs if _Facts not in run.known]
        parents = _parents_of(past, but_in=runs) if unknown and past is not None else {}
        for run in unknown:
            new.append((run, parents))
            for child in run.nodes:
                if child.child_list:
                    known = parents.get(child.id)
                    if known is None or known.node is not child:
                        stack.append((child, None if known is None else known.node))
    for run, parents in reversed(new):
        run.known[_Facts] = _facts_of(run.nodes, parents)


def _parents_of(past: Node, *, but_in: tuple[_Run, ...]) -> dict[str, _Parent]:
    """What is known of a node's children, by their ids, but for those in some runs."""
    same = set(map(id, but_in))
    gone = [run for run in past.runs() if id(run) not in same]
    return {parent.node.id: parent for run in gone for parent in _facts(run).parents}


def _facts_of(nodes: tuple[Node, ...], parents: dict[str, _Parent]) -> _Facts:
    facts = _Facts(len(nodes), holds_pinned=False, parents=[], offsets=[])
    for offset, node in enumerate(nodes):
        if node.child_list:
            parent = parents.get(node.id)
            if parent is None or parent.node is not node:
                parent = _parent_of(node, parent)
            facts.parents.append(parent)
            facts.offsets.append(offset)
            facts.size += parent.below
            facts.holds_pinned |= parent.holds_pinned
        elif node.meta_json and node.meta.pinned is True:
            facts.holds_pinned = True
    return facts


def _parent_of(node: Node, past: _Parent | None) -> _Parent:
    meta, runs = node.meta, node.runs()
    below = [_facts(run) for run in runs]
    is_pinned = meta.pinned is True
    parent = _Parent(
        node,
        DEFAULT_SALIENCE if meta.salience is None else meta.salience,
        sum(facts.size for facts in below),
        is_pinned,
        is_pinned or any(facts.holds_pinned for facts in below),
        runs,
    )
    if past is not None:
        parent.was_compacted = past.compacted or past.was_compacted
        parent.was_opened = past.opened or past.was_opened
    return parent


def _cut_of(run: _Run, distance: int, threshold: float) -> _Cut:
    """What a threshold hides of a run, as it is known or found out now."""
    facts = _facts(run)
    if not facts.parents:
        return _NOTHING
    cut = facts.cut(distance, threshold)
    if cut is not None:
        return cut
    new: list[tuple[_Facts, int]] = []
    stack = [(facts, distance)]
    while stack:
        facts, distance = stack.pop()
        if facts.parents and facts.cut(distance, threshold) is None:
            new.append((facts, distance))
            for parent in facts.parents:
                if not parent.is_pinned and parent.score(distance) > threshold:
                    stack.extend((_facts(inner), distance + 1) for inner in parent.runs)
    for facts, distance in reversed(new):
        cut = _counted(facts, distance, threshold)
        facts.cuts = (cut, *facts.cuts[: _CUTS - 1])
    assert cut is not None  # noqa: S101 - the run itself came first, so its cut came last
    return cut


def _counted(facts: _Facts, distance: int, threshold: float) -> _Cut:
    """Count what is hidden of a run, below which everything is counted."""
    cut = _Cut(distance, -inf, inf, 0)
    for parent in facts.parents:
        if parent.is_pinned:
            continue
        score = parent.score(distance)
        if score <= threshold:
            cut.hidden += parent.below
            cut.lowest = max(cut.lowest, score)
            continue
        hidden, lowest, highest = _hidden(parent.runs, distance + 1, threshold)
        cut.hidden += hidden
        cut.lowest = max(cut.lowest, lowest)
        cut.highest = min(cut.highest, score, highest)
    return cut


def _hidden(runs: tuple[_Run, ...], distance: int, threshold: float) -> tuple[int, float, float]:
    """What a threshold hides of a list of children, and from where to where it does."""
    cuts = [_cut_of(run, distance, threshold) for run in runs]
    return (
        sum(cut.hidden for cut in cuts),
        max(cut.lowest for cut in cuts),
        min(cut.highest for cut in cuts),
    )


def _from_above(runs: tuple[_Run, ...], max_nodes: int) -> float:
    """Find the threshold by opening what scores highest until there are too many nodes."""
    shown, level, number = 1, _ALL, count()
    # By minus the score, so that the highest is taken first; the number breaks ties.
    collapsed: list[tuple[float, int, int, tuple[_Run, ...]]] = []
    opened = [(runs, 1)]
    while True:
        while opened:
            runs, distance = opened.pop()
            for run in runs:
                shown += len(run.nodes)
                if shown > max_nodes:
                    return level
                for parent in _facts(run).parents:
                    if parent.is_pinned:
                        shown += parent.below
                    elif (score := parent.score(distance)) == inf:
                        opened.append((parent.runs, distance + 1))
                    else:
                        entry = (-score, next(number), distance + 1, parent.runs)
                        heappush(collapsed, entry)
        if shown > max_nodes:
            return level
        score, _, distance, runs = heappop(collapsed)
        level = min(level, -score)
        opened.append((runs, distance))


def _collapsed(root: Node, threshold: float, excess: int) -> tuple[Node, int]:
    """Collapse what scores less than a threshold, and of what scores as much only the first.

    Returns the tree and how many nodes are hidden: no more than there must be.
    """
    hidden = _hidden(root.runs(), 1, threshold)[0]
    if hidden <= excess:
        return _with_runs(root, 1, threshold), hidden
    under = nextafter(threshold, -inf)
    missing = excess - _hidden(root.runs(), 1, under)[0]
    way: list[_Turn] = []
    node, distance = root, 1
    while True:
        turn, missing = _turn_at(node, distance, threshold, under, missing)
        way.append(turn)
        if missing <= 0:
            break
        node, distance = turn.last.node, distance + 1
    below: Node | None = None
    for turn in reversed(way):
        below = turn.shown(threshold, under, below)
    assert below is not None  # noqa: S101 - the root is on every way
    return below, excess - missing


class _Turn(msgspec.Struct):
    """A node on the way to the last subtree that goes, and where the way leaves it."""

    node: Node
    distance: int
    run: int
    parent: int

    @property
    def last(self) -> _Parent:
        """The child on the way."""
        return _facts(self.node.runs()[self.run]).parents[self.parent]

    def shown(self, threshold: float, under: float, last: Node | None) -> Node:
        """The node with everything up to the way collapsed at the threshold, the rest under it."""
        runs = self.node.runs()
        run = runs[self.run]
        nodes = list(run.nodes)
        facts = _facts(run)
        for at, (offset, parent) in enumerate(zip(facts.offsets, facts.parents, strict=True)):
            if at == self.parent and last is not None:
                nodes[offset] = last
            else:
                level = threshold if at <= self.parent else under
                nodes[offset] = _shown_parent(parent, self.distance, level)
        return _with_shown(
            self.node,
            [
                *(_shown(other, self.distance, threshold) for other in runs[: self.run]),
                _like(run, nodes),
                *(_shown(other, self.distance, under) for other in runs[self.run + 1 :]),
            ],
        )


def _turn_at(
    node: Node, distance: int, threshold: float, under: float, missing: int
) -> tuple[_Turn, int]:
    """Go through a node's children in document order until enough is hidden.

    Returns where that is, and what is still missing there: more than nothing if the way
    goes on below it, less if the last subtree hides more than was missing.
    """
    for at, run in enumerate(node.runs()):
        gain = _cut_of(run, distance, threshold).hidden - _cut_of(run, distance, under).hidden
        if gain < missing:
            missing -= gain
            continue
        for index, parent in enumerate(_facts(run).parents):
            turn = _Turn(node, distance, at, index)
            gain = _gain(parent, distance, threshold, under)
            if gain > missing and parent.score(distance) > threshold:
                return turn, missing
            missing -= gain
            if missing <= 0:
                return turn, missing
    raise AssertionError("less is hidden than was counted")


def _gain(parent: _Parent, distance: int, threshold: float, under: float) -> int:
    """How many more nodes of a subtree one threshold hides than the one under it."""
    score = parent.score(distance)
    if parent.is_pinned or score <= under:
        return 0
    hidden = _hidden(parent.runs, distance + 1, under)[0]
    if score <= threshold:
        return parent.below - hidden
    return _hidden(parent.runs, distance + 1, threshold)[0] - hidden


def _with_runs(node: Node, distance: int, threshold: float) -> Node:
    """The node with what a threshold leaves of its children, which are at this distance."""
    return _with_shown(node, [_shown(run, distance, threshold) for run in node.runs()])


def _with_shown(node: Node, shown: list[_Shown]) -> Node:
    if all(map(is_, shown, node.runs())):
        return node
    if isinstance(node.child_list, Siblings):
        chunks = tuple(run if isinstance(run, Chunk) else Chunk(run) for run in shown)
        return node.with_child_list(Siblings(chunks))
    (nodes,) = shown
    return node.with_child_list(nodes.nodes if isinstance(nodes, Chunk) else nodes)


def _has_runs(node: Node, shown: list[_Shown]) -> bool:
    children = node.child_list
    runs = children.chunks if isinstance(children, Siblings) else (children,)
    return len(runs) == len(shown) and all(map(is_, runs, shown))


def _like(run: _Run, nodes: list[Node]) -> _Shown:
    return Chunk(tuple(nodes)) if isinstance(run, Chunk) else tuple(nodes)


def _shown(run: _Run, distance: int, threshold: float) -> _Shown:
    """What a threshold leaves of a run; the run itself if that is all of it."""
    cut = _cut_of(run, distance, threshold)
    if not cut.hidden:
        return run
    new: list[tuple[_Run, _Cut]] = []
    stack = [(run, distance)]
    while stack:
        run, distance = stack.pop()
        below = _cut_of(run, distance, threshold)
        if below.hidden and below.shown is None:
            new.append((run, below))
            for parent in _facts(run).parents:
                if not parent.is_pinned and parent.score(distance) > threshold:
                    stack.extend((inner, distance + 1) for inner in parent.runs)
    for run, below in reversed(new):
        nodes, facts = list(run.nodes), _facts(run)
        for offset, parent in zip(facts.offsets, facts.parents, strict=True):
            nodes[offset] = _shown_parent(parent, below.distance, threshold)
        below.shown = _like(run, nodes)
    assert cut.shown is not None  # noqa: S101 - it came first, so it was made last
    return cut.shown


def _shown_parent(parent: _Parent, distance: int, threshold: float) -> Node:
    if parent.is_pinned:
        return parent.node
    if parent.score(distance) > threshold:
        shown = [_shown(run, distance + 1, threshold) for run in parent.runs]
        if parent.opened is None or not _has_runs(parent.opened, shown):
            parent.opened = settled(_with_shown(parent.node, shown), parent.was_opened)
            parent.was_opened = None
        return parent.opened
    if parent.compacted is None:
        parent.compacted = settled(compacted_node(parent.node), parent.was_compacted)
        parent.was_compacted = None
    return parent.compacted
