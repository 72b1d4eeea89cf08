"""Trees from JSON and back.

`decode(encode(tree)) == tree`, and whatever `decode` returns breaks no rule.

Reading is one native pass that builds the nodes, then a check that goes through
the tree level by level in bulk (all ids of a level at once, all metas of a level
at once). The bulk check only has to be *sound*: what it cannot vouch for (an
unknown field, a rule that may be broken, nesting beyond the native parser) is
read again by the exact path, which keeps unknown fields and reports every
violation with its path.

`decode_steps` reads a tree that came over a wire by groups of siblings, each a small tree
for `decode`, so that it can be interrupted. It reports the violations of the first group
that has any.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

import sightline.slop.protocol.pieces as pieces
from sightline.errors import InvalidJson, InvalidTree, Violation
from sightline.slop.protocol.ids import ID_BYTES, RESERVED
from sightline.slop.protocol.jsontext import (
    depth_steps,
    loads,
    members,
    nests_deeper,
    text_from_bytes,
)
from sightline.slop.protocol.limits import DEFAULT, Limits
from sightline.slop.protocol.path import format_path, join
from sightline.slop.protocol.rules import violations
from sightline.slop.protocol.siblings import Siblings
from sightline.slop.protocol.tree import TEXT_FIELDS, Affordance, ContentRef, Extra, Meta, Node


class _NotNative(Exception):
    """The native encoder met a node with unknown fields."""


def _hook(value: object) -> object:
    if isinstance(value, Siblings):
        return tuple(value)
    raise _NotNative


_T = TypeVar("_T")

_meta: Final = msgspec.json.Decoder(Meta | None)
_content_ref: Final = msgspec.json.Decoder(ContentRef | None)
_metas: Final = msgspec.json.Decoder(list[Meta | None])
_content_refs: Final = msgspec.json.Decoder(list[ContentRef | None])
_affordances: Final = msgspec.json.Decoder(tuple[Affordance, ...] | None)
_encoder: Final = msgspec.json.Encoder(enc_hook=_hook)

_PIECE: Final = 16 * 1024
# How far from its beginning a message says what it is.
_HEAD_BYTES: Final = 64
# How many nodes are looked at before everybody else has a turn.
_SOME_NODES: Final = 4096
_NULL: Final = Raw(b"null")
_NOT_OPENING: Final = bytes(set(range(1, 256)) - set(b"{["))
_NOT_AN_OBJECT: Final = re.compile(rb"\0[^{]")
_children_of: Final = attrgetter("child_list")
_id_of: Final = attrgetter("id")
_type_of: Final = attrgetter("type")
_text_getters: Final = {name: attrgetter(f"{name}_json") for name in TEXT_FIELDS}


class SeenSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="snapshot"):
    """A snapshot message and its tree, read in one native pass."""

    id: str
    version: Annotated[int, msgspec.Meta(ge=0)]
    tree: Node
    seq: Annotated[int, msgspec.Meta(ge=0)] | UnsetType = UNSET
    served: Raw | UnsetType = UNSET


_nodes: Final = msgspec.json.Decoder(Node)
_snapshots: Final = msgspec.json.Decoder(SeenSnapshot)


def decode(data: bytes | str, limits: Limits = DEFAULT) -> Node:
    """Read a tree. Raises InvalidJson (line, column) or InvalidTree (all violations)."""
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    root = _small_leaf(text, limits) or pieces.finish(_sound_tree(text, limits))
    if root is not None:
        return root
    return from_value(loads(data if isinstance(data, str) else text_from_bytes(data)), limits)


def _sound_tree(text: bytes, limits: Limits) -> pieces.Steps[Node | None]:
    """Read a tree in the native pass and the bulk check; None is "look closer"."""
    root = yield from _native(_nodes, text)
    if root is None or not (yield from _soundness(root, limits)):
        return None
    return root


def _small_leaf(text: bytes, limits: Limits) -> Node | None:
    """Read the text of one node, of which most is seen at a glance; None is "look closer"."""
    if len(text) > min(_PIECE, limits.string_bytes) or not text.isascii():
        return None
    if text.count(b"{") + text.count(b"[") > limits.value_levels:
        return None
    try:
        node = _nodes.decode(msgspec.json.format(text, indent=-1))
    except (msgspec.DecodeError, NotImplementedError):
        return None
    return node if not node.child_list and _is_sound_leaf(node, limits) else None


def _is_sound_leaf(node: Node, limits: Limits) -> bool:
    """Vouch for a node without children, all ASCII, of which nothing is too long or too deep."""
    node_id = node.id
    if "/" in node_id or "~" in node_id or node_id in RESERVED or len(node_id) > limits.id_bytes:
        return False
    properties, affordances = node.properties_json, node.affordances_json
    if properties and not bytes(properties).startswith(b"{"):
        return False
    try:
        if node.meta_json:
            _meta.decode(node.meta_json)
        if node.content_ref_json:
            _content_ref.decode(node.content_ref_json)
    except msgspec.DecodeError:
        return False
    return not affordances or _are_known_to_be_sound(bytes(affordances))


def _native(decoder: msgspec.json.Decoder[_T], text: bytes) -> pieces.Steps[_T | None]:
    """Read a text in the native pass; None is "look closer". It must not nest too deep."""
    is_long = len(text) > pieces.GROUP_BYTES
    try:
        # Texts are written back as they are kept, so they are kept without foreign line breaks.
        compact = msgspec.json.format(text, indent=-1)
        if is_long:
            yield
        read = decoder.decode(compact)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NotImplementedError):
        return None
    if is_long:
        yield
    return read if text.isascii() or _is_utf8(text) else None


def snapshot_steps(data: bytes, limits: Limits) -> pieces.Steps[SeenSnapshot | None]:
    """Read a snapshot message of at most WHOLE_BYTES together with its tree; see `pieces`.

    None means "look closer": it is another message, or one that this does not vouch for.
    """
    if b'"snapshot"' not in data[:_HEAD_BYTES] or not _fits(len(data), limits):
        return None
    # What nests no deeper than one value may, has no such value.
    if any(depth_steps(data, min(limits.value_levels, limits.message_levels))):
        return None
    if len(data) > pieces.GROUP_BYTES:
        yield
    message = yield from _native(_snapshots, data)
    if message is None or not (yield from _soundness(message.tree, limits, is_shallow=True)):
        return None
    return message


def _fits(size: int, limits: Limits) -> bool:
    """Whether so much may be read natively in one go, and may be one node."""
    return size <= min(pieces.WHOLE_BYTES, limits.node_bytes or pieces.WHOLE_BYTES)


def decode_steps(text: pieces.Text, limits: Limits) -> pieces.Steps[Node]:
    """Like `decode`, group by group; see `pieces`."""
    if not isinstance(text, pieces.Part):
        if len(text) <= pieces.EXACT_BYTES:
            return decode(bytes(text), limits)
        root = (yield from _sound_tree(bytes(text), limits)) if _fits(len(text), limits) else None
        if root is not None:
            return root
        try:
            text = Raw(msgspec.json.format(bytes(text), indent=-1))
        except msgspec.DecodeError as error:
            raise InvalidJson(str(error), 1, 1) from None
        yield
    return (yield from _Stepwise(limits).node(text, (), ""))


def is_sound_field(name: str, text: Raw, limits: Limits) -> bool:
    """Vouch for one of TEXT_FIELDS without reading its values. False is "look closer"."""
    return _texts_are_sound([Node("a", "a").with_text(name, text)], limits)


class _Stepwise:
    """Reads one large tree in steps, and counts its nodes against the limit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._count = 0

    def node(self, text: pieces.Text, above: tuple[str, ...], where: str) -> pieces.Steps[Node]:
        """Read the node below some others; `where` names it until its id is known."""
        try:
            members = pieces.fields(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidTree(
                [Violation(where or "/", f"a node must be an object: {error}")]
            ) from None
        levels = self._limits.levels
        if levels is not None and len(above) >= levels:
            rule = f"a tree must not have more than {levels} levels"
            raise InvalidTree([Violation(where or "/", rule)])
        listed = members.pop("children", UNSET)
        node = self._head(members, where or "/")
        self._add(1, where or "/")
        yield
        if isinstance(listed, UnsetType):
            return node
        if not isinstance(listed, pieces.Part) and listed == _NULL:
            return node.with_child_list(None)
        # The root's own id is no part of any path.
        path = (*above, node.id)
        children: list[Node] = []
        try:
            for run in pieces.runs(listed):
                yield from self._run(run, path, children)
                yield
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            where = join(format_path(path[1:]), "children")
            raise InvalidTree([Violation(where, f"must be a list or null: {error}")]) from None
        if len(set(map(_id_of, children))) != len(children):
            rule = "ids must be unique among siblings"
            raise InvalidTree([Violation(join(format_path(path[1:]), "children"), rule)])
        return node.with_child_list(tuple(children))

    def _head(self, members: dict[str, pieces.Text], where: str) -> Node:
        """Make a node of all but its children."""
        limits = self._limits
        if (
            limits.node_bytes is not None
            and sum(map(pieces.size, members.values())) > limits.node_bytes
        ):
            rule = f"a node must not have more than {limits.node_bytes} bytes beside its children"
            raise InvalidTree([Violation(where, rule)])
        texts = {name: pieces.joined(text) for name, text in members.items()}
        known = {name: text for name, text in texts.items() if name in RESERVED}
        unknown = {name: texts[name] for name in sorted(texts.keys() - RESERVED)}
        whole = _encoder.encode(known)
        if len(whole) > pieces.GROUP_BYTES:
            try:
                node = _nodes.decode(whole)
            except (msgspec.DecodeError, NotImplementedError) as error:
                raise InvalidTree([Violation(where, str(error))]) from None
            if not (_is_utf8(whole) and pieces.finish(_soundness(node, limits))):
                raise InvalidTree([Violation(where, "fields that break a rule, or may")])
        else:
            node = _prefixed(whole, limits, where)
        if not unknown:
            return node
        # A property may hold whatever an unknown field may.
        extra = Raw(_encoder.encode(unknown))
        if len(extra) <= pieces.GROUP_BYTES:
            _prefixed(_encoder.encode({"id": "a", "type": "a", **unknown}), limits, where)
        elif not (_is_utf8(extra) and is_sound_field("properties", extra, limits)):
            raise InvalidTree([Violation(where, "fields that break a rule, or may")])
        return msgspec.structs.replace(node, extra=Extra(extra))

    def _run(
        self, run: pieces.Text, path: tuple[str, ...], children: list[Node]
    ) -> pieces.Steps[None]:
        """Read siblings: all in one go if they are sound, else group by group."""
        if not isinstance(run, pieces.Part) and _fits(len(run), self._limits):
            root = yield from _sound_tree(_parent_of(run), self._below(path))
            if root is not None:
                self._adopt(root, path, children)
                return
        for group in pieces.groups(run):
            if isinstance(group, list):
                siblings = Raw(b"[%b]" % b",".join(group))
                where = format_path(path[1:])
                root = _prefixed(_parent_of(siblings), self._below(path), where, len(children))
                self._adopt(root, path, children)
            else:
                child_path = f"{format_path(path[1:]).rstrip('/')}/children/{len(children)}"
                children.append((yield from self.node(group, path, child_path)))
            yield

    def _below(self, path: tuple[str, ...]) -> Limits:
        """The limits for a tree whose root stands for the parent of what is below a path."""
        limits = self._limits
        levels = None if limits.levels is None else limits.levels - len(path) + 1
        return replace(limits, levels=levels, nodes=None)

    def _adopt(self, root: Node, path: tuple[str, ...], children: list[Node]) -> None:
        children += root.children
        level: Sequence[Node] = root.children
        while level:
            self._add(len(level), format_path(path[1:]))
            level = list(chain.from_iterable(filter(None, map(_children_of, level))))

    def _add(self, count: int, where: str) -> None:
        self._count += count
        if self._limits.nodes is not None and self._count > self._limits.nodes:
            rule = f"a tree must not have more than {self._limits.nodes} nodes"
            raise InvalidTree([Violation(where, rule)])


def _parent_of(siblings: Raw) -> bytes:
    """The text of a node that stands for the parent of some siblings."""
    return b'{"id":"a","type":"a","children":%b}' % bytes(siblings)


def _prefixed(data: bytes, limits: Limits, where: str, before: int = 0) -> Node:
    """Read a small tree that stands in a large one; violations say where."""
    try:
        return decode(data, limits)
    except InvalidTree as error:
        found = [
            Violation(_moved(item.path, where, before), item.rule) for item in error.violations
        ]
        raise InvalidTree(found) from None


def _moved(path: str, where: str, before: int) -> str:
    first, _, rest = path[1:].partition("/")
    number, slash, rest = rest.partition("/")
    if first == "children" and number.isdigit():
        path = f"/children/{int(number) + before}{slash}{rest}"
    return where.rstrip("/") + path if path != "/" else where


def build(data: bytes) -> Node:
    """Read what `encode` wrote: the native pass alone, nothing checked."""
    return _nodes.decode(data)


def from_value(value: object, limits: Limits = DEFAULT) -> Node:
    """Make a tree from plain Python values. Raises InvalidTree (all violations)."""
    broken = violations(value, limits)
    if broken:
        raise InvalidTree(broken)
    assert isinstance(value, Mapping)  # noqa: S101 - else there would be a violation
    return _from_checked(value)


def encode(root: Node) -> bytes:
    """Write a tree as compact JSON."""
    try:
        return _encoder.encode(root)
    except (_NotNative, RecursionError):
        return b"".join(_pieces(root))


def _is_utf8(data: bytes) -> bool:
    # Piece by piece: one wide character would make one string of it all four times as large.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _PIECE):
            decoder.decode(data[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _from_checked(root: Mapping[str, Any]) -> Node:
    """Build bottom-up: in document order every parent comes before its children."""
    order: list[tuple[Mapping[str, Any], int]] = []
    stack: list[tuple[Mapping[str, Any], int]] = [(root, 0)]
    while stack:
        value, parent = stack.pop()
        mine = len(order)
        order.append((value, parent))
        stack.extend((child, mine) for child in reversed(value.get("children") or ()))
    built: list[list[Node]] = [[] for _ in order]
    node = None
    for mine in range(len(order) - 1, -1, -1):
        value, parent = order[mine]
        node = Node.from_checked(value)
        if "children" in value:
            listed = value["children"] is not None
            node = node.with_child_list(tuple(reversed(built[mine])) if listed else None)
        built[parent].append(node)
    assert node is not None  # noqa: S101 - there is always a root
    return node


def _pieces(root: Node) -> Iterator[bytes]:
    """Write node by node, with a stack of what is still to be written."""
    stack: list[Node | bytes] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, bytes):
            yield item
            continue
        fields: dict[str, object] = {"id": item.id, "type": item.type}
        for name, text_of_field in _text_getters.items():
            text = text_of_field(item)
            if text is not UNSET:
                fields[name] = text
        if not isinstance(item.extra, UnsetType):
            fields.update(members(item.extra.json))
        children = item.child_list
        if children is None:
            fields["children"] = None
        head = _encoder.encode(fields)
        if isinstance(children, UnsetType) or children is None:
            yield head
            continue
        yield head[:-1] + b',"children":['
        stack.append(b"]}")
        for at in range(len(children) - 1, -1, -1):
            stack.append(children[at])
            if at:
                stack.append(b",")


def _soundness(root: Node, limits: Limits, *, is_shallow: bool = False) -> pieces.Steps[bool]:
    """Vouch for a natively built tree. False means "look closer", not "wrong".

    With `is_shallow` it is known that no value in it nests too deep.
    """
    level: list[Node] = [root]
    families: list[tuple[Node, ...]] = [(root,)]
    levels = nodes = 0
    while level:
        levels += 1
        nodes += len(level)
        if limits.levels is not None and levels > limits.levels:
            return False
        if limits.nodes is not None and nodes > limits.nodes:
            return False
        if not _ids_are_sound(level, families, limits):
            return False
        for at in range(0, len(level), _SOME_NODES):
            some = level if len(level) <= _SOME_NODES else level[at : at + _SOME_NODES]
            if not (
                _types_are_sound(some, limits)
                and _texts_are_sound(some, limits, is_shallow=is_shallow)
            ):
                return False
            if some is not level:
                yield
        families = list(filter(None, map(_children_of, level)))
        level = list(chain.from_iterable(families))
    return True


def _ids_are_sound(level: list[Node], families: list[tuple[Node, ...]], limits: Limits) -> bool:
    ids = list(map(_id_of, level))
    distinct = set(ids)
    if len(distinct) != len(ids) and any(
        len(set(map(_id_of, family))) != len(family) for family in families if len(family) > 1
    ):
        return False
    joined = "".join(ids)
    if "/" in joined or "~" in joined or not RESERVED.isdisjoint(distinct):
        return False
    if len(joined) <= limits.id_bytes and joined.isascii():
        return True
    if joined.isascii() and limits.id_bytes == ID_BYTES:
        return True  # the native parser has counted the characters
    return max(len(node_id.encode()) for node_id in distinct) <= limits.id_bytes


def _types_are_sound(level: list[Node], limits: Limits) -> bool:
    kinds = set(map(_type_of, level))
    return max(map(len, map(str.encode, kinds))) <= limits.string_bytes


def _texts_are_sound(level: list[Node], limits: Limits, *, is_shallow: bool = False) -> bool:
    properties = [text for node in level if (text := node.properties_json)]
    if _NOT_AN_OBJECT.search(b"\0".join([b"", *properties])):
        return False
    metas = [text for node in level if (text := node.meta_json)]
    content_refs = [text for node in level if (text := node.content_ref_json)]
    distinct = {bytes(text) for node in level if (text := node.affordances_json)}
    affordances = [Raw(text) for text in distinct]
    if not all(
        _sizes_are_sound(texts, limits, is_shallow=is_shallow)
        for texts in (properties, metas, content_refs, affordances)
    ):
        return False
    try:
        if metas:
            _metas.decode(b"[" + b",".join(metas) + b"]")
        if content_refs:
            _content_refs.decode(b"[" + b",".join(content_refs) + b"]")
    except msgspec.DecodeError:
        return False
    return all(map(_affordances_are_sound, distinct))


def _affordances_are_sound(text: bytes) -> bool:
    try:
        actions = [affordance.action for affordance in _affordances.decode(text) or ()]
    except msgspec.DecodeError:
        return False
    return len(set(actions)) == len(actions)


# Items that come one by one tend to have the same actions, byte for byte.
_are_known_to_be_sound: Final = lru_cache(maxsize=256)(_affordances_are_sound)


def _sizes_are_sound(texts: list[Raw], limits: Limits, *, is_shallow: bool) -> bool:
    """Check that no text can nest too deep or hold too long a string.

    A text nests no deeper than it has opening brackets, and holds no string longer
    than itself; where that does not tell, they are looked for.
    """
    if is_shallow and sum(map(len, texts)) <= limits.string_bytes:
        return True
    together = b"\0".join(texts)
    if len(together) > limits.string_bytes and not all(
        len(text) <= limits.string_bytes or _strings_are_short(bytes(text), limits)
        for text in texts
    ):
        return False
    if is_shallow:
        return True
    openings = together.translate(None, _NOT_OPENING).split(b"\0")
    return max(map(len, openings)) <= limits.value_levels or not any(
        nests_deeper(bytes(text), limits.value_levels) for text in texts
    )


def _strings_are_short(text: bytes, limits: Limits) -> bool:
    """Check that no string in a long text is longer than the limit, escapes and all."""
    plain = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    return max(map(len, plain.split(b'"'))) <= limits.string_bytes
