"""The state tree: immutable nodes that share what did not change.

A node is a skeleton of Python objects (id, type, children) that carries its
other fields as JSON text, exactly as they came. Building a tree from JSON is
then one native pass, writing it back splices the texts, two equal fields compare
as bytes, and nobody can mutate what they were given: `properties`, `meta`,
`affordances` and `content_ref` are read from the text on each access (hold the
value in a local when you need it twice).

Absent and `null` are different things. The `*_json` fields and `child_list` keep
the difference (UNSET, and the text `null` or None); the reading properties give
`{}`, `()` or None for both, which is what most callers mean.

A change makes a new node; `change` rebuilds the path from the root to it:

    new = root.change("/inbox/msg-1", lambda node: node.with_property("unread", False))

and everything beside that path is the same object in `root` and in `new`.

`Node(…)` takes its arguments on trust. `Node.of` and `codec` check theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline._keywords import NamesKeywords
from sightline.errors import InvalidPath, InvalidTree, Violation
from sightline.slop.protocol.ids import ID_BYTES, RESERVED
from sightline.slop.protocol.jsontext import JsonText, members, read, same, text_of
from sightline.slop.protocol.limits import NODE_BYTES
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.rules import field_violations, violations
from sightline.slop.protocol.siblings import WIDE, Chunk, ShortList, SiblingPosition, Siblings

# What a salience that is not declared counts as.
DEFAULT_SALIENCE: Final = 0.5
# The fields that a node keeps as JSON text, in the order in which they are written.
TEXT_FIELDS: Final = ("properties", "meta", "affordances", "content_ref")

_Share: TypeAlias = (
    Annotated[int, msgspec.Meta(ge=0, le=1)] | Annotated[float, msgspec.Meta(ge=0, le=1)]
)
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_BYTES)]


class Meta(msgspec.Struct, frozen=True, gc=False):
    """A node's attention hints, as far as the protocol names them."""

    summary: str | None = None
    salience: _Share | None = None
    pinned: bool | None = None
    changed: bool | None = None
    focus: bool | None = None
    urgency: Literal["none", "low", "medium", "high", "critical"] | None = None
    reason: str | None = None
    total_children: _Count | None = None
    window: tuple[_Count, _Count] | None = None
    created: str | None = None
    updated: str | None = None
    available_actions: tuple[str, ...] | None = None


class Affordance(msgspec.Struct, frozen=True, gc=False):
    """An action that applies to a node in its present state."""

    action: _Name
    label: str | None = None
    description: str | None = None
    params: dict[str, Any] | None = None
    dangerous: bool | None = None
    idempotent: bool | None = None
    estimate: Literal["instant", "fast", "slow", "async"] | None = None
    returns: dict[str, Any] | None = None


class ContentRef(msgspec.Struct, frozen=True, gc=False):
    """Where a node's large content can be had."""

    type: Literal["text", "binary", "stream"]
    mime: str
    uri: str
    summary: str
    size: _Count | None = None
    preview: str | None = None
    encoding: str | None = None
    hash: str | None = None


class Extra:
    """The fields of a node that the protocol does not name, as one JSON object.

    A type that the native encoder does not know, so that a tree which has one is
    written by the path that can place its members among the node's own.
    """

    __slots__ = ("json",)

    def __init__(self, json: Raw) -> None:
        self.json = json


if TYPE_CHECKING:
    ChildList: TypeAlias = "tuple[Node, ...] | Siblings | UnsetType | None"
else:  # what the wire can hold: a Siblings appears only where a tuple was changed or searched
    ChildList = "tuple[Node, ...] | UnsetType | None"

_NO_META: Final = Meta()
_NULL: Final = Raw(b"null")
_DESCRIPTOR_WORDS: Final = {
    "items": "children", "window": "meta", "summary": "meta", "actions": "affordances",
    "contentRef": "content_ref",
}  # fmt: skip
_read_meta: Final = msgspec.json.Decoder(Meta)
_read_affordances: Final = msgspec.json.Decoder(tuple[Affordance, ...] | None)
_read_content_ref: Final = msgspec.json.Decoder(ContentRef)


