"""From what an app says about a node to the node.

A descriptor is a dict:

    type        semantic type; `group` if absent, `item` for children
    props       the state itself (also `properties`)
    summary     one line that stands for the subtree where it is not shown
    items       the children, descriptors with an `id` each, or a mapping of ids to descriptors
                (also `children`, beside `items` if it is a mapping; None is "lazy")
    window      {items, total, offset}: a part of many children, instead of `items`
    meta        salience, urgency, focus, …
    actions     name → function, or {handler, params, label, …}
    content_ref where the large content is; `uri` is `slop://content/<path>` if absent

Keys in camelCase mean the same. A descriptor may hold `Node`s as children. What is
wrong is said with its path and key, and nothing of it is used.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Required, TypedDict
from uuid import UUID

import msgspec
from msgspec import Raw

from sightline.errors import InvalidDescriptor, InvalidTree, Violation
from sightline.slop.app.action import Action
from sightline.slop.protocol.codec import decode, encode, from_value
from sightline.slop.protocol.jsontext import read
from sightline.slop.protocol.limits import WIRE
from sightline.slop.protocol.path import format_path
from sightline.slop.protocol.tree import ContentRef, Meta, Node, plain

Ids = tuple[str, ...]
# By the path of the node that has them, and by name.
Actions = dict[Ids, dict[str, Action]]


class WindowDescriptor(TypedDict, total=False):
    """A part of many children: these, of so many, from there on."""

    items: Required[Sequence[NodeDescriptor | Node]]
    total: int
    offset: int


class NodeDescriptor(TypedDict, total=False):
    """A descriptor by its keys, so that an editor and a type checker see a typo."""

    id: str
    type: str
    props: Mapping[str, Any]
    summary: str
    items: Sequence[NodeDescriptor | Node] | Mapping[str, NodeDescriptor] | None
    children: Sequence[NodeDescriptor | Node] | Mapping[str, NodeDescriptor] | None
    window: WindowDescriptor
    meta: Mapping[str, Any]
    actions: Mapping[str, Any]
    content_ref: Mapping[str, Any]


_NAMES: Final = (
    "id", "type", "properties", "summary", "items", "children", "window", "meta", "actions",
    "content_ref",
)  # fmt: skip
_OTHER_NAMES: Final = {"props": "properties", "contentRef": "content_ref"}
_KEYS: Final = {name: name for name in _NAMES} | _OTHER_NAMES
_META_KEYS: Final = {"totalChildren": "total_children", "availableActions": "available_actions"}
_META_SOURCES: Final = frozenset({"meta", "summary", "window"})
_LEVELS: Final = 64
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_TEXT: Final = frozenset({str})
_WRITTEN: Final = (str, int, bool, date, datetime, time, Decimal, Enum, UUID)
_encoder: Final = msgspec.json.Encoder(decimal_format="number")


class Described(msgspec.Struct, frozen=True):
    """A node as an app described it: its text's digest, its actions by path, and itself."""

    digest: bytes
    actions: Actions
    _ids: Ids
    _text: bytes
    _node: Node | None = None

    def node(self) -> Node:
        """Build the node. Raises InvalidInput (every broken rule)."""
        try:
            node = decode(self._text) if self._node is None else self._node
            _check_sizes(node, len(self._text))
        except InvalidTree as error:
            raise _placed(error, self._ids) from None
        return node


def fingerprint(given: object) -> bytes | None:
    """A digest of what was said, if it is nothing but data: equal ones describe equal nodes.

    None where there are functions in it, which are new each time, or where it is no
    descriptor. It costs a fraction of reading the descriptor.
    """
    if type(given) is not dict:
        return None
    try:
        return _digest(msgspec.json.encode(given))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def describe(given: object, ids: Ids, node_id: str, default_type: str = "group") -> Described:
    """Read a descriptor or a Node for a path. Raises InvalidInput, naming path and key."""
    if isinstance(given, Node):
        node = given if given.id == node_id else msgspec.structs.replace(given, id=node_id)
        text = encode(node)
        return Described(_digest(text), {}, ids, text, node)
    actions: Actions = {}
    value = _wire(given, ids, node_id, default_type, actions, 1)
    try:
        text = _encoder.encode(value)
    except (TypeError, ValueError, OverflowError):
        # What cannot be written breaks a rule; this says which, and where.
        try:
            from_value(_plain(value))
        except InvalidTree as error:
            raise _placed(error, ids) from None
        raise
    return Described(_digest(text), actions, ids, text)


