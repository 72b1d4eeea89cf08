"""Patches: operations that turn one tree into another.

`apply(tree, ops)` returns the new tree or raises InvalidPatch naming the op and
its path; the old tree is a value and stays as it is. What an op does not touch
is shared between the two.

An op's value is JSON text, as it was or will be on the wire. Its path leads to
a child (add, remove, replace, move), to a field of a node, or into a field; see
`path`. Three things are stricter here than in JSON Patch (RFC 6902), because a mirror that
guesses drifts: a child's path must end in its own id, an index must lie within
the list, and `replace` and `remove` must find what they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.errors import InvalidInput, InvalidJson, InvalidPatch, InvalidPath, InvalidTree
from sightline.slop.protocol import codec, jsontext, pieces
from sightline.slop.protocol.limits import DEFAULT, Limits
from sightline.slop.protocol.path import PatchPath, escape, format_path, parse_patch_path
from sightline.slop.protocol.rewrite import share, share_steps
from sightline.slop.protocol.rules import field_violations, value_violations
from sightline.slop.protocol.tree import ChildList, Node


class Op(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One operation, as it is on the wire."""

    op: Literal["add", "remove", "replace", "move"]
    path: str
    value: Raw | UnsetType = UNSET
    index: int | UnsetType = UNSET


class _Refused(Exception):
    """Why an op cannot be applied; `apply` adds which op it was."""


_WRONG: Final = (InvalidPath, _Refused, InvalidJson, InvalidTree)
_ops: Final = msgspec.json.Decoder(list[Op])
_encoder: Final = msgspec.json.Encoder()
# How large a value may be is for `apply` to say, who knows whether it is a tree.
_ANY_SIZE: Final = Limits(string_bytes=1 << 62, value_levels=1 << 62)
_SOME: Final = 1 << 64
# A value that is longer is not looked at piece by piece where its text alone can vouch for it.
_LARGE_BYTES: Final = 32 * 1024
# The op, path and index of an operation, each.
_OP_BYTES: Final = 64 * 1024


def encode_ops(ops: Sequence[Op]) -> bytes:
    """Write ops as a JSON list."""
    return _encoder.encode(ops)


def decode_ops(data: bytes | str) -> list[Op]:
    """Read a JSON list of ops. Raises InvalidJson, or InvalidPatch naming the op."""
    text = jsontext.text_from_bytes(data) if isinstance(data, bytes) else data
    try:
        return _ops.decode(msgspec.json.format(text, indent=-1))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return ops_from_value(jsontext.loads(text))


def ops_from_value(value: object) -> list[Op]:
    """Make ops from plain Python values. Raises InvalidPatch naming the op."""
    if not isinstance(value, (list, tuple)):
        raise InvalidInput("a patch must be a list of operations")
    return [_op_from_value(i, item) for i, item in enumerate(value)]


def _op_from_value(i: int, item: object) -> Op:
    if not isinstance(item, Mapping):
        raise InvalidPatch(i, "?", "?", "an operation must be an object")
    op, path, index = item.get("op"), item.get("path"), item.get("index", UNSET)
    shown = path if isinstance(path, str) else "?"
    if op not in ("add", "remove", "replace", "move"):
        raise InvalidPatch(i, str(op), shown, "'op' must be add, remove, replace or move")
    if not isinstance(path, str):
        raise InvalidPatch(i, op, "?", "'path' must be a string")
    if index is not UNSET and (isinstance(index, bool) or not isinstance(index, int)):
        raise InvalidPatch(i, op, path, "'index' must be a whole number")
    if "value" not in item:
        return Op(op, path, index=index)
    broken = next(value_violations(item["value"], "/value", _ANY_SIZE), None)
    if broken:
        raise InvalidPatch(i, op, path, str(broken))
    return Op(op, path, jsontext.text_of(item["value"]), index)


def apply(tree: Node, ops: Iterable[Op], limits: Limits = DEFAULT) -> Node:
    """Apply ops in order and return the new tree. Raises InvalidPatch; all or nothing.

    The limits hold for what the ops bring and, as to levels, for where they put it. How many
    nodes a tree may have after many patches is for its owner to watch: see `consumer`.
    """
    for i, op in enumerate(ops):
        tree = _with_op(tree, i, op, limits)
    return tree