_Form = TypeVar("_Form", ShortList, Siblings)
# The forms that child lists are given right now, by their nodes.
_forms: Final[dict[int, Any]] = {}


class Node(
    msgspec.Struct,
    frozen=True,
    eq=False,
    gc=False,  # trees have no cycles: no need to let the collector walk them
    omit_defaults=True,
    forbid_unknown_fields=True,
    metaclass=NamesKeywords,
):
    """One semantic unit of an app's state."""

    id: _Id
    type: _Name
    properties_json: Raw | UnsetType = msgspec.field(default=UNSET, name="properties")
    meta_json: Raw | UnsetType = msgspec.field(default=UNSET, name="meta")
    affordances_json: Raw | UnsetType = msgspec.field(default=UNSET, name="affordances")
    content_ref_json: Raw | UnsetType = msgspec.field(default=UNSET, name="content_ref")
    # A wire field of this name cannot be read as an Extra, so it goes where unknown fields go.
    extra: Extra | UnsetType = msgspec.field(default=UNSET, name=" ")
    child_list: ChildList = msgspec.field(default=UNSET, name="children")

    @classmethod
    def of(
        cls,
        id: str,  # noqa: A002 - the protocol's own name for it
        type: str,  # noqa: A002 - likewise
        *,
        properties: Mapping[str, Any] | UnsetType | None = UNSET,
        props: Mapping[str, Any] | UnsetType | None = UNSET,
        children: Sequence[Node] | UnsetType | None = UNSET,
        affordances: Sequence[Mapping[str, Any] | Affordance] | UnsetType | None = UNSET,
        meta: Mapping[str, Any] | Meta | UnsetType | None = UNSET,
        content_ref: Mapping[str, Any] | ContentRef | UnsetType | None = UNSET,
        **unknown: Any,
    ) -> Node:
        """Make a node from Python values. Raises InvalidTree naming every broken rule.

        `props` is short for `properties`. Other words of descriptors are refused, and slips of
        the pen: a field that the protocol does not know would say nothing to anybody.
        """
        if props is not UNSET and properties is not UNSET:
            raise InvalidTree([Violation("/props", "is given twice, as 'properties' too")])
        for word in unknown:
            rule = _why_not(word)
            if rule is not None:
                raise InvalidTree([Violation(f"/{word}", rule)])
        fields = {
            "properties": properties if props is UNSET else props,
            "meta": meta,
            "affordances": affordances,
            "content_ref": content_ref,
            **unknown,
        }
        value = {"id": id, "type": type}
        value.update((name, plain(item)) for name, item in fields.items() if item is not UNSET)
        broken = violations(value)
        if broken:
            raise InvalidTree(broken)
        node = cls.from_checked(value)
        return node if isinstance(children, UnsetType) else node.with_children(children)

    @classmethod
    def from_checked(cls, value: Mapping[str, Any]) -> Node:
        """Make a node without children from a value that breaks no rule."""
        texts = {f"{name}_json": text_of(value[name]) for name in TEXT_FIELDS if name in value}
        unknown = {name: value[name] for name in sorted(value.keys() - RESERVED)}
        extra = Extra(text_of(unknown)) if unknown else UNSET
        # A subclass of str, an enum's member say, is the plain string to the encoder.
        node_id, kind = str.__str__(value["id"]), str.__str__(value["type"])
        return msgspec.structs.replace(cls(node_id, kind, extra=extra), **texts)

    @property
    def properties(self) -> dict[str, Any]:
        """The state itself; a fresh dict on each access."""
        text = self.properties_json
        return {} if isinstance(text, UnsetType) else read(text) or {}

    @property
    def meta(self) -> Meta:
        """The attention hints; all None where there are none."""
        text = self.meta_json
        if isinstance(text, UnsetType) or text == _NULL:
            return _NO_META
        return _read_meta.decode(text)

    @property
    def affordances(self) -> tuple[Affordance, ...]:
        """What can be done with this node now."""
        text = self.affordances_json
        return () if isinstance(text, UnsetType) else affordances_of(text)

    @property
    def content_ref(self) -> ContentRef | None:
        """Where its large content can be had, if it has any."""
        text = self.content_ref_json
        if isinstance(text, UnsetType) or text == _NULL:
            return None
        return _read_content_ref.decode(text)

    @property
    def unknown(self) -> dict[str, Any]:
        """The fields that the protocol does not name; kept, and ignored by all logic."""
        return {} if isinstance(self.extra, UnsetType) else read(self.extra.json)

    @property
    def children(self) -> Sequence[Node]:
        """The inline children; empty where they are absent or lazy."""
        return self.child_list or ()

    @property
    def total_children(self) -> int:
        """How many children exist, inline or not."""
        declared = self.meta.total_children
        return len(self.children) if declared is None else declared

    @property
    def is_lazy(self) -> bool:
        """Whether children exist of which none is here: ask for them."""
        # SLOP, scaling: a lazy subtree declares its children by total_children.
        return not self.child_list and bool(self.meta.total_children)

    @property
    def own_bytes(self) -> int:
        """About how many bytes the node takes as JSON, without its children."""
        texts = (self.properties_json, self.meta_json, self.affordances_json, self.content_ref_json)
        size = NODE_BYTES + len(self.id) + len(self.type)
        size += sum(len(text) for text in texts if not isinstance(text, UnsetType))
        return size if isinstance(self.extra, UnsetType) else size + len(self.extra.json)

    def child(self, node_id: str) -> Node | None:
        """Return the inline child with this id, or None. Long lists are not scanned."""
        found = self._find(node_id)
        return None if found is None else found[0]

    def at(self, path: str) -> Node:
        """Return the node at a path below this one. Raises InvalidPath."""
        node = self
        for step in self._steps_to(parse_path(path)):
            node = step[2]
        return node

    def runs(self) -> tuple[Chunk | ShortList, ...]:
        """The inline children in runs of neighbours that can carry what is found out about them.

        A later tree shares with this one every run in which it changes nothing.
        """
        children = self.child_list
        if not isinstance(children, ShortList):
            children = self._searchable()
            if isinstance(children, Siblings):
                return children.chunks
            if not children:
                return ()
            children = self._kept_as(ShortList.of(children))
        return (children,)

    def walk(self) -> Iterator[Node]:
        """Go through this node and all below it, in document order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            if node.child_list:
                stack.extend(reversed(node.child_list))

    def change(self, path: str, how: Callable[[Node], Node]) -> Node:
        """Return this tree with the node at `path` replaced by what `how` makes of it.

        Work is proportional to the depth of the path; all else is shared.
        """
        return self.change_at(parse_path(path), how)

    def change_at(self, ids: Sequence[str], how: Callable[[Node], Node]) -> Node:
        """Like `change`, with the path already taken apart."""
        steps = self._steps_to(ids)
        node = how(steps[-1][2] if steps else self)
        if steps and node.id != ids[-1]:
            rule = f"a change must keep the node's id, not make it {node.id!r}"
            raise InvalidTree([Violation(format_path(ids), rule)])
        for parent, position, _ in reversed(steps):
            node = parent._with_child_at(position, node)
        return node

    def with_field(self, name: str, value: Any) -> Node:
        """Set `type`, `properties`, `meta`, `affordances` or `content_ref`; UNSET removes it."""
        if value is UNSET and name in TEXT_FIELDS:
            return msgspec.structs.replace(self, **{f"{name}_json": UNSET})
        if name not in TEXT_FIELDS and name != "type":
            raise ValueError(f"{name!r} is not a field that can be set")
        value = plain(value)
        broken = list(field_violations(name, value, "/"))
        if broken:
            raise InvalidTree(broken)
        if name == "type":
            return msgspec.structs.replace(self, type=str.__str__(value))
        return self.with_text(name, text_of(value))

    def text(self, name: str) -> JsonText:
        """The JSON text of one of TEXT_FIELDS."""
        text: JsonText = getattr(self, f"{name}_json")
        return text

    def with_text(self, name: str, text: Raw) -> Node:
        """Set one of TEXT_FIELDS to a JSON text that is known to obey its rules."""
        return msgspec.structs.replace(self, **{f"{name}_json": text})

    def with_property(self, key: str, value: Any) -> Node:
        """Set one property, in its place if it is there, else at the end."""
        broken = list(field_violations("properties", {key: value}, "/"))
        if broken:
            raise InvalidTree(broken)
        properties = members(self.properties_json)
        properties[key] = text_of(value)
        return self.with_text("properties", text_of(properties))

    def without_property(self, key: str) -> Node:
        """Remove one property. Raises InvalidPath if there is none of that name."""
        properties = members(self.properties_json)
        if key not in properties:
            raise InvalidPath(f"/properties/{key}", "there is no such property")
        del properties[key]
        return self.with_text("properties", text_of(properties))

    def with_children(self, children: Sequence[Node] | None) -> Node:
        """Replace all children. Raises InvalidTree where two have one id."""
        if children is None:
            return self.with_child_list(None)
        seen: set[str] = set()
        for child in children:
            if child.id in seen:
                raise InvalidTree([Violation(f"/{child.id}", "ids must be unique among siblings")])
            seen.add(child.id)
        return self.with_child_list(tuple(children))

    def with_child_list(self, children: ChildList) -> Node:
        """Replace the child list, known to be legal; keeps absent, null and empty apart."""
        return msgspec.structs.replace(self, child_list=children)

    def with_child(self, child: Node, index: int | None = None) -> Node:
        """Add a child at an index, or at the end. Raises InvalidTree on a duplicate id."""
        if self._find(child.id) is not None:
            raise InvalidTree([Violation(f"/{child.id}", "ids must be unique among siblings")])
        children = self._searchable()
        return self._with_inserted(children, child, len(children) if index is None else index)

    def without_child(self, node_id: str) -> Node:
        """Remove a child. Raises InvalidPath if there is none with that id."""
        _, position = self._found(node_id)
        return self.with_child_list(self._removed(position))

    def with_child_moved(self, node_id: str, index: int) -> Node:
        """Move a child so that it ends at `index`."""
        child, position = self._found(node_id)
        return self._with_inserted(self._removed(position), child, index)

    def with_child_replaced(self, child: Node) -> Node:
        """Put a child in the place of the one with its id."""
        _, position = self._found(child.id)
        return self._with_child_at(position, child)

    def same_fields(self, other: Node) -> bool:
        """Tell whether two nodes agree in everything but their children."""
        return self is other or (
            self.id == other.id
            and self.type == other.type
            and same_extra(self, other)
            and same(self.properties_json, other.properties_json)
            and same(self.meta_json, other.meta_json)
            and same(self.affordances_json, other.affordances_json)
            and same(self.content_ref_json, other.content_ref_json)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        stack = [(self, other)]
        while stack:
            a, b = stack.pop()
            if a is b:
                continue
            if not a.same_fields(b) or not same_presence(a.child_list, b.child_list):
                return False
            if len(a.children) != len(b.children):
                return False
            stack.extend(zip(a.children, b.children, strict=True))
        return True

    def __ne__(self, other: object) -> bool:
        # Not left to Python: the native base class has a `!=` of its own, by identity.
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    __hash__ = None  # type: ignore[assignment]  # equal by content, and content is large

    def __repr__(self) -> str:
        return f"Node({self.type} {self.id!r}, {len(self.children)} children)"

    def _find(self, node_id: str) -> tuple[Node, SiblingPosition] | None:
        children = self._searchable()
        if isinstance(children, Siblings):
            position = children.find(node_id)
            return None if position is None else (children.node_at(position), position)
        for at, node in enumerate(children):
            if node.id == node_id:
                return node, SiblingPosition(0, at)
        return None

    def _found(self, node_id: str) -> tuple[Node, SiblingPosition]:
        found = self._find(node_id)
        if found is None:
            raise InvalidPath(f"/{node_id}", f"there is no child {node_id!r}")
        return found

    def _steps_to(self, ids: Sequence[str]) -> list[tuple[Node, SiblingPosition, Node]]:
        """The way down a path: each parent, where its child stands, and the child."""
        steps: list[tuple[Node, SiblingPosition, Node]] = []
        node = self
        for depth, node_id in enumerate(ids):
            found = node._find(node_id)
            if found is None:
                where = format_path(ids[:depth])
                raise InvalidPath(format_path(ids), f"{where} has no child {node_id!r}")
            steps.append((node, found[1], found[0]))
            node = found[0]
        return steps

    def _with_child_at(self, position: SiblingPosition, child: Node) -> Node:
        children = self._searchable()
        if isinstance(children, Siblings):
            return self.with_child_list(children.replaced(position, child))
        at = position.offset
        return self.with_child_list((*children[:at], child, *children[at + 1 :]))

    def _removed(self, position: SiblingPosition) -> tuple[Node, ...] | Siblings:
        children = self._searchable()
        if isinstance(children, Siblings):
            return children.removed(position)
        return children[: position.offset] + children[position.offset + 1 :]

    def _with_inserted(self, children: tuple[Node, ...] | Siblings, child: Node, at: int) -> Node:
        if not 0 <= at <= len(children):
            raise InvalidPath(f"/{child.id}", f"index {at} is not from 0 to {len(children)}")
        if isinstance(children, Siblings):
            return self.with_child_list(children.inserted(at, child))
        return self.with_child_list((*children[:at], child, *children[at:]))

    def _kept_as(self, form: _Form) -> _Form:
        """Keep the child list in another form: the first one, if several threads make one."""
        # Whoever comes when the first one is kept and forgotten here finds it in its place.
        form = _forms.setdefault(id(self), form)
        if isinstance(self.child_list, type(form)):
            form = self.child_list
        else:
            msgspec.structs.force_setattr(self, "child_list", form)
        _forms.pop(id(self), None)
        return form

    def _searchable(self) -> tuple[Node, ...] | Siblings:
        """The children, in the form in which a long list is cheap to search and change.

        The form is remembered: the list says the same, so no reader can tell.
        """
        children = self.child_list
        if isinstance(children, Siblings):
            return children
        if not children:
            return ()
        if len(children) > WIDE:
            return self._kept_as(Siblings.of(children))
        return children


def fold(root: Node, kind: Callable[[tuple[Node, ...]], Any]) -> None:
    """Make what a kind of knowledge says known of every run of children below a node.

    `kind` makes it from the nodes of a run, when it is known of all runs below them. What is
    known already, because an earlier tree had the same run, is not looked at.
    """
    new: list[Chunk | ShortList] = []
    stack = list(root.runs())
    while stack:
        run = stack.pop()
        if kind not in run.known:
            new.append(run)
            for node in run.nodes:
                if node.child_list:
                    stack.extend(node.runs())
    for run in reversed(new):
        run.known[kind] = kind(run.nodes)


def affordances_of(text: Raw) -> tuple[Affordance, ...]:
    """Read the text of a node's affordances, which is known to obey their rules."""
    try:
        return _read_affordances.decode(text) or ()
    except msgspec.DecodeError:  # in a schema, a number that no double can hold
        return msgspec.convert(read(text), tuple[Affordance, ...])


