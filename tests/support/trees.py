"""Random trees and pairs of trees, as plain JSON values, from a seeded generator.

`pair(rng)` gives an old tree and a new one made from it by a handful of edits of
every kind a diff must carry (or, sometimes, an unrelated tree with the same root).
"""

from __future__ import annotations

import marshal
import random
from collections.abc import Callable
from typing import Any

Json = Any
Tree = dict[str, Any]

KEYS = [
    "label", "title", "count", "done", "owner", "", "a/b", "~", "~1", "a~0b", "id", "type",
    "properties", "children", "meta", "affordances", "content_ref", "index", "é", "日本語",
    "🦆", "line\nbreak", "\u2028", "nested", "0",
]  # fmt: skip
IDS = [
    "a", "b", "c", "inbox", "msg-1", "msg-2", "cart", "x.y", "日本", "🦆", "with space", "0", "1",
    "Properties", "label", "a:b", "%2F", "é", "e\u0301", "ops",
]  # fmt: skip
TYPES = ["item", "view", "collection", "group", "status", "github:pull-request", "message"]
STRINGS = [
    "", "a", "Rubber Duck", "naïve", "\u202eabc", "line\nbreak", "\x1b[31m", "🦆" * 3, "0", "null",
    "日本語", "~0/~1", '"quoted"', "\\u0041", "tab\t", "  actions: {x}",
]  # fmt: skip
NUMBERS = [0, 1, -1, 1.0, 0.5, -0.0, 1e22, 1.5e-7, 2**53, 2**64, 10**30, True, False]
EXTRAS = ["x-color", "version", "$ref", "Children"]


def scalar(rng: random.Random) -> Json:
    pick = rng.random()
    if pick < 0.4:
        return rng.choice(STRINGS)
    if pick < 0.8:
        return rng.choice(NUMBERS)
    return None


def value(rng: random.Random, depth: int = 2) -> Json:
    pick = rng.random()
    if depth and pick < 0.12:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if depth and pick < 0.24:
        keys = rng.sample(KEYS, rng.randrange(4))
        return {key: value(rng, depth - 1) for key in keys}
    return scalar(rng)


def properties(rng: random.Random) -> Json:
    return {key: value(rng) for key in rng.sample(KEYS, rng.randrange(6))}


def meta(rng: random.Random) -> Json:
    makers: dict[str, Callable[[], Json]] = {
        "summary": lambda: rng.choice(STRINGS),
        "salience": lambda: rng.choice([0, 0.25, 0.5, 0.855, 1, 1.0]),
        "pinned": lambda: rng.random() < 0.5,
        "changed": lambda: True,
        "focus": lambda: rng.random() < 0.5,
        "urgency": lambda: rng.choice(["none", "low", "high"]),
        "total_children": lambda: rng.randrange(200),
        "window": lambda: [rng.randrange(9), rng.randrange(9)],
        "reason": lambda: None,
        "custom/key": lambda: value(rng),
    }
    return {key: makers[key]() for key in rng.sample(list(makers), rng.randrange(5))}


def affordances(rng: random.Random) -> Json:
    actions = rng.sample(["open", "close", "rename", "delete", "日本"], rng.randrange(4))
    result: list[Json] = []
    for action in actions:
        affordance: dict[str, Json] = {"action": action}
        if rng.random() < 0.4:
            affordance["params"] = {
                "type": "object",
                "properties": {"name": {"type": rng.choice(["string", "number"])}},
            }
        if rng.random() < 0.3:
            affordance["dangerous"] = rng.random() < 0.5
        if rng.random() < 0.1:
            affordance["x-unknown"] = value(rng)
        result.append(affordance)
    return result


def content_ref(rng: random.Random) -> Json:
    ref: dict[str, Json] = {
        "type": rng.choice(["text", "binary", "stream"]),
        "mime": "text/plain",
        "uri": "slop://content/a",
        "summary": rng.choice(STRINGS),
    }
    if rng.random() < 0.5:
        ref["size"] = rng.randrange(1000)
    return ref


FIELDS: dict[str, Callable[[random.Random], Json]] = {
    "properties": properties,
    "meta": meta,
    "affordances": affordances,
    "content_ref": content_ref,
}
_CHANCE = {"properties": 0.8, "meta": 0.4, "affordances": 0.3, "content_ref": 0.1}


def node(rng: random.Random, node_id: str) -> Tree:
    made: Tree = {"id": node_id, "type": rng.choice(TYPES)}
    for name, make in FIELDS.items():
        if rng.random() < _CHANCE[name]:
            made[name] = None if rng.random() < 0.05 else make(rng)
    if rng.random() < 0.03:
        made[rng.choice(EXTRAS)] = value(rng)
    return made


