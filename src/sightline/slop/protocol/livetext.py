"""The canonical text of a tree that changes, at the cost of the change.

    LiveText().of(tree) == format_tree(tree), whatever was written before

*Theory of operation.* The lines of a run of siblings, and the blocks that they and all
below them make, follow from the run and its level alone. They are kept with the run and go
with it. A later tree shares its runs with the one before, all but those on the way to what
changed; in these, a node that stood in the tree before has its line already, and so has one
of which only what is below it changed. So one change writes the node that changed, and joins
the texts of the runs on its way.

What was joined is never joined again: a text stands once in its line and once in a block,
however deep it is, and the blocks of a tree are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from sightline.slop.protocol.siblings import Chunk, ShortList
from sightline.slop.protocol.text import LineWriter, write_blocks, write_lines
from sightline.slop.protocol.tree import Node

# Texts are joined until they have so many characters.
_LONG: Final = 4 * 1024
# So many nodes are written together.
_TOGETHER: Final = 512
# Below this level a subtree counts as one line: every level knows all blocks below it.
_DEEP: Final = 64

_Run: TypeAlias = Chunk | ShortList


class _RunText(NamedTuple):
    """The text of a run and of all below it; a short one is not joined, but in its lines."""

    blocks: list[str]
    is_short: bool
    # How many characters a short one has.
    size: int
    # Of the nodes of the run alone.
    lines: Sequence[str]


class LiveText:
    """Writes one tree as it changes.

    `write` gives the lines of nodes, at these indents; a line must follow from the fields of
    its node and from how many children are here.
    """

    def __init__(self, write: LineWriter = write_lines) -> None:
        self._write = write
        # The last tree, its first line and its blocks: one value, so that threads cannot mix
        # two trees.
        self._last: tuple[Node | None, str, tuple[str, ...]] = (None, "", ())

    def of(self, root: Node) -> str:
        """Return the tree as text, with no line break at the end."""
        return "\n".join(self.blocks(root))

    def blocks(self, root: Node) -> tuple[str, ...]:
        """Return the tree as blocks of lines, to be joined by line breaks.

        Nothing is copied of what did not change: where a text is sent on in pieces, these
        cost less than joining them.
        """
        past, line, blocks = self._last
        if root is not past:
            line = self._look_at(root, past, line)
            blocks = tuple(self._joined((root,), (line,), 0, whole=True).blocks)
            self._last = (root, line, blocks)
        return blocks

    def _look_at(self, root: Node, past: Node | None, line: str) -> str:
        """Write all runs below the root that are not written, the last ones first.

        `line` is that of the past root; returns the root's own.
        """
        first = [line if past is not None and _has_line_of(root, past) else ""]
        new: list[tuple[_Run, list[str], int]] = []
        homes: list[tuple[list[str], int, Node, str]] = []
        if not first[0]:
            homes.append((first, 0, root, ""))
        stack: list[tuple[Node, Node | None, int]] = [(root, past, 1)]
        while stack:
            node, past, level = stack.pop()
            runs = node.runs()
            key = (self._write, level)
            unknown = [run for run in runs if key not in run.known]
            if not unknown:
                continue
            known = {} if past is None else self._known_lines(past, runs, level)
            indent = "  " * level
            for run in unknown:
                lines = [known.get(id(child), "") for child in run.nodes]
                new.append((run, lines, level))
                for at in [at for at, line in enumerate(lines) if not line]:
                    child = run.nodes[at]
                    if child.child_list and level == _DEEP:
                        lines[at] = "\n".join(write_blocks(child, self._write, level))
                        continue
                    before = past.child(child.id) if past is not None and known else None
                    if before is not None and _has_line_of(child, before):
                        lines[at] = known.get(id(before), "")
                    if not lines[at]:
                        homes.append((lines, at, child, indent))
                    if child.child_list:
                        stack.append((child, before, level + 1))
        for start in range(0, len(homes), _TOGETHER):
            part = homes[start : start + _TOGETHER]
            written = self._write([home[2] for home in part], [home[3] for home in part])
            for (lines, at, _, _), line in zip(part, written, strict=True):
                lines[at] = line
        for run, lines, level in reversed(new):
            run.known[self._write, level] = self._joined(run.nodes, lines, level)
        return first[0]

    def _known_lines(self, past: Node, runs: tuple[_Run, ...], level: int) -> dict[int, str]:
        """The lines of a node's children as it was, but for the runs that it still has."""
        same = set(map(id, runs))
        lines: dict[int, str] = {}
        for run in past.runs():
            if id(run) not in same and (text := run.known.get((self._write, level))):
                lines.update(zip(map(id, run.nodes), text.lines, strict=True))
        return lines

    def _joined(
        self, nodes: Sequence[Node], lines: Sequence[str], level: int, *, whole: bool = False
    ) -> _RunText:
        """Join nodes of a level, and what is below them, to blocks.

        If they make none, they stay lines unless they are all there is.
        """
        blocks: list[str] = []
        parts: list[str] = []
        size = 0
        key = (self._write, level + 1)
        for node, line in zip(nodes, lines, strict=True):
            parts.append(line)
            size += len(line)
            for run in node.runs() if node.child_list and level < _DEEP else ():
                text: _RunText = run.known[key]
                if text.is_short:
                    parts += text.blocks
                    size += text.size
                else:
                    blocks += ("\n".join(parts), *text.blocks) if parts else text.blocks
                    parts, size = [], 0
                if size >= _LONG:
                    blocks.append("\n".join(parts))
                    parts, size = [], 0
            if size >= _LONG:
                blocks.append("\n".join(parts))
                parts, size = [], 0
        if not blocks and not whole:
            return _RunText(parts, is_short=True, size=size, lines=lines)
        if parts:
            blocks.append("\n".join(parts))
        return _RunText(blocks, is_short=False, size=0, lines=lines)


def _has_line_of(node: Node, past: Node) -> bool:
    """Tell at a glance that a node has the line that it had: what it says of itself is the same."""
    return (
        node.properties_json is past.properties_json
        and node.meta_json is past.meta_json
        and node.affordances_json is past.affordances_json
        and node.type is past.type
        and node.id == past.id
        and len(node.children) == len(past.children)
    )
