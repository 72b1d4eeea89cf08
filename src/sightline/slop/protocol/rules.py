"""The rules of a tree, each in one place, and a check that reports every breach.

`violations(value)` takes a tree as plain Python values (what a JSON parser gives,
or what an app hands over) and returns all broken rules in document order, each
with the path of what breaks it. Where an id is unusable as an address, the path
goes by position: `/inbox/children/3/id`.

It never recurses, so that no nesting can hurt it, and it reads no more than the
limits allow: past the node or level limit it says so once and stops there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from sightline.errors import Violation
from sightline.slop.protocol.ids import RESERVED, id_problem
from sightline.slop.protocol.limits import DEFAULT, Limits
from sightline.slop.protocol.path import escape, join


class _Rule(NamedTuple):
    holds: Callable[[Any], bool]
    text: str


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _is_window(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_count, value))


def _is_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)


def _one_of(*names: str) -> _Rule:
    return _Rule(lambda value: value in names, f"must be one of {' '.join(names)}")


# A dict is one without asking the abstract class, which is slow to answer.
_MAPPING: Final = (dict, Mapping)
_STRING: Final = _Rule(lambda value: isinstance(value, str), "must be a string")
_BOOL: Final = _Rule(lambda value: isinstance(value, bool), "must be true or false")
_COUNT: Final = _Rule(_is_count, "must be a whole number, 0 or more")
_OBJECT: Final = _Rule(lambda value: isinstance(value, _MAPPING), "must be an object")
_LIST: Final = _Rule(lambda value: isinstance(value, (list, tuple)), "must be a list")

# SLOP, state tree: meta.
META: Final = {
    "summary": _STRING,
    "salience": _Rule(_is_share, "must be a number from 0 to 1"),
    "pinned": _BOOL,
    "changed": _BOOL,
    "focus": _BOOL,
    "urgency": _one_of("none", "low", "medium", "high", "critical"),
    "reason": _STRING,
    "total_children": _COUNT,
    "window": _Rule(_is_window, "must be [offset, count], two whole numbers, 0 or more"),
    "created": _STRING,
    "updated": _STRING,
    "available_actions": _Rule(_is_names, "must be a list of strings"),
}
# SLOP, affordances.
AFFORDANCE: Final = {
    "action": _Rule(lambda value: isinstance(value, str) and value != "", "must be a name"),
    "label": _STRING,
    "description": _STRING,
    "params": _Rule(_OBJECT.holds, "must be a JSON Schema, an object"),
    "dangerous": _BOOL,
    "idempotent": _BOOL,
    "estimate": _one_of("instant", "fast", "slow", "async"),
    "returns": _Rule(_OBJECT.holds, "must be a JSON Schema, an object"),
}
# SLOP, content references.
CONTENT_REF: Final = {
    "type": _one_of("text", "binary", "stream"),
    "mime": _STRING,
    "uri": _STRING,
    "summary": _STRING,
    "size": _COUNT,
    "preview": _STRING,
    "encoding": _STRING,
    "hash": _STRING,
}
# What the interpreter will still write as digits; see sys.get_int_max_str_digits.
_INT_BITS: Final = 14_280
_REQUIRED: Final = {"affordances": ("action",), "content_ref": ("type", "mime", "uri", "summary")}


def violations(value: object, limits: Limits = DEFAULT) -> list[Violation]:
    """Return every rule that a tree breaks; an empty list is a legal tree."""
    found: list[Violation] = []
    count = 0
    stack: list[tuple[object, str, int]] = [(value, "/", 1)]
    while stack:
        node, path, level = stack.pop()
        if not isinstance(node, Mapping):
            found.append(Violation(path, f"a node must be an object, not {_kind(node)}"))
            continue
        count += 1
        if limits.nodes is not None and count > limits.nodes:
            found.append(Violation(path, f"a tree must not have more than {limits.nodes} nodes"))
            break
        if limits.levels is not None and level > limits.levels:
            found.append(Violation(path, f"a tree must not have more than {limits.levels} levels"))
            continue
        found.extend(_node_violations(node, path, limits))
        children = node.get("children")
        if isinstance(children, (list, tuple)):
            placed = [
                (child, _child_path(child, path, i, limits), level + 1)
                for i, child in enumerate(children)
            ]
            stack.extend(reversed(placed))
    return found


def field_violations(
    name: str, value: object, path: str, limits: Limits = DEFAULT
) -> Iterator[Violation]:
    """Yield what is wrong with one field of a node; `null` stands for "none" everywhere."""
    if value is None and name not in {"id", "type"}:
        return
    where = join(path, name)
    if name == "meta":
        yield from _member_violations(value, META, (), where, 1, limits)
    elif name == "content_ref":
        yield from _member_violations(value, CONTENT_REF, _REQUIRED[name], where, 1, limits)
    elif name == "affordances":
        yield from _affordance_violations(value, where, limits)
    else:
        if name == "properties" and not _OBJECT.holds(value):
            yield Violation(where, f"{_OBJECT.text}, not {_kind(value)}")
        elif name == "type" and not isinstance(value, str):
            yield Violation(where, f"must be a name, not {_kind(value)}")
        elif name == "type" and not value:
            yield Violation(where, "must be a name, not empty")
        yield from value_violations(value, where, limits)


def _node_violations(node: Mapping[Any, Any], path: str, limits: Limits) -> Iterator[Violation]:
    # SLOP, state tree, node schema: id and type are required.
    if "id" not in node:
        yield Violation(path, "a node must have an id")
    else:
        problem = id_problem(node["id"], limits.id_bytes)
        if problem:
            yield Violation(join(path, "id"), problem)
    if "type" not in node:
        yield Violation(path, "a node must have a type")
    for name, value in node.items():
        if not isinstance(name, str):
            yield Violation(path, f"an object's keys must be strings, not {_kind(name)}")
        elif name == "children":
            yield from _children_violations(value, path)
        elif name != "id":
            yield from field_violations(name, value, path, limits)
            if name not in RESERVED:
                yield from value_violations(name, path, limits)


def _children_violations(children: object, path: str) -> Iterator[Violation]:
    if children is None:
        return
    if not isinstance(children, (list, tuple)):
        yield Violation(join(path, "children"), f"must be a list or null, not {_kind(children)}")
        return
    first: dict[str, int] = {}
    for i, child in enumerate(children):
        node_id = child.get("id") if isinstance(child, Mapping) else None
        # SLOP, state tree: ids are unique among siblings.
        if isinstance(node_id, str) and first.setdefault(node_id, i) != i:
            rule = "ids must be unique among siblings"
            yield Violation(
                f"{join(path, 'children')}/{i}/id",
                f"{rule}: {node_id[:80]!r} is also child {first[node_id]}",
            )


def _affordance_violations(value: object, where: str, limits: Limits) -> Iterator[Violation]:
    if not isinstance(value, (list, tuple)):
        yield Violation(where, f"{_LIST.text}, not {_kind(value)}")
        yield from value_violations(value, where, limits)
        return
    seen: set[str] = set()
    for i, affordance in enumerate(value):
        yield from _member_violations(
            affordance, AFFORDANCE, _REQUIRED["affordances"], f"{where}/{i}", 2, limits
        )
        action = affordance.get("action") if isinstance(affordance, Mapping) else None
        if isinstance(action, str) and action in seen:
            yield Violation(
                f"{where}/{i}/action", f"an action must be unique on its node: {action[:80]!r}"
            )
        elif isinstance(action, str):
            seen.add(action)


def _member_violations(
    value: object,
    rules: Mapping[str, _Rule],
    required: tuple[str, ...],
    where: str,
    level: int,
    limits: Limits,
) -> Iterator[Violation]:
    if not isinstance(value, Mapping):
        yield Violation(where, f"{_OBJECT.text}, not {_kind(value)}")
        yield from value_violations(value, where, limits, level)
        return
    for name in required:
        if value.get(name) is None:
            yield Violation(where, f"must have {name!r}")
    for name, member in value.items():
        problem = _key_problem(name, limits)
        if problem:
            yield Violation(where, problem)
        elif member is not None:
            member_path = f"{where}/{escape(name)}"
            rule = rules.get(name)
            if rule is not None and not rule.holds(member):
                yield Violation(member_path, rule.text)
            yield from value_violations(member, member_path, limits, level + 1)


# Where a value stands in another: the way to its container, and its key or index there. Written
# out only for a violation, so that deep nesting costs no more than its length.
_Way: TypeAlias = "tuple[_Way | None, str | int]"


def value_violations(
    value: object, where: str, limits: Limits, level: int = 1
) -> Iterator[Violation]:
    """Yield everything in a value that is not JSON or is over a limit, with its pointer.

    `level` is how deep the value itself stands in its field.
    """
    stack: list[tuple[object, _Way | None, int]] = [(value, None, level)]
    while stack:
        item, way, level = stack.pop()
        problem = None
        if item is None or isinstance(item, bool):
            continue
        if isinstance(item, (str, int, float, Decimal)):
            problem = _scalar_problem(item, limits)
        elif not isinstance(item, (dict, list, tuple, Mapping)):
            problem = f"{_kind(item)} is not a JSON value"
        elif level > limits.value_levels:
            problem = f"a value must not nest deeper than {limits.value_levels} levels"
        elif isinstance(item, (list, tuple)):
            last = len(item) - 1
            stack.extend((item[i], (way, i), level + 1) for i in range(last, -1, -1))
        else:
            inner: list[tuple[object, _Way | None, int]] = []
            for key, member in item.items():
                problem = _key_problem(key, limits)
                if problem:
                    yield Violation(where + _pointer(way), problem)
                else:
                    inner.append((member, (way, key), level + 1))
            stack.extend(reversed(inner))
            continue
        if problem:
            yield Violation(where + _pointer(way), problem)


def _pointer(way: _Way | None) -> str:
    tokens: list[str] = []
    while way is not None:
        way, token = way
        tokens.append(f"/{escape(str(token))}")
    return "".join(reversed(tokens))


def _key_problem(key: object, limits: Limits) -> str | None:
    if not isinstance(key, str):
        return f"an object's keys must be strings, not {_kind(key)}"
    return _string_problem(key, limits)


def _scalar_problem(item: str | float | Decimal, limits: Limits) -> str | None:
    if isinstance(item, str):
        return _string_problem(item, limits)
    if isinstance(item, int):
        too_long = item.bit_length() > _INT_BITS
        return "a whole number must not have more than 4300 digits" if too_long else None
    finite = item.is_finite() if isinstance(item, Decimal) else math.isfinite(item)
    return None if finite else "NaN and Infinity are not JSON"


def _string_problem(text: str, limits: Limits) -> str | None:
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        return "a string must not contain a lone surrogate"
    if size > limits.string_bytes:
        return f"a string must not be longer than {limits.string_bytes} bytes (it has {size})"
    return None


def _child_path(child: object, parent: str, index: int, limits: Limits) -> str:
    node_id = child.get("id") if isinstance(child, Mapping) else None
    if isinstance(node_id, str) and id_problem(node_id, limits.id_bytes) is None:
        return join(parent, node_id)
    return f"{join(parent, 'children')}/{index}"


_KINDS: Final = {
    "NoneType": "null",
    "bool": "a boolean",
    "int": "a number",
    "float": "a number",
    "str": "a string",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
}


def _kind(value: object) -> str:
    name = type(value).__name__
    return _KINDS.get(name, f"a {name}")