def apply_steps(tree: Node, text: pieces.Text, limits: Limits) -> pieces.Steps[Node]:
    """Read ops and apply them, one by one, with limits that hold for all of it; see `pieces`."""
    if not isinstance(text, pieces.Part) and len(text) <= pieces.EXACT_BYTES:
        return (yield from _apply_ops(tree, 0, decode_ops(bytes(text)), limits))
    i = 0
    for group in _groups(text):
        if isinstance(group, list):
            ops = decode_ops(b"[%b]" % b",".join(group))
            tree = yield from _apply_ops(tree, i, ops, limits)
            i += len(ops)
        else:
            tree = yield from _apply_large(tree, i, group, limits)
            i += 1
    return tree


def _apply_ops(tree: Node, before: int, ops: Iterable[Op], limits: Limits) -> pieces.Steps[Node]:
    """Like `apply`, one by one, as the ops that come after so many others."""
    for i, op in enumerate(ops, before):
        tree = _with_op(tree, i, op, limits)
        yield
    return tree


def _with_op(tree: Node, i: int, op: Op, limits: Limits) -> Node:
    # RFC 6902 §5: an error ends the whole patch.
    try:
        return _applied(tree, op, parse_patch_path(op.path), limits)
    except _WRONG as error:
        raise _invalid(i, op, error) from None


def _invalid(i: int, op: Op, error: Exception) -> InvalidPatch:
    reason = error.reason if isinstance(error, InvalidPath) else str(error)
    return InvalidPatch(i, op.op, op.path, reason)


def _groups(text: pieces.Text) -> Iterator[list[Raw] | pieces.Text]:
    try:
        yield from pieces.groups(text)
    except msgspec.DecodeError:
        raise InvalidInput("a patch must be a list of operations") from None


def _apply_large(tree: Node, i: int, text: pieces.Text, limits: Limits) -> pieces.Steps[Node]:
    """Apply an op with a large value."""
    try:
        members = pieces.fields(text)
    except msgspec.DecodeError:
        raise InvalidPatch(i, "?", "?", "an operation must be an object") from None
    value = members.get("value")
    small = {name: item for name, item in members.items() if name in {"op", "path", "index"}}
    if value is None or any(pieces.size(item) > _OP_BYTES for item in small.values()):
        raise InvalidPatch(i, "?", "?", "an operation must not be so long")
    [op] = decode_ops(b"[%b]" % _encoder.encode(small))
    try:
        path = parse_patch_path(op.path)
        if path.field is None and op.op in ("add", "replace"):
            node = yield from codec.decode_steps(value, limits)
            return (yield from _placed(tree, op, path.ids, _fitting(node, path.ids, limits)))
        if path.field == "children" and not path.tokens and op.op in ("add", "replace"):
            return (yield from _adopted(tree, op, path.ids, value, limits))
        text = _small_enough(value, limits)
    except _WRONG as error:
        raise _invalid(i, op, error) from None
    whole = msgspec.structs.replace(op, value=text)
    return (yield from _apply_ops(tree, i, [whole], limits))


def _small_enough(value: pieces.Text, limits: Limits) -> Raw:
    most = limits.node_bytes
    if most is not None and pieces.size(value) > most:
        raise _Refused(f"a value must not have more than {most} bytes")
    return Raw(msgspec.json.format(bytes(pieces.joined(value)), indent=-1))


def _adopted(
    tree: Node, op: Op, ids: tuple[str, ...], children: pieces.Text, limits: Limits
) -> pieces.Steps[Node]:
    """Replace the children of a node by a long list."""
    target = tree.at(format_path(ids))
    if op.op == "replace" and target.child_list is UNSET:
        raise _Refused("there is no field 'children'")
    holder = yield from codec.decode_steps(_holder(children), limits)
    _check_levels(holder, len(ids), limits)
    replaced = yield from share_steps(target, target.with_child_list(holder.child_list))
    return tree.change_at(ids, lambda _: replaced)


def _placed(tree: Node, op: Op, ids: tuple[str, ...], node: Node) -> pieces.Steps[Node]:
    if op.op == "add" and not ids:
        raise _Refused("the root can only be replaced")
    if op.op == "replace":
        merged = yield from share_steps(tree.at(format_path(ids)), node)
        return tree.change_at(ids, lambda _: merged)
    index = _index(op)
    return tree.change_at(ids[:-1], lambda parent: parent.with_child(node, index))


