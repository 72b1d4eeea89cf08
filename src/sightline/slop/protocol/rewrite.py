"""Keep the objects of an old tree wherever a new one says the same, or is made of it anew.

`share(old, new) == new`, and every subtree of the result that equals the one at
the same path in `old` *is* the one in `old`. After it, comparing the two trees
costs what changed, not what is there.

`rewrite` makes a tree from a rule for one node, and reuses the last rewriting.

A `RewriteStage` decides node by node, on the way down, whether a node is kept as it is,
replaced, dropped, or entered. What was entered is put together again on the way
up. With a `RewriteMemory` of the last time, whatever is the same object in both trees is
not looked at again, in long child lists whole chunks at a time; and a result that
says what it said last time is the same object as last time.

Nothing recurses: entered nodes are noted in document order, and gone through
backwards, which is bottom-up.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from operator import is_
from typing import Final, Protocol, overload

import msgspec

from sightline.slop.protocol.pieces import Steps, finish
from sightline.slop.protocol.siblings import Chunk, Siblings
from sightline.slop.protocol.tree import ChildList, Node, same_presence

DESCEND: Final = object()
_REMEMBERED_CHUNKS: Final = 4096
# So many nodes are shared before everybody else has a turn.
_NODES: Final = 256


class RewriteStage(Protocol):
    """A rule for one node. Its decisions depend on the node and its distance alone."""

    def enter(self, node: Node, distance: int) -> Node | object | None:
        """Return what stands for the node (None: nothing), or DESCEND to go into it."""

    def leave(self, node: Node, distance: int) -> bool:
        """Say whether an entered node stays even if none of its children did."""


class RewriteMemory:
    """The last tree a stage was given, and what it made of it."""

    __slots__ = ("chunks", "result", "source")

    def __init__(self) -> None:
        self.source: Node | None = None
        self.result: Node | None = None
        # (chunk, distance) → what became of it. The chunk is held, so its id stays its own.
        self.chunks: dict[tuple[int, int], tuple[Chunk, Chunk]] = {}

    def chunk(self, source: Chunk, distance: int) -> Chunk | None:
        found = self.chunks.get((id(source), distance))
        return found[1] if found else None

    def keep_chunk(self, source: Chunk, distance: int, result: Chunk) -> None:
        if len(self.chunks) >= _REMEMBERED_CHUNKS:
            self.chunks.clear()
        self.chunks[id(source), distance] = (source, result)


class _Run:
    """A run of children of one parent: a chunk of a long list, or a whole short list."""

    __slots__ = ("ready", "results", "source")

    def __init__(self, source: Chunk, ready: Chunk | None = None) -> None:
        self.source = source
        self.ready = ready
        self.results: list[Node | None] = [] if ready else [None] * len(source.nodes)

    def chunk(self) -> Chunk:
        """What became of the run; the run itself if nothing did."""
        if self.ready is not None:
            return self.ready
        kept = tuple([node for node in self.results if node is not None])
        nodes = self.source.nodes
        if len(kept) == len(nodes) and all(map(is_, kept, nodes)):
            return self.source
        return Chunk(kept)


class _Entered(msgspec.Struct):
    node: Node
    distance: int
    past: Node | None
    runs: list[_Run]
    home: _Run
    slot: int


def rewrite(root: Node, stage: RewriteStage, memory: RewriteMemory | None = None) -> Node:
    """Rewrite a tree. A memory must always be given to the same stage."""
    memory = memory or RewriteMemory()
    if memory.result is not None and memory.source is root:
        return memory.result
    top = _Run(Chunk((root,)))
    entered: list[_Entered] = []
    # (node, what it was last time, what that became, distance, and where its result goes)
    stack: list[tuple[Node, Node | None, Node | None, int, _Run, int]] = [
        (root, memory.source, memory.result, 0, top, 0)
    ]
    while stack:
        node, old, past, distance, home, slot = stack.pop()
        decided = stage.enter(node, distance)
        if decided is not DESCEND:
            assert decided is None or isinstance(decided, Node)  # noqa: S101 - the rule's contract
            home.results[slot] = settled(decided, past)
            continue
        runs = _runs(node, distance, memory)
        entered.append(_Entered(node, distance, past, runs, home, slot))
        old_child, past_child = _finder(old), _finder(past)
        for run in runs:
            if run.ready is not None:
                continue
            for at, child in enumerate(run.source.nodes):
                before, became = old_child(child.id), past_child(child.id)
                if before is child and past is not None:
                    run.results[at] = became
                else:
                    stack.append((child, before, became, distance + 1, run, at))
    for item in reversed(entered):
        item.home.results[item.slot] = _rebuilt(item, stage, memory)
    result = top.results[0]
    assert result is not None  # noqa: S101 - a stage keeps the root
    memory.source, memory.result = root, result
    return result


def _runs(node: Node, distance: int, memory: RewriteMemory) -> list[_Run]:
    children = node.child_list
    if isinstance(children, Siblings):
        return [_Run(chunk, memory.chunk(chunk, distance)) for chunk in children.chunks]
    return [_Run(Chunk(tuple(node.children)))]


def _nothing(_: str) -> None:
    return None


def _finder(node: Node | None) -> Callable[[str], Node | None]:
    if node is None:
        return _nothing
    children = node.child_list
    if isinstance(children, Siblings):
        return children.get
    return {child.id: child for child in node.children}.get


def _rebuilt(item: _Entered, stage: RewriteStage, memory: RewriteMemory) -> Node | None:
    node = item.node
    is_long = isinstance(node.child_list, Siblings)
    chunks = [run.chunk() for run in item.runs]
    if is_long:
        for run, chunk in zip(item.runs, chunks, strict=True):
            memory.keep_chunk(run.source, item.distance, chunk)
    if not any(chunk.nodes for chunk in chunks) and not stage.leave(node, item.distance):
        return None
    if all(chunk is run.source for chunk, run in zip(chunks, item.runs, strict=True)):
        return settled(node, item.past)
    children: ChildList = Siblings(tuple(chunks)) if is_long else chunks[0].nodes
    return settled(node.with_child_list(children), item.past)


@overload
def settled(result: Node, past: Node | None) -> Node: ...
@overload
def settled(result: Node | None, past: Node | None) -> Node | None: ...
def settled(result: Node | None, past: Node | None) -> Node | None:
    """Prefer last time's object if it says the same, and its list of children if that does."""
    if result is None or past is None or result is past:
        return result
    if not (
        same_presence(result.child_list, past.child_list)
        and len(result.children) == len(past.children)
        and all(map(is_, result.children, past.children))
    ):
        return result
    if result.same_fields(past):
        return past
    kept = result.child_list is past.child_list
    return result if kept else result.with_child_list(past.child_list)


