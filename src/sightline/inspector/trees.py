"""What of each app's tree a request showed, and what changed since the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from sightline.projection.select import Cut, Selection
from sightline.protocol.diff import diff
from sightline.protocol.path import join
from sightline.protocol.text import format_blocks
from sightline.protocol.tree import Node
from sightline.protocol.world import AppState, World

__all__ = ["apps_of"]

MOST_CHANGES: Final = 500
_VALUE_CHARS: Final = 200


def apps_of(world: World, selection: Selection, before: World | None) -> list[dict[str, Any]]:
    """Show every app: each node as shown, summarised or cut with the reason, and the changes."""
    return [_app(app, selection, before) for app in world.apps]


def _app(app: AppState, selection: Selection, before: World | None) -> dict[str, Any]:
    twin = selection.world.app(app.id)
    shown = None if twin is None else twin.tree
    cuts = {cut.path: cut for cut in selection.cuts if cut.app_id == app.id}
    lines = [] if app.tree is None else list(_lines(app.tree, shown, cuts))
    kinds = [line["kind"] for line in lines]
    return {
        "id": app.id,
        "name": app.name,
        "status": app.status,
        "lines": lines,
        "shown": kinds.count("shown"),
        "summarised": kinds.count("summary"),
        "cut": kinds.count("cut"),
        "changes": _changes(app, None if before is None else before.app(app.id)),
    }


def _lines(root: Node, shown: Node | None, cuts: Mapping[str, Cut]) -> Iterator[dict[str, Any]]:
    """Walk the whole tree beside the part of it that was shown, one line per node."""
    texts = _texts(root)
    stack: list[tuple[Node, Node | None, str, int, str]] = [(root, shown, "/", 0, "")]
    while stack:
        node, twin, path, depth, inherited = stack.pop()
        cut = cuts.get(path)
        is_stub = cut is not None and cut.reason == "stub"
        kind = "cut" if twin is None else "summary" if is_stub else "shown"
        reason = inherited or ("budget" if twin is None else "")
        yield {
            "path": path,
            "depth": depth,
            "text": next(texts),
            "kind": kind,
            "reason": reason if kind == "cut" else "as a stub" if is_stub else "",
        }
        below = cut.reason if cut is not None else inherited
        twins = {} if twin is None else {child.id: child for child in twin.children}
        stack += [
            (child, twins.get(child.id), join(path, child.id), depth + 1, below)
            for child in reversed(node.children)
        ]


def _texts(root: Node) -> Iterator[str]:
    """The canonical text, a node at a time: a note belongs to the node's line before it."""
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
