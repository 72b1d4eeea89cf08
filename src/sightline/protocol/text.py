"""The canonical text of a tree, one line per node, for models and people to read.

    [root] store: Pet Store  salience=0.9  actions: {search(query: string)}
      [collection] catalog: Catalog (count=142)  — "142 products, 12 on sale"
        (showing 1 of 142)

Whatever an app puts into its strings, a node is one line and shows only the
actions it has: line breaks, control characters and bidi overrides are written as
visible escapes (`\\n`, `\\u001b`), and so is what could pass for the line's own
punctuation: the space before `actions: {`, `salience=` or `— "`, a bracket in a
type, a brace, bracket, comma or colon in the name of an action or parameter. In
property values the escapes are JSON's own, so nothing is lost.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from sightline.protocol.tree import Affordance, Meta, Node

__all__ = ["format_blocks", "format_tree"]

_encoder: Final = msgspec.json.Encoder(decimal_format="number")
_objects: Final = msgspec.json.Decoder(list[dict[str, Any] | None])
_metas: Final = msgspec.json.Decoder(list[Meta | None])
_affordances: Final = msgspec.json.Decoder(tuple[Affordance, ...] | None)

_T = TypeVar("_T")
_BLOCK: Final = 512
_EMPTY: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
# Control characters, line and paragraph separators, bidi embeddings, overrides and isolates,
# and what is no character at all.
_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Space before one of the line's own markers. It can only match where a run of space begins, and
# takes the run whole, so that no run is scanned twice.
_MARKER: Final = re.compile(r'(?<!\s)\s++(?=actions:\s?\{|salience=|—\s?")')
_TYPE_PUNCTUATION: Final = re.compile(r"[\[\]]")
_NAME_PUNCTUATION: Final = re.compile(r"[{}(),:]")


def format_tree(root: Node) -> str:
    """Write a tree as text, with no line break at the end."""
    return "\n".join(format_blocks(root))


def format_blocks(root: Node) -> Iterator[str]:
    """Write a tree as blocks of lines, to be joined by line breaks; large trees stream."""
    nodes: list[Node] = [root]
    indents: list[str] = [""]
    stack = [(iter(root.children), "  ")]
    while stack:
        children, indent = stack[-1]
        for node in children:
            nodes.append(node)
            indents.append(indent)
            if node.child_list:
                stack.append((iter(node.child_list), indent + "  "))
                break
        else:
            stack.pop()
        if len(nodes) >= _BLOCK:
            yield _block(nodes, indents)
            nodes, indents = [], []
    if nodes:
        yield _block(nodes, indents)


def _block(nodes: list[Node], indents: list[str]) -> str:
    """Write many nodes at once: their strings are read, encoded and checked in bulk."""
    ids = [node.id for node in nodes]
    types = [node.type for node in nodes]
    metas = _read_all(_metas, [node.meta_json or _NULL for node in nodes])
    properties = _read_properties(nodes)
    names = [_take_name(own) if own else "" for own in properties]
    extras = _extras(properties)
    if not _is_plain("".join(chain(ids, names))):
        ids = [_plain(node_id) for node_id in ids]
        names = [_plain(name) for name in names]
    if not all(kind.isalnum() and kind.isascii() for kind in set(types)):
        types = [_plain(kind, _TYPE_PUNCTUATION) for kind in types]
    names = [
        f": {name}" if name and name != node_id else ""
        for name, node_id in zip(names, ids, strict=True)
    ]
    tails = [
        _tail(node, meta, indent) if meta is not None or node.affordances_json else ""
        for node, meta, indent in zip(nodes, metas, indents, strict=True)
    ]
    columns = zip(indents, types, ids, names, extras, tails, strict=True)
    return "\n".join(
        [
            f"{indent}[{kind}] {node_id}{name}{extra}{tail}"
            for indent, kind, node_id, name, extra, tail in columns
        ]
    )


def _read_all(decoder: msgspec.json.Decoder[list[_T]], texts: list[Raw]) -> list[_T]:
    return decoder.decode(b"[" + b",".join(texts) + b"]")


def _read_properties(nodes: list[Node]) -> list[dict[str, Any]]:
    try:
        read = _read_all(_objects, [node.properties_json or _EMPTY for node in nodes])
    except msgspec.DecodeError:  # a number out of range somewhere: one by one, with care
        return [node.properties for node in nodes]
    return [own or {} for own in read]


def _take_name(properties: dict[str, Any]) -> str:
    """Take out the display name: the label, else the title; a value of another kind as JSON."""
    name = properties.pop("label", None)
    if "title" in properties:
        title = properties.pop("title")
        if name is None or name == "":
            name = title
    if isinstance(name, str):
        return name
    return "" if name is None else _encoder.encode(name).decode()


def _extras(properties: list[dict[str, Any]]) -> list[str]:
    """Write the other properties of many nodes as ` (key=json, …)`, or nothing."""
    text = _encoder.encode_lines(properties).decode()
    sizes = [len(own) for own in properties]
    keys = sum(sizes)
    objects = len(sizes) - sizes.count(0)
    # Each key stands behind one `{"` or `,"` and before one `":`. Where there are no more of them
    # than keys, no string contains one, and all can be rewritten at once.
    if (
        _is_plain_json(text)
        and text.count('{"') == objects
        and text.count(',"') == keys - objects
        and text.count('":') == keys
    ):
        text = text.replace('{"', " (").replace(',"', ", ").replace('":', "=")
        text = text.replace("}\n", ")\n").replace("{)\n", "\n")
        return text.split("\n")[:-1]
    return [_extra(own) if own else "" for own in properties]


def _extra(properties: dict[str, Any]) -> str:
    pairs = (
        f"{_plain(key)}={_plain(_encoder.encode(value).decode())}"
        for key, value in properties.items()
    )
    return f" ({', '.join(pairs)})"


def _tail(node: Node, meta: Meta | None, indent: str) -> str:
    """Write what few nodes have: summary, salience, actions, and the note on missing children."""
    tail = note = ""
    if meta is not None:
        if meta.summary:
            tail = f'  — "{_plain(meta.summary)}"'
        if meta.salience is not None:
            tail += f"  salience={_two_places(meta.salience)}"
        note = _note(meta, len(node.children))
    if node.affordances_json:
        tail += _actions(bytes(node.affordances_json))
    return f"{tail}\n{indent}  {note}" if note else tail


def _note(meta: Meta, inline: int) -> str:
    total = meta.total_children
    if total is None or total <= inline:
        return ""
    if meta.window is not None:
        return f"(showing {inline} of {total})"
    if inline == 0:
        return f"({total} {'child' if total == 1 else 'children'} not loaded)"
    return ""


# Items of one collection tend to have the same actions, byte for byte.
@lru_cache(maxsize=1024)
def _actions(text: bytes) -> str:
    affordances = _affordances.decode(text)
    if not affordances:
        return ""
    return f"  actions: {{{', '.join(_action(item) for item in affordances)}}}"


def _action(affordance: Affordance) -> str:
    name = _plain(affordance.action, _NAME_PUNCTUATION)
    params = (affordance.params or {}).get("properties")
    if not isinstance(params, dict) or not params:
        return name
    shown = ", ".join(
        f"{_plain(param, _NAME_PUNCTUATION)}: {_type_of(schema)}"
        for param, schema in params.items()
    )
    return f"{name}({shown})"


def _type_of(schema: object) -> str:
    """The type in a parameter's schema; several are joined, none is `any`."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    names = [_plain(item, _NAME_PUNCTUATION) for item in kinds if isinstance(item, str)]
    return "|".join(names) or "any"


@lru_cache(maxsize=256)
def _two_places(share: float) -> str:
    return f"{math.floor(share * 100 + 0.5) / 100:g}"


def _is_plain(text: str) -> bool:
    """Vouch that no part of a text needs an escape; False means "look closer"."""
    return (
        text.isascii() and text.isprintable() and "actions:" not in text and "salience=" not in text
    )


def _is_plain_json(text: str) -> bool:
    """The same for what a JSON encoder wrote, which has no control characters but DEL."""
    return (
        text.isascii() and "\x7f" not in text and "actions:" not in text and "salience=" not in text
    )


def _plain(text: str, punctuation: re.Pattern[str] | None = None) -> str:
    """Write out what is invisible, or could pass for the line's own punctuation."""
    if not _is_plain(text):
        text = _MARKER.sub(_visible, _INVISIBLE.sub(_visible, text))
    return text if punctuation is None else punctuation.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    return "".join(_SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}" for char in match[0])