def _check_sizes(root: Node, whole_bytes: int) -> None:
    """Raise InvalidTree if a node is too large for those who would mirror it."""
    most = WIRE.node_bytes
    if most is None or whole_bytes <= most:
        return
    for node in root.walk():
        if len(encode(node.with_child_list(()))) > most:
            # Its content may be any length: a reference and `app.content` hand it out in pieces.
            rule = f"has more than {most} bytes beside its children; give it a content_ref instead"
            raise InvalidTree([Violation("", f"{node.id} {rule}")])


def _placed(error: InvalidTree, ids: Ids) -> InvalidTree:
    """The same complaint, from where the node stands in the app's tree."""
    prefix = "".join(f"/{node_id}" for node_id in ids)
    return InvalidTree([Violation(prefix + item.path, item.rule) for item in error.violations])


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


def _wire(
    given: object, ids: Ids, node_id: str, default_type: str, actions: Actions, level: int
) -> dict[str, Any]:
    """The node as the wire has it; its actions go into `actions`."""
    if type(given) is not dict and not isinstance(given, Mapping):
        kind = type(given).__name__
        raise InvalidDescriptor(format_path(ids), None, f"must be a dict or a Node, not a {kind}")
    if level > _LEVELS:
        raise InvalidDescriptor(format_path(ids), None, f"is more than {_LEVELS} levels deep")
    fields: dict[str, Any] = {}
    for key, item in given.items():
        name = _KEYS.get(key)
        if name is None:
            reason = f"is not one of {' '.join(sorted(set(_KEYS) - {'properties', 'contentRef'}))}"
            raise InvalidDescriptor(format_path(ids), str(key), reason)
        if name in fields:
            raise InvalidDescriptor(format_path(ids), str(key), "is given twice")
        fields[name] = item
    value: dict[str, Any] = {"id": node_id, "type": fields.get("type", default_type)}
    properties = fields.get("properties")
    if properties is not None:
        _check_values(properties, ids, "props")
        value["properties"] = properties
    if not fields.keys().isdisjoint(_META_SOURCES):
        meta = _meta(fields, ids)
        if meta:
            value["meta"] = meta
    if fields.get("actions") is not None:
        offered = _actions(fields["actions"], ids)
        if offered:
            value["affordances"] = [action.affordance for action in offered.values()]
            actions[ids] = offered
    if fields.get("content_ref") is not None:
        value["content_ref"] = _content_ref(fields["content_ref"], ids)
    listed = [fields[name] for name in ("items", "children") if name in fields]
    if len(listed) == 2 and not isinstance(fields["children"], Mapping):
        raise InvalidDescriptor(format_path(ids), "children", "is given twice, as 'items' too")
    if "window" in fields:
        if listed:
            raise InvalidDescriptor(format_path(ids), "window", "stands instead of 'items'")
        listed = [fields["window"]["items"]]
    if listed and listed[0] is None:
        value["children"] = None
    elif listed:
        value["children"] = _children(listed[0], ids, actions, level)
        for more in listed[1:]:
            value["children"] += _children(more, ids, actions, level)
    return value


def _children(items: object, ids: Ids, actions: Actions, level: int) -> list[Any]:
    if isinstance(items, Mapping):
        items = [_named(key, item, ids) for key, item in items.items()]
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes)):
        raise InvalidDescriptor(format_path(ids), "items", "must be a list of descriptors")
    children: list[Any] = []
    for at, item in enumerate(items):
        if isinstance(item, Node):
            children.append(Raw(encode(item)))
            continue
        is_dict = type(item) is dict or isinstance(item, Mapping)
        child_id = item.get("id") if is_dict else None
        if type(child_id) is int:
            child_id = str(child_id)
        if not isinstance(child_id, str):
            where = f"{format_path(ids)} items[{at}]"
            raise InvalidDescriptor(where, "id", "must be given, a string or a whole number")
        children.append(_wire(item, (*ids, child_id), child_id, "item", actions, level + 1))
    return children


