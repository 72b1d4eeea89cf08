"""What a subscriber sees, written from the protocol's text on plain dicts.

Shares no code with the library, and goes about everything in the most literal way.
"""

from __future__ import annotations

import json
from typing import Any

Tree = dict[str, Any]


def oracle_view(
    root: Tree,
    *,
    depth: int = -1,
    max_nodes: int | None = None,
    min_salience: float | None = None,
    types: frozenset[str] | None = None,
    window: tuple[int, int] | None = None,
    retain_ancestors: bool = False,
    available_actions: bool = False,
) -> Tree:
    shown: Tree = json.loads(json.dumps(root))
    if min_salience is not None or types is not None:
        _filter(shown, min_salience, types, retain_ancestors)
    if depth >= 0:
        shown = _truncate(shown, depth, available_actions)
    if max_nodes is not None:
        _compact(shown, max_nodes)
    if window is not None:
        _window(shown, *window)
    return shown


def _meta(node: Tree) -> dict[str, Any]:
    return node.get("meta") or {}


def _salience(node: Tree) -> float:
    salience = _meta(node).get("salience")
    return 0.5 if salience is None else salience


def _kids(node: Tree) -> list[Tree]:
    return node.get("children") or []


def _total(node: Tree) -> int:
    declared = _meta(node).get("total_children")
    return len(_kids(node)) if declared is None else declared


def _filter(node: Tree, least: float | None, types: frozenset[str] | None, retain: bool) -> None:
    """'drop nodes with salience < min_salience or type not in types, with their subtrees'"""
    if not _kids(node):
        return
    kept = []
    for child in _kids(node):
        passes = (least is None or _salience(child) >= least) and (
            types is None or child["type"] in types
        )
        if passes or retain:
            _filter(child, least, types, retain)
        if passes or (retain and _kids(child)):
            kept.append(child)
    node["children"] = kept


def _truncate(node: Tree, depth: int, hints: bool) -> Tree:
    """'nodes at distance depth from the requested root that have children become depth stubs'"""
    if not _kids(node):
        return node
    if depth > 0:
        children = [_truncate(child, depth - 1, hints) for child in _kids(node)]
        return {**node, "children": children}
    meta = {**_meta(node), "total_children": _total(node)}
    actions = [item["action"] for item in node.get("affordances") or []]
    if hints and actions:
        meta["available_actions"] = actions
    return {"id": node["id"], "type": node["type"], "meta": meta}


def _all(node: Tree) -> list[Tree]:
    found = [node]
    for child in _kids(node):
        found.extend(_all(child))
    return found


def _compact(root: Tree, max_nodes: int) -> None:
    """'while there are more than max_nodes nodes, collapse the lowest-scoring subtree'"""
    scored: list[tuple[float, int, Tree]] = []

    def look(node: Tree, distance: int, under_pinned: bool) -> None:
        pinned = under_pinned or _meta(node).get("pinned") is True
        holds_pinned = any(_meta(below).get("pinned") is True for below in _all(node))
        if distance > 1 and _kids(node) and not pinned and not holds_pinned:
            score = _salience(node) - distance * 0.01 - (len(_all(node)) - 1) * 0.001
            scored.append((score, len(scored), node))
        for child in _kids(node):
            look(child, distance + 1, pinned)

    look(root, 0, False)
    scored.sort(key=lambda entry: entry[:2])
    while len(_all(root)) > max_nodes and scored:
        node = scored.pop(0)[2]
        if not any(node is still for still in _all(root)):
            continue  # it went with a collapsed ancestor
        total = _total(node)
        meta = {**_meta(node), "total_children": total}
        if not meta.get("summary"):
            meta["summary"] = f"{total} children"
        kept = {name: node[name] for name in ("properties", "affordances") if name in node}
        kept = kept or {"properties": {}}  # or it would look like a depth stub
        identity = {"id": node["id"], "type": node["type"]}
        node.clear()
        node.update(identity | kept | {"meta": meta})


def _window(root: Tree, offset: int, count: int) -> None:
    """'slice the requested node's children; set meta.window, meta.total_children'"""
    total = _total(root)
    declared = _meta(root).get("window")
    first = declared[0] if declared else 0
    places = [
        (place, child)
        for place, child in enumerate(_kids(root), first)
        if offset <= place < offset + count
    ]
    begins = places[0][0] if places else offset
    root["children"] = [child for _, child in places]
    root["meta"] = {**_meta(root), "window": [begins, len(places)], "total_children": total}
