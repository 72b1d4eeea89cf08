"""A long list of children that is cheap to change.

Short lists are plain tuples. From `WIDE` children on, a list that is searched or
changed becomes a `Siblings`: a tuple of chunks, each a tuple of nodes with its
own index of ids, made when it is first asked for. A change copies one chunk and
the tuple of chunks; all other chunks, with their indexes, are shared with the
list before the change:

    replace, insert, remove     O(chunk + n / chunk)
    find by id                  one dictionary probe per chunk
    the chunk at a position     one bisection

Two versions of a list that share a chunk show it by identity, so that a diff or
a view skips what did not change without looking at it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final, overload

if TYPE_CHECKING:
    from sightline.protocol.tree import Node

__all__ = ["CHUNK", "WIDE", "Chunk", "Siblings"]

WIDE: Final = 128
CHUNK: Final = 512


class Chunk:
    """A run of neighbouring nodes. Immutable; `offsets` is made on first use."""

    __slots__ = ("_offsets", "nodes")

    def __init__(self, nodes: tuple[Node, ...], offsets: dict[str, int] | None = None) -> None:
        self.nodes = nodes
        self._offsets = offsets

    @property
    def offsets(self) -> dict[str, int]:
        """The place of each id in this chunk."""
        if self._offsets is None:
            self._offsets = {node.id: i for i, node in enumerate(self.nodes)}
        return self._offsets

    def with_replaced(self, offset: int, node: Node) -> Chunk:
        nodes = self.nodes
        same_ids = nodes[offset].id == node.id
        return Chunk(
            (*nodes[:offset], node, *nodes[offset + 1 :]), self._offsets if same_ids else None
        )


class Siblings(Sequence["Node"]):
    """An immutable sequence of nodes with distinct ids."""

    __slots__ = ("_ends", "_length", "chunks")

    def __init__(self, chunks: tuple[Chunk, ...]) -> None:
        self.chunks = chunks
        self._ends: list[int] | None = None
        self._length = -1

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Siblings:
        flat = tuple(nodes)
        return cls(tuple(Chunk(flat[i : i + CHUNK]) for i in range(0, len(flat), CHUNK)))

    def __len__(self) -> int:
        if self._length < 0:
            self._length = sum(len(chunk.nodes) for chunk in self.chunks)
        return self._length

    def __iter__(self) -> Iterator[Node]:
        return chain.from_iterable(chunk.nodes for chunk in self.chunks)

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
        at, offset = self._locate(index)
        return self.chunks[at].nodes[offset]

    def __repr__(self) -> str:
        return f"Siblings({len(self)} nodes)"

    def get(self, node_id: str) -> Node | None:
        """Return the child with this id, or None."""
        for chunk in self.chunks:
            offset = chunk.offsets.get(node_id)
            if offset is not None:
                return chunk.nodes[offset]
        return None

    def position(self, node_id: str) -> int:
        """Return the place of the child with this id, or -1."""
        before = 0
        for chunk in self.chunks:
            offset = chunk.offsets.get(node_id)
            if offset is not None:
                return before + offset
            before += len(chunk.nodes)
        return -1

    def replaced(self, node: Node) -> Siblings:
        """Put a node in the place of the one with its id, which must be here."""
        for at, chunk in enumerate(self.chunks):
            offset = chunk.offsets.get(node.id)
            if offset is not None:
                result = self._with_chunks(at, (chunk.with_replaced(offset, node),))
                result._length = self._length
                return result
        raise KeyError(node.id)

    def inserted(self, index: int, node: Node) -> Siblings:
        """Put a node in at a position from 0 to the length, moving the rest up."""
        at, offset = self._locate(index)
        if at == len(self.chunks):
            if not self.chunks:
                return Siblings((Chunk((node,)),))
            at, offset = at - 1, len(self.chunks[-1].nodes)
        nodes = self.chunks[at].nodes
        nodes = (*nodes[:offset], node, *nodes[offset:])
        if len(nodes) <= 2 * CHUNK:
            return self._with_chunks(at, (Chunk(nodes),))
        return self._with_chunks(at, (Chunk(nodes[:CHUNK]), Chunk(nodes[CHUNK:])))

    def removed(self, index: int) -> Siblings:
        """Take out the node at a position."""
        at, offset = self._locate(index)
        nodes = self.chunks[at].nodes
        nodes = nodes[:offset] + nodes[offset + 1 :]
        return self._with_chunks(at, (Chunk(nodes),) if nodes else ())

    def _with_chunks(self, at: int, put: tuple[Chunk, ...]) -> Siblings:
        return Siblings((*self.chunks[:at], *put, *self.chunks[at + 1 :]))

    def _locate(self, index: int) -> tuple[int, int]:
        if self._ends is None:
            self._ends = list(accumulate(len(chunk.nodes) for chunk in self.chunks))
        at = bisect_right(self._ends, index)
        return at, index - (self._ends[at - 1] if at else 0)