def _named(key: object, given: object, ids: Ids) -> Mapping[str, Any] | Node:
    """Give a child of a mapping the id that is its key."""
    where = f"{format_path(ids)} children[{key!r}]"
    if not isinstance(given, Mapping | Node):
        kind = type(given).__name__
        raise InvalidDescriptor(where, None, f"must be a dict or a Node, not a {kind}")
    child_id = given.id if isinstance(given, Node) else given.get("id", key)
    if child_id != key:
        raise InvalidDescriptor(where, "id", f"is {child_id!r}, and its key says another")
    return given if isinstance(given, Node) else {**given, "id": key}


def _meta(fields: Mapping[str, Any], ids: Ids) -> dict[str, Any]:
    given = fields.get("meta")
    if isinstance(given, Meta):
        given = plain(given)
    if given is not None and not isinstance(given, Mapping):
        raise InvalidDescriptor(format_path(ids), "meta", "must be an object")
    meta: dict[str, Any] = {}
    for key, item in dict[str, Any](given or {}).items():
        meta[_META_KEYS.get(key, key)] = item
    if meta:
        _check_values(meta, ids, "meta")
    summary = fields.get("summary")
    if summary is not None:
        if not isinstance(summary, str):
            raise InvalidDescriptor(format_path(ids), "summary", "must be a string")
        meta["summary"] = summary
    window = fields.get("window")
    if window is not None:
        if not isinstance(window, Mapping) or "items" not in window:
            reason = "must be a mapping with 'items', 'total' and 'offset'"
            raise InvalidDescriptor(format_path(ids), "window", reason)
        unknown = window.keys() - {"items", "total", "offset"}
        if unknown:
            key = f"window.{min(map(str, unknown))}"
            raise InvalidDescriptor(format_path(ids), key, "is not one of items total offset")
        # SLOP, scaling: a window sets meta.total_children and meta.window.
        offset = window.get("offset", 0)
        count = len(window["items"])
        meta["total_children"] = window.get("total", offset + count)
        meta["window"] = [offset, count]
    return meta


def _actions(given: object, ids: Ids) -> dict[str, Action]:
    where = format_path(ids)
    if not isinstance(given, Mapping):
        raise InvalidDescriptor(where, "actions", "must map names to functions or mappings")
    return {str(name): Action.inline(str(name), item, where) for name, item in given.items()}


def _content_ref(given: object, ids: Ids) -> dict[str, Any]:
    if isinstance(given, ContentRef):
        given = plain(given)
    if not isinstance(given, Mapping):
        raise InvalidDescriptor(format_path(ids), "content_ref", "must be an object")
    _check_values(given, ids, "content_ref")
    mime = str(given.get("mime", ""))
    is_text = mime.startswith("text/") or mime.endswith(("json", "xml", "yaml"))
    uri = f"slop://content{format_path(ids)}"
    return {"type": "text" if is_text else "binary", "uri": uri, **given}


def _check_values(given: object, ids: Ids, key: str) -> None:
    """Refuse what would be written as something else: NaN as null, a key 1 as "1"."""
    if type(given) is not dict and not isinstance(given, Mapping):
        raise InvalidDescriptor(format_path(ids), key, "must be an object")
    if _SCALARS.issuperset(map(type, given.values())) and _TEXT.issuperset(map(type, given)):
        return
    stack: list[tuple[str, Any]] = [(key, given)]
    while stack:
        where, value = stack.pop()
        if isinstance(value, Mapping):
            for name, member in value.items():
                if type(name) is not str:
                    raise InvalidDescriptor(
                        format_path(ids), where, f"must have strings as keys, not {name!r}"
                    )
                if type(member) not in _SCALARS:
                    stack.append((f"{where}.{name}", member))
        elif isinstance(value, (list, tuple, set, frozenset)):
            stack.extend((f"{where}[]", item) for item in value if type(item) not in _SCALARS)
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise InvalidDescriptor(format_path(ids), where, "must not be NaN or Infinity")
        elif not isinstance(value, _WRITTEN):
            reason = f"is a {type(value).__name__}, which is not JSON"
            raise InvalidDescriptor(format_path(ids), where, reason)


def _plain(value: Any) -> Any:
    if isinstance(value, Raw):
        return read(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