def share(old: Node, new: Node) -> Node:
    """Return `new`, made of the parts of `old` that did not change."""
    return finish(share_steps(old, new))


def share_steps(old: Node, new: Node) -> Steps[Node]:
    """Like `share`, some nodes at a time; see `pieces`."""
    top = [new]
    # Document order: every parent comes before its children, so backwards is bottom-up. Each with
    # what becomes of its children, and its own place among those of its parent.
    order: list[tuple[Node, Node, list[Node], list[Node], int]] = []
    stack = [(old, new, top, 0)] if old is not new else []
    seen = 0
    while stack:
        before, after, home, at = stack.pop()
        children = list(after.children)
        order.append((before, after, children, home, at))
        for index, (past, child) in enumerate(zip_longest(before.children, children)):
            if past is child or child is None:
                continue
            if past is None or past.id != child.id:
                past = before.child(child.id)
            if past is not None and past is not child:
                stack.append((past, child, children, index))
        seen += 1 + len(children)
        if seen > _NODES:
            seen = 0
            yield
    for before, after, children, home, at in reversed(order):
        if not all(map(is_, children, after.children)):
            after = after.with_child_list(tuple(children))
        home[at] = settled(after, before)
        seen += 1
        if seen > _NODES:
            seen = 0
            yield
    return top[0]
