"""What of each app's tree a request showed, and what changed since the one before it.

A tree is laid out once, a line per node in document order, and handed out in pages: the
page asks for what it can see. A line knows how many lines are below it, so that folding a
node is leaving out a range, and nobody needs the whole tree for it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from sightline.context.projection.select import Omission, Selection
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.path import join
from sightline.slop.protocol.text import format_blocks
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

PAGE_LINES: Final = 100
MOST_CHANGES: Final = 500
MOST_FOUND: Final = 1_000
_VALUE_CHARS: Final = 200
_KINDS: Final = ("shown", "summary", "cut")
# SLOP, state tree, consumer display format: a line per node, two spaces for each level.
_HEADING: Final = re.compile(r"### (?P<name>.*) \((?P<id>.*)\)")
_NODE: Final = re.compile(r"(?P<indent> *)\[[^\]]*\] (?P<id>[^\s:(]+)")


@dataclass(frozen=True, slots=True)
class AppTree:
    """One app's tree at a request, as lists with one item per node, in document order."""

    id: str
    name: str
    status: str
    changes: list[dict[str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    parents: array[int] = field(default_factory=lambda: array("i"))
    below: array[int] = field(default_factory=lambda: array("i"))  # how many lines are under one
    kinds: bytearray = field(default_factory=bytearray)
    reasons: list[str] = field(default_factory=list)

    def add(self, node: str, parent: int, kind: int = 0, reason: str = "") -> None:
        """Add a line for a node, by its id; its text is added by itself."""
        self.ids.append(node)
        self.parents.append(parent)
        self.below.append(0)
        self.kinds.append(kind)
        self.reasons.append(reason)

    def about(self) -> dict[str, Any]:
        """Describe the tree, without its lines."""
        counts = [self.kinds.count(kind) for kind in range(len(_KINDS))]
        return {
            "id": self.id,
            "name": self.name,
            "status": self.status,
            "nodes": len(self.texts),
            "page_lines": PAGE_LINES,
            "shown": counts[0],
            "summarised": counts[1],
            "cut": counts[2],
            "changes": self.changes,
        }

    def page(self, number: int) -> dict[str, Any]:
        """The lines of one page; none beyond the last."""
        start = number * PAGE_LINES
        stop = min(start + PAGE_LINES, len(self.texts))
        return {"lines": [self._line(index) for index in range(start, stop)]}

    def folds(self, index: int) -> dict[str, Any]:
        """What is to be folded so that a node shows its children and nothing below them."""
        if not 0 <= index < len(self.texts):
            return {"folds": []}
        child, end = index + 1, index + 1 + self.below[index]
        folds = []
        while child < end:
            if self.below[child]:
                folds.append([child, self.below[child]])
            child += 1 + self.below[child]
        return {"folds": folds}

    def find(self, text: str) -> dict[str, Any]:
        """The lines that contain a text, in order: at most so many, and how many there are."""
        wanted = text.casefold()
        found = [at for at, line in enumerate(self.texts) if wanted and wanted in line.casefold()]
        return {"found": found[:MOST_FOUND], "total": len(found)}

    def _line(self, index: int) -> dict[str, Any]:
        path = "/"
        above = self._above(index)
        for at in above[1:]:
            path = join(path, self.ids[at])
        return {
            "path": path,
            "depth": len(above) - 1,
            "below": self.below[index],
            "text": self.texts[index],
            "kind": _KINDS[self.kinds[index]],
            "reason": self.reasons[index],
        }

    def _above(self, index: int) -> list[int]:
        """From the root to a line, both included."""
        way = [index]
        while (parent := self.parents[way[-1]]) >= 0:
            way.append(parent)
        return way[::-1]


def lay_out(world: World, selection: Selection, before: World | None) -> list[AppTree]:
    """Lay out every app: each node as shown, summarised or cut with the reason, and the changes."""
    return [_app(app, selection, before) for app in world.apps]


def _app(app: AppState, selection: Selection, before: World | None) -> AppTree:
    twin = selection.world.app(app.id)
    cuts = {cut.path: cut for cut in selection.cuts if cut.app_id == app.id}
    changes = _changes(app, None if before is None else before.app(app.id))
    tree = AppTree(app.id, app.name, app.status, changes)
    if app.tree is not None:
        tree.texts.extend(_texts(app.tree))
        _walk(tree, app.tree, None if twin is None else twin.tree, cuts)
    return tree


def read_trees(block: str) -> list[AppTree]:
    """Read the trees of a whole state that somebody was shown as text; all of them was shown."""
    trees: list[AppTree] = []
    above: list[int] = []
    for line in block.split("\n"):
        heading, node = _HEADING.fullmatch(line), _NODE.match(line)
        if heading is not None:
            trees.append(AppTree(heading["id"], heading["name"], "connected"))
            above = []
        elif trees and node is not None:
            tree, depth = trees[-1], len(node["indent"]) // 2
            del above[depth:]
            tree.texts.append(line.strip())
            tree.add(node["id"], above[-1] if above else -1)
            for at in above:
                tree.below[at] += 1
            above.append(len(tree.ids) - 1)
        elif trees and trees[-1].texts and line.startswith(" "):
            trees[-1].texts[-1] += f" {line.strip()}"
    return trees


def _walk(tree: AppTree, root: Node, shown: Node | None, cuts: Mapping[str, Omission]) -> None:
    """Go through the whole tree beside the part of it that was shown, a line per node."""
    stack: list[tuple[Node, Node | None, str, int, str]] = [(root, shown, "/", -1, "")]
    while stack:
        node, twin, path, parent, inherited = stack.pop()
        index = len(tree.ids)
        cut = cuts.get(path)
        is_stub = cut is not None and cut.reason == "stub"
        kind = 2 if twin is None else 1 if is_stub else 0
        why = inherited or ("budget" if twin is None else "")
        tree.add(node.id, parent, kind, why if twin is None else "stub" if is_stub else "")
        inherited = cut.reason if cut is not None else inherited
        twins = {} if twin is None else {child.id: child for child in twin.children}
        stack += [
            (child, twins.get(child.id), join(path, child.id), index, inherited)
            for child in reversed(node.children)
        ]
    for index in range(len(tree.ids) - 1, 0, -1):
        tree.below[tree.parents[index]] += tree.below[index] + 1


def _texts(root: Node) -> Iterator[str]:
    """The canonical text, a node at a time: a note belongs to the node's line before it."""
    # SLOP, state tree, consumer display format: windowing adds a line below a node.
    current: list[str] = []
    for block in format_blocks(root):
        for line in block.split("\n"):
            text = line.strip()
            if text.startswith("[") and current:
                yield " ".join(current)
                current = []
            current.append(text)
    yield " ".join(current)


def _changes(app: AppState, past: AppState | None) -> list[dict[str, str]]:
    if past is None:
        return [{"op": "add", "path": "/", "text": "the app is new"}]
    if past.status != app.status:
        return [{"op": "replace", "path": "/", "text": f"{past.status} → {app.status}"}]
    if past.tree is None or app.tree is None:
        return []
    ops = diff(past.tree, app.tree)
    changes = [
        {"op": op.op, "path": op.path, "text": _value(op.value)} for op in ops[:MOST_CHANGES]
    ]
    if len(ops) > MOST_CHANGES:
        changes.append({"op": "…", "path": "", "text": f"{len(ops) - MOST_CHANGES} more"})
    return changes


def _value(value: object) -> str:
    if value is msgspec.UNSET:
        return ""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_CHARS else f"{text[: _VALUE_CHARS - 1]}…"
