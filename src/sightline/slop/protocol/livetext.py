"""The canonical text of a tree that changes, at the cost of the change.

    LiveText().of(tree) == format_tree(tree), whatever was written before

*Theory of operation.* The lines of a run of siblings, and the blocks that they and all
below them make, follow from the run and its level alone. They are kept with the run and go
with it. A later tree shares its runs with the one before, all but those on the way to what
changed; in these, a node that stood in the tree before has its line already. So one change
writes the nodes on its way, and joins the texts of the runs on its way.

What was joined is never joined again: a text stands once in its line and once in a block,
however deep it is, and the blocks of a tree are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from sightline.slop.protocol.siblings import Chunk, ShortList
from sightline.slop.protocol.text import LineWriter, write_blocks, write_lines
from sightline.slop.protocol.tree import Node

__all__ = ["LiveText"]

# Texts are joined until they have so many characters.
_LONG: Final = 4 * 1024
# So many nodes are written together.
_TOGETHER: Final = 512
# Below this level a subtree counts as one line: every level knows all blocks below it.
_DEEP: Final = 64

_Run: TypeAlias = Chunk | ShortList


class _RunText(msgspec.Struct, frozen=True):
    """The text of a run and of all below it; a short one is not joined, but in its lines."""

    blocks: tuple[str, ...]
    is_short: bool
    # Of the nodes of the run alone.
    lines: Sequence[str] = ()


_Part: TypeAlias = str | _RunText


class LiveText:
    """Writes one tree as it changes. `write` gives the lines of nodes, at these indents."""

    def __init__(self, write: LineWriter = write_lines) -> None:
        self._write = write
        # The last tree and its blocks: one value, so that threads cannot mix two trees.
        self._last: tuple[Node | None, tuple[str, ...]] = (None, ())

    def of(self, root: Node) -> str:
        """Return the tree as text, with no line break at the end."""
        return "\n".join(self.blocks(root))

    def blocks(self, root: Node) -> tuple[str, ...]:
        """Return the tree as blocks of lines, to be joined by line breaks.

        Nothing is copied of what did not change: where a text is sent on in pieces, these
        cost less than joining them.
        """
        past, blocks = self._last
        if root is not past:
            self._look_at(root, past)
            parts = self._parts((root,), self._write((root,), ("",)), 0)
            blocks = _joined(parts, whole=True).blocks
            self._last = (root, blocks)
        return blocks

    def _look_at(self, root: Node, past: Node | None) -> None:
        """Write all runs below the root that are not written, the last ones first."""
        new: list[tuple[_Run, list[str], int]] = []
        nodes: list[Node] = []
        indents: list[str] = []
        homes: list[tuple[list[str], int]] = []
        stack: list[tuple[Node, Node | None, int]] = [(root, past, 1)]
        while stack:
            node, past, level = stack.pop()
            runs = node.runs()
            unknown = [run for run in runs if (self._write, level) not in run.known]
            if not unknown:
                continue
            known = {} if past is None else self._known_lines(past, runs, level)
            indent = "  " * level
            for run in unknown:
                lines = [known.get(id(child), "") for child in run.nodes]
                new.append((run, lines, level))
                for at, child in enumerate(run.nodes):
                    if not lines[at] and child.child_list and level == _DEEP:
                        lines[at] = self._whole(child, level)
                    elif not lines[at]:
                        nodes.append(child)
                        indents.append(indent)
                        homes.append((lines, at))
                        if child.child_list:
                            before = None if past is None else past.child(child.id)
                            stack.append((child, before, level + 1))
        for start in range(0, len(nodes), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            written = self._write(nodes[part], indents[part])
            for (lines, at), line in zip(homes[part], written, strict=True):
                lines[at] = line
        for run, lines, level in reversed(new):
            text = _joined(self._parts(run.nodes, lines, level))
            run.known[self._write, level] = replace(text, lines=lines)

    def _whole(self, node: Node, level: int) -> str:
        return "\n".join(write_blocks(node, self._write, level))

    def _known_lines(self, past: Node, runs: tuple[_Run, ...], level: int) -> dict[int, str]:
        """The lines of a node's children as it was, but for the runs that it still has."""
        same = set(map(id, runs))
        lines: dict[int, str] = {}
        for run in past.runs():
            if id(run) not in same and (text := run.known.get((self._write, level))):
                lines.update(zip(map(id, run.nodes), text.lines, strict=True))
        return lines

    def _below(self, node: Node, level: int) -> Iterator[_RunText]:
        for run in node.runs():
            yield run.known[self._write, level]

    def _parts(self, nodes: Iterable[Node], lines: Iterable[str], level: int) -> Iterator[_Part]:
        """Nodes of a level as they follow each other in the text: lines, and what is below."""
        for node, line in zip(nodes, lines, strict=True):
            yield line
            if node.child_list and level < _DEEP:
                yield from self._below(node, level + 1)


def _joined(parts: Iterable[_Part], *, whole: bool = False) -> _RunText:
    """Join lines to blocks; if they make none, they stay lines unless they are all there is."""
    blocks: list[str] = []
    lines: list[str] = []
    size = 0
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
            size += len(part)
        elif part.is_short:
            lines += part.blocks
            size += sum(map(len, part.blocks))
        else:
            if lines:
                blocks.append("\n".join(lines))
                lines, size = [], 0
            blocks += part.blocks
        if size >= _LONG:
            blocks.append("\n".join(lines))
            lines, size = [], 0
    if not blocks and not whole:
        return _RunText(tuple(lines), is_short=True)
    if lines:
        blocks.append("\n".join(lines))
    return _RunText(tuple(blocks), is_short=False)
