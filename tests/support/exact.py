"""Equality as JSON texts have it: member order counts, and `1`, `1.0` and `true` differ."""

from __future__ import annotations

import json
from typing import Any

_ORDER = ["id", "type", "properties", "meta", "affordances", "content_ref"]


def exact(tree: dict[str, Any]) -> str:
    """Write a tree so that two are equal exactly when their nodes are.

    The order of a node's own fields means nothing; the order of everything else does.
    """
    return json.dumps(_ordered(tree), allow_nan=False)


def _ordered(node: dict[str, Any]) -> dict[str, Any]:
    known = {name: node[name] for name in _ORDER if name in node}
    rest = {name: node[name] for name in sorted(node) if name not in _ORDER}
    if rest.get("children"):
        rest["children"] = [_ordered(child) for child in rest["children"]]
    return {**known, **rest}