def tree(rng: random.Random, levels: int = 4, root_id: str = "root") -> Tree:
    made = node(rng, root_id)
    if levels > 1 and rng.random() < 0.75:
        ids = rng.sample(IDS, rng.randrange(6))
        made["children"] = [tree(rng, levels - 1, node_id) for node_id in ids]
    elif rng.random() < 0.15:
        made["children"] = rng.choice([None, []])
    return made


def wide(rng: random.Random, width: int = 200) -> Tree:
    made = node(rng, "root")
    made["children"] = [
        {"id": f"n{i}", "type": "item", "properties": {"n": i}} for i in range(width)
    ]
    return made


def deep(rng: random.Random, levels: int = 60) -> Tree:
    made = node(rng, "leaf")
    for i in range(levels):
        made = {"id": "root" if i == levels - 1 else f"d{i}", "type": "group", "children": [made]}
    return made


def copy_of(value: Json) -> Json:
    """Copy JSON values, many times faster than copy.deepcopy."""
    return marshal.loads(marshal.dumps(value))  # noqa: S302 - our own bytes


def every_node(root: Tree) -> list[Tree]:
    found, stack = [], [root]
    while stack:
        item = stack.pop()
        found.append(item)
        stack.extend(item.get("children") or ())
    return found


def _edit_property(rng: random.Random, target: Tree) -> None:
    current = target.get("properties")
    if not isinstance(current, dict):
        target["properties"] = {rng.choice(KEYS): value(rng)}
        return
    pick = rng.random()
    if current and pick < 0.25:
        del current[rng.choice(list(current))]
    elif current and pick < 0.35:
        items = list(current.items())
        rng.shuffle(items)
        target["properties"] = dict(items)
    elif pick < 0.45:
        target["properties"] = {rng.choice(KEYS): value(rng), **current}
    else:
        current[rng.choice([*KEYS, *current])] = value(rng)


def _edit_field(rng: random.Random, target: Tree) -> None:
    name = rng.choice(list(FIELDS))
    pick = rng.random()
    if pick < 0.25:
        target.pop(name, None)
    elif pick < 0.35:
        target[name] = None
    else:
        target[name] = FIELDS[name](rng)


def _edit_meta(rng: random.Random, target: Tree) -> None:
    current = target.get("meta")
    if isinstance(current, dict) and current and rng.random() < 0.4:
        del current[rng.choice(list(current))]
    elif isinstance(current, dict):
        current.update(meta(rng))
    else:
        target["meta"] = meta(rng)


def _edit_unknown(rng: random.Random, target: Tree) -> None:
    name = rng.choice(EXTRAS)
    if name in target and rng.random() < 0.5:
        del target[name]
    else:
        target[name] = value(rng)


def _edit_children(rng: random.Random, target: Tree) -> None:
    current = target.get("children")
    pick = rng.random()
    if not isinstance(current, list) or pick < 0.08:
        choice = rng.choice([None, [], "absent", [tree(rng, 2, "new")]])
        if choice == "absent":
            target.pop("children", None)
        else:
            target["children"] = choice
    elif pick < 0.35:
        free = [i for i in [*IDS, "n1000", "n1001"] if i not in {c["id"] for c in current}]
        for node_id in rng.sample(free, min(len(free), rng.randrange(1, 3))):
            current.insert(rng.randrange(len(current) + 1), tree(rng, 2, node_id))
    elif current and pick < 0.6:
        del current[rng.randrange(len(current))]
    elif current and pick < 0.8:
        moved = current.pop(rng.randrange(len(current)))
        current.insert(rng.randrange(len(current) + 1), moved)
    elif pick < 0.9:
        rng.shuffle(current)
    else:
        current.reverse()


def _edit_type(rng: random.Random, target: Tree) -> None:
    target["type"] = rng.choice(TYPES)


_EDITS = [
    _edit_property, _edit_property, _edit_property, _edit_field, _edit_meta, _edit_unknown,
    _edit_children, _edit_children, _edit_type,
]  # fmt: skip


def edited(rng: random.Random, old: Tree) -> Tree:
    new: Tree = copy_of(old)
    for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 9])):
        rng.choice(_EDITS)(rng, rng.choice(every_node(new)))
    return new


def touched(rng: random.Random, old: Tree) -> Tree:
    """One edit somewhere below the root, where there is something: what a patch is made for."""
    new: Tree = copy_of(old)
    root, *rest = every_node(new)
    rng.choice(_EDITS)(rng, rng.choice(rest or [root]))
    return new


def pair(rng: random.Random) -> tuple[Tree, Tree]:
    pick = rng.random()
    if pick < 0.02:
        old = wide(rng)
    elif pick < 0.04:
        old = deep(rng)
    else:
        # Mostly small: edits that meet on one node are where a diff goes wrong.
        old = tree(rng, rng.choice([2, 3, 3, 3, 3, 4]))
    if rng.random() < 0.1:
        return old, tree(rng, root_id=rng.choice(["root", "root", "other"]))
    return old, edited(rng, old)
