"""A long list of children that is cheap to change.

Short lists are plain tuples. From `WIDE` children on, a list that is searched or
changed becomes a `Siblings`: a tuple of chunks, each a tuple of nodes. A change
copies one chunk and the tuple of chunks; all other chunks are shared with the
list before the change:

    replace, insert, remove     O(chunk + n / chunk)
    find by id                  one dictionary probe
    the chunk at a position     a few bisections

The probe is into a map from ids to places. All versions of a list share one map,
so it is only a hint: it knows every id that is in any of them, and where it was
last seen in one. What stands there decides; if it is another node, the chunks'
own indexes are asked, that chunk's first, and the hint is set right.

Two versions of a list that share a chunk show it by identity, so that a diff or
a view skips what did not change without looking at it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

if TYPE_CHECKING:
    from sightline.slop.protocol.tree import Node

    _Nodes = Sequence[Node]
else:  # not an abstract class, which would make every `isinstance` slow
    _Nodes = object


WIDE: Final = 128
CHUNK: Final = 256
# After so many corrections of where the chunks end, the ends are counted anew.
_CORRECTIONS: Final = 256
# A hint is a place as one number; no chunk is longer than this.
_STRIDE: Final = 2 * CHUNK + 1


class SiblingPosition(NamedTuple):
    """Where a node stands: its chunk, and its offset there. A short list is one chunk."""

    chunk: int
    offset: int


class Chunk:
    """A run of neighbouring nodes. Immutable; `offsets` is made on first use."""

    __slots__ = ("_offsets", "known", "nodes")

    def __init__(self, nodes: tuple[Node, ...], offsets: dict[str, int] | None = None) -> None:
        self.nodes = nodes
        self._offsets = offsets
        # What was found out about these nodes; see `ShortList`.
        self.known: dict[object, Any] = {}

    @property
    def offsets(self) -> dict[str, int]:
        """The place of each id in this chunk."""
        if self._offsets is None:
            self._offsets = {node.id: i for i, node in enumerate(self.nodes)}
        return self._offsets

    def with_replaced(self, offset: int, node: Node) -> Chunk:
        """Put a node in the place of one with the same id."""
        nodes = list(self.nodes)
        nodes[offset] = node
        return Chunk(tuple(nodes), self._offsets)


class ShortList(tuple["Node", ...]):
    """A short list of children that carries what was found out about them, by who found it out.

    Whatever is known of a run follows from its nodes, which never change, and goes with it.
    """

    known: dict[object, Any]

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> ShortList:
        """Make a run of which nothing is known."""
        run = cls(nodes)
        run.known = {}
        return run

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, as a chunk has them."""
        return self