def plain(value: Any) -> Any:
    """Turn the typed values of this module into plain ones; leave others as they are."""
    if isinstance(value, (list, tuple)):
        return [_plain_part(item) for item in value]
    return _plain_part(value)


def _why_not(word: str) -> str | None:
    """Say why a node has no such field; None for one that the protocol leaves to others."""
    if word in _DESCRIPTOR_WORDS:
        return f"is a descriptor's word: a Node has {_DESCRIPTOR_WORDS[word]!r}"
    from difflib import get_close_matches  # for slips of the pen only

    close = get_close_matches(word, ("props", "children", *TEXT_FIELDS), n=1, cutoff=0.8)
    return f"is no field of a node; did you mean {close[0]!r}?" if close else None


def _plain_part(value: Any) -> Any:
    if not isinstance(value, (Meta, Affordance, ContentRef)):
        return value
    named = ((name, getattr(value, name)) for name in value.__struct_fields__)
    return {name: item for name, item in named if item is not None}


def same_extra(a: Node, b: Node) -> bool:
    """Tell whether two nodes agree in the fields that the protocol does not name."""
    if a.extra is b.extra:
        return True
    if isinstance(a.extra, UnsetType) or isinstance(b.extra, UnsetType):
        return False
    return same(a.extra.json, b.extra.json)


def same_presence(a: ChildList, b: ChildList) -> bool:
    """Tell whether two child lists are both there, both null or both absent."""
    return (a is UNSET) == (b is UNSET) and (a is None) == (b is None)