def _holder(children: pieces.Text) -> pieces.Part:
    """A node that stands for the one whose children are replaced."""
    holder = pieces.Part(is_object=True)
    holder.entries.append(Raw(b'{"id":"a","type":"a"}'))
    if isinstance(children, pieces.Part):
        holder.entries.append(("children", children))
    else:
        holder.entries.append(Raw(b'{"children":%b}' % bytes(children)))
    return holder


def _applied(tree: Node, op: Op, path: PatchPath, limits: Limits) -> Node:
    if path.field is not None:
        return tree.change_at(path.ids, lambda node: _with_field(node, op, path, limits))
    if not path.ids:
        if op.op != "replace":
            raise _Refused("the root can only be replaced")
        return share(tree, _node(op, limits))
    parent, child_id = path.ids[:-1], path.ids[-1]
    if op.op == "replace":
        value = _node(op, limits, path.ids)
        return tree.change_at(path.ids, lambda node: share(node, value))
    if op.op == "add":
        child, index = _node(op, limits, path.ids), _index(op)
        return tree.change_at(parent, lambda node: node.with_child(child, index))
    if op.op == "remove":
        return tree.change_at(parent, lambda node: node.without_child(child_id))
    index = _index(op)
    if index is None:
        raise _Refused("a move needs an index")
    # SLOP, messages: a move reorders a child; unlike that of RFC 6902 §4.4 it has no `from`.
    return tree.change_at(parent, lambda node: node.with_child_moved(child_id, index))


def _node(op: Op, limits: Limits, ids: tuple[str, ...] = ()) -> Node:
    return _fitting(codec.decode(bytes(_value(op)), limits), ids, limits)


def _fitting(node: Node, ids: tuple[str, ...], limits: Limits) -> Node:
    """Check that a node can stand at a path."""
    if ids and node.id != ids[-1]:
        raise _Refused(f"the path ends in {ids[-1]!r}, but the node's id is {node.id!r}")
    _check_levels(node, len(ids), limits)
    return node


def _check_levels(node: Node, above: int, limits: Limits) -> None:
    """Refuse a node that would reach too deep, standing below so many others."""
    levels = limits.levels
    row: Sequence[Node] = [node]
    while levels is not None and row:
        above += 1
        if above > levels:
            raise _Refused(f"a tree must not have more than {levels} levels")
        row = [child for parent in row if parent.child_list for child in parent.child_list]


def _value(op: Op) -> Raw:
    if isinstance(op.value, UnsetType):
        raise _Refused(f"{op.op} needs a value")
    return op.value


def _index(op: Op) -> int | None:
    return None if isinstance(op.index, UnsetType) else op.index


def _with_field(node: Node, op: Op, path: PatchPath, limits: Limits) -> Node:
    field, tokens = path.field, path.tokens
    if op.op == "move":
        raise _Refused("only a child can be moved")
    if field == "type":
        if op.op == "remove" or tokens:
            raise _Refused("a type can only be replaced")
        return node.with_field("type", jsontext.read(_value(op)))
    if field == "children":
        if tokens:
            raise _Refused("a child is addressed by its id, not through 'children'")
        return _with_child_list(node, op, len(path.ids), limits)
    assert field is not None  # noqa: S101 - the caller has looked
    if not tokens:
        return _with_whole_field(node, field, op, limits)
    if len(tokens) == 1 and field in ("properties", "meta"):
        return _with_member(node, field, tokens[0], op, limits)
    return _with_inner_value(node, field, tokens, op, limits)


def _with_child_list(node: Node, op: Op, above: int, limits: Limits) -> Node:
    if op.op != "add" and node.child_list is UNSET:
        raise _Refused("there is no field 'children'")
    children: ChildList = UNSET
    if op.op != "remove":
        value = jsontext.read(_value(op))
        holder = codec.from_value({"id": node.id, "type": node.type, "children": value}, limits)
        _check_levels(holder, above, limits)
        children = holder.child_list
    return share(node, node.with_child_list(children))


def _with_whole_field(node: Node, field: str, op: Op, limits: Limits) -> Node:
    present = node.text(field) is not UNSET
    if op.op != "add" and not present:
        raise _Refused(f"there is no field {field!r}")
    if op.op == "remove":
        return node.with_field(field, UNSET)
    text = _value(op)
    if len(text) <= _LARGE_BYTES or not codec.is_sound_field(field, text, limits):
        _check(field, jsontext.read(text), limits)
    return _with_text(node, field, text, limits)