@Sequence.register
class Siblings(_Nodes):
    """An immutable sequence of nodes with distinct ids."""

    __slots__ = ("_ends", "_grown", "_hints", "_length", "_shrunk", "chunks")

    if not TYPE_CHECKING:
        index, count = Sequence.index, Sequence.count

    def __init__(self, chunks: tuple[Chunk, ...]) -> None:
        self.chunks = chunks
        self._hints: dict[str, int] | None = None
        # Where each chunk ended in an earlier version, and which chunks have got or lost a node
        # since, in order, once for each node.
        self._ends: list[int] | None = None
        self._grown: list[int] = []
        self._shrunk: list[int] = []
        self._length = -1

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Siblings:
        """Cut a sequence of nodes into chunks."""
        flat = tuple(nodes)
        return cls(tuple(Chunk(flat[i : i + CHUNK]) for i in range(0, len(flat), CHUNK)))

    def __len__(self) -> int:
        if self._length < 0:
            self._length = sum(len(chunk.nodes) for chunk in self.chunks)
        return self._length

    def __iter__(self) -> Iterator[Node]:
        return chain.from_iterable(chunk.nodes for chunk in self.chunks)

    def __reversed__(self) -> Iterator[Node]:
        return chain.from_iterable(reversed(chunk.nodes) for chunk in reversed(self.chunks))

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Node, ...]: ...
    def __getitem__(self, index: int | slice) -> Node | tuple[Node, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.node_at(self._position(index))

    def __repr__(self) -> str:
        return f"Siblings({len(self)} nodes)"

    def find(self, node_id: str) -> SiblingPosition | None:
        """Say where the node with this id stands, or None."""
        if self._hints is None:
            self._hints = {
                node.id: hint
                for at, chunk in enumerate(self.chunks)
                for hint, node in enumerate(chunk.nodes, at * _STRIDE)
            }
        hint = self._hints.get(node_id)
        if hint is None:
            return None
        likely = SiblingPosition(*divmod(hint, _STRIDE))
        if likely.chunk < len(self.chunks):
            nodes = self.chunks[likely.chunk].nodes
            if likely.offset < len(nodes) and nodes[likely.offset].id == node_id:
                return likely
        return self._search(node_id, likely)

    def _search(self, node_id: str, likely: SiblingPosition) -> SiblingPosition | None:
        """Find a node that is not where the hint says, and set the hint right."""
        count = len(self.chunks)
        for at in chain(range(likely.chunk, count)[:1], range(count)):
            offset = self.chunks[at].offsets.get(node_id)
            if offset is not None:
                if self._hints is not None:
                    self._hints[node_id] = at * _STRIDE + offset
                return SiblingPosition(at, offset)
        return None

    def get(self, node_id: str) -> Node | None:
        """Return the node with this id, or None."""
        position = self.find(node_id)
        return None if position is None else self.node_at(position)

    def node_at(self, position: SiblingPosition) -> Node:
        """Return the node that stands here."""
        return self.chunks[position.chunk].nodes[position.offset]

    def replaced(self, position: SiblingPosition, node: Node) -> Siblings:
        """Put a node in the place of one with the same id."""
        chunk = self.chunks[position.chunk].with_replaced(position.offset, node)
        return self._with_chunks(position.chunk, (chunk,), 0)

    def inserted(self, index: int, node: Node) -> Siblings:
        """Put a node in at a position from 0 to the length, moving the rest up."""
        if not self.chunks:
            return Siblings((Chunk((node,)),))
        at, offset = self._position(index)
        if at == len(self.chunks):
            at, offset = at - 1, len(self.chunks[-1].nodes)
        longer = list(self.chunks[at].nodes)
        longer.insert(offset, node)
        nodes = tuple(longer)
        if len(nodes) <= 2 * CHUNK:
            result = self._with_chunks(at, (Chunk(nodes),), 1)
        else:
            result = self._with_chunks(at, (Chunk(nodes[:CHUNK]), Chunk(nodes[CHUNK:])), 1)
        hints = result._hints
        if hints is not None:
            if len(hints) > 2 * result._length:
                result._hints = None  # it knows more ids that have gone than ids that are here
            else:
                hints[node.id] = at * _STRIDE + offset
        return result

    def removed(self, position: SiblingPosition) -> Siblings:
        """Take out the node that stands here."""
        nodes = self.chunks[position.chunk].nodes
        nodes = nodes[: position.offset] + nodes[position.offset + 1 :]
        return self._with_chunks(position.chunk, (Chunk(nodes),) if nodes else (), -1)

    def _with_chunks(self, at: int, put: tuple[Chunk, ...], more: int) -> Siblings:
        """Put other chunks in the place of one, which makes the list longer by `more`."""
        chunks = list(self.chunks)
        chunks[at : at + 1] = put
        result = Siblings(tuple(chunks))
        result._hints = self._hints
        result._length = len(self) + more
        corrections = len(self._grown) + len(self._shrunk)
        if self._ends is not None and len(put) == 1 and corrections < _CORRECTIONS:
            result._ends, result._grown, result._shrunk = self._ends, self._grown, self._shrunk
            if more > 0:
                result._grown = _with(at, self._grown)
            elif more < 0:
                result._shrunk = _with(at, self._shrunk)
        return result

    def _position(self, index: int) -> SiblingPosition:
        ends = self._ends
        if ends is None:
            ends = self._ends = list(accumulate([len(chunk.nodes) for chunk in self.chunks]))
        at = bisect_right(ends, index)
        # Few nodes have come or gone since these were counted: it is this chunk, or one near it.
        while at < len(ends) and index >= ends[at] + self._moved(at):
            at += 1
        before = ends[at - 1] + self._moved(at - 1) if at else 0
        while index < before:
            at -= 1
            before = ends[at - 1] + self._moved(at - 1) if at else 0
        return SiblingPosition(at, index - before)

    def _moved(self, at: int) -> int:
        """How far the end of a chunk has moved since the ends were counted."""
        return bisect_right(self._grown, at) - bisect_right(self._shrunk, at)


def _with(number: int, ordered: list[int]) -> list[int]:
    more = ordered.copy()
    insort(more, number)
    return more
