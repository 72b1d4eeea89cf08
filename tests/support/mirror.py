"""A mirror written from the protocol's text alone, on plain dicts.

It shares no code with the library and makes no attempt to be fast; where it and
`apply` disagree, one of them misreads the protocol.
"""

from __future__ import annotations

import json
from typing import Any

FIELDS = ["properties", "children", "affordances", "meta", "content_ref", "type"]


def mirror_apply(tree: dict[str, Any], ops: list[dict[str, Any]]) -> dict[str, Any]:
    holder: dict[str, list[dict[str, Any]]] = {"children": [_copy(tree)]}
    for op in ops:
        segments = [] if op["path"] in ("", "/") else op["path"].split("/")[1:]
        node = holder["children"][0]
        if not segments:
            assert op["op"] == "replace"
            holder["children"][0] = _copy(op["value"])
            continue
        parent: dict[str, Any] = {}
        here = -1
        while segments and segments[0] not in FIELDS:
            segment = segments.pop(0)
            parent = node
            siblings = node.get("children") or []
            here = next((i for i, child in enumerate(siblings) if child["id"] == segment), -1)
            if here < 0:
                assert not segments, "a segment on the way names no child"
                assert op["op"] == "add"
                break
            node = siblings[here]
        if segments:
            _field_op(node, [s.replace("~1", "/").replace("~0", "~") for s in segments], op)
        else:
            _child_op(parent, here, op)
    return holder["children"][0]


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _child_op(parent: dict[str, Any], here: int, op: dict[str, Any]) -> None:
    if op["op"] == "add":
        assert here < 0, "two siblings would share an id"
        if parent.get("children") is None:
            parent["children"] = []
        index = op.get("index", len(parent["children"]))
        parent["children"].insert(index, _copy(op["value"]))
    elif op["op"] == "remove":
        del parent["children"][here]
    elif op["op"] == "replace":
        parent["children"][here] = _copy(op["value"])
    else:
        parent["children"].insert(op["index"], parent["children"].pop(here))


def _field_op(node: dict[str, Any], pointer: list[str], op: dict[str, Any]) -> None:
    target: Any = node
    for token in pointer[:-1]:
        target = target[int(token)] if isinstance(target, list) else target[token]
    last = pointer[-1]
    if isinstance(target, list):
        index = len(target) if last == "-" else int(last)
        if op["op"] == "add":
            target.insert(index, _copy(op["value"]))
        elif op["op"] == "remove":
            del target[index]
        else:
            target[index] = _copy(op["value"])
    elif op["op"] == "remove":
        del target[last]
    else:
        assert op["op"] == "add" or last in target, "replace must find what it names"
        target[last] = _copy(op["value"])