def _with_member(node: Node, field: str, key: str, op: Op, limits: Limits) -> Node:
    _check_parts(node.text(field), limits)
    current = jsontext.members(node.text(field))
    if op.op != "add" and key not in current:
        raise _Refused(f"there is no {key!r} in {field!r}")
    if op.op == "remove":
        del current[key]
        return node.with_text(field, jsontext.text_of(current))
    current[key] = text = _value(op)
    value = jsontext.read(text)
    if field == "meta" or not _is_harmless(key, value, limits):
        _check(field, {key: value} if len(text) <= _LARGE_BYTES else {key: None}, limits)
        alone = jsontext.text_of({key: text})
        if len(text) > _LARGE_BYTES and not codec.is_sound_field(field, alone, limits):
            _check(field, {key: value}, limits)
    return _with_text(node, field, jsontext.text_of(current), limits)


def _is_harmless(key: str, value: object, limits: Limits) -> bool:
    """Tell at a glance that a property breaks no rule, as of most it can be told."""
    most = limits.string_bytes
    if not key.isascii() or len(key) > most:
        return False
    if isinstance(value, str):
        return value.isascii() and len(value) <= most
    return value is None or (isinstance(value, int) and -_SOME < value < _SOME)


def _with_inner_value(
    node: Node, field: str, tokens: tuple[str, ...], op: Op, limits: Limits
) -> Node:
    text = node.text(field)
    if isinstance(text, UnsetType):
        raise _Refused(f"there is no field {field!r}")
    _check_parts(text, limits)
    whole = jsontext.read(text)
    holder = whole
    for token in tokens[:-1]:
        holder = holder[_key_in(holder, token)]
    _change_member(holder, tokens[-1], op)
    if len(text) <= _LARGE_BYTES and (op.value is UNSET or len(_value(op)) <= _LARGE_BYTES):
        _check(field, whole, limits)
        return _with_text(node, field, jsontext.text_of(whole), limits)
    _check("properties", {tokens[-1]: None}, limits)
    changed = jsontext.text_of(whole)
    if not codec.is_sound_field(field, changed, limits):
        _check(field, whole, limits)
    return _with_text(node, field, changed, limits)


def _check_parts(text: jsontext.JsonText, limits: Limits) -> None:
    """Refuse to change a value from the wire from within where to open it would take too long."""
    if isinstance(text, UnsetType) or limits.node_bytes is None or len(text) <= pieces.PIECE_BYTES:
        return
    if pieces.most_values(text) > pieces.VALUES_AT_ONCE:
        raise _Refused("a value of so many parts can only be replaced as a whole")


def _with_text(node: Node, field: str, text: Raw, limits: Limits) -> Node:
    most = limits.node_bytes
    if most is not None and len(text) > most:
        raise _Refused(f"{field!r} must not have more than {most} bytes")
    return node.with_text(field, text)


def _change_member(holder: Any, token: str, op: Op) -> None:
    # RFC 6902 §4.1: an add inserts into a list, - being its end; in an object it may replace.
    if isinstance(holder, list) and op.op == "add":
        at = len(holder) if token == "-" else _list_index(token, len(holder))
        holder.insert(at, jsontext.read(_value(op)))
        return
    if isinstance(holder, dict) and op.op == "add":
        holder[token] = jsontext.read(_value(op))
        return
    key = _key_in(holder, token)
    if op.op == "remove":
        del holder[key]
    else:
        holder[key] = jsontext.read(_value(op))


def _key_in(holder: Any, token: str) -> Any:
    """Find a token in a container, as the key or index under which it is there."""
    # RFC 6902 §4.2, §4.3: what is removed or replaced must exist.
    if isinstance(holder, dict) and token in holder:
        return token
    if isinstance(holder, list) and holder:
        return _list_index(token, len(holder) - 1)
    raise _Refused(f"there is nothing at {escape(token)!r}")


def _list_index(token: str, last: int) -> int:
    # RFC 6901 §4: an index is digits without a leading zero.
    canonical = token.isascii() and token.isdigit() and (token == "0" or token[0] != "0")
    if not canonical or len(token) > 9 or int(token) > last:
        raise _Refused(f"{token!r} is not an index from 0 to {last}")
    return int(token)


def _check(field: str, value: object, limits: Limits) -> None:
    """Refuse the value of a field, or the part of it that changes, if it breaks a rule."""
    broken = next(field_violations(field, value, "/", limits), None)
    if broken is not None:
        raise _Refused(str(broken))
