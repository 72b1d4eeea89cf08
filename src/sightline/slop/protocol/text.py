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
from typing import Any, Final

import msgspec
from msgspec import Raw

from sightline.slop.protocol.tree import Affordance, Meta, Node, affordances_of

__all__ = ["format_blocks", "format_tree", "shown_action"]

_encoder: Final = msgspec.json.Encoder(decimal_format="number")
_objects: Final = msgspec.json.Decoder(list[dict[str, Any] | None])
_metas: Final = msgspec.json.Decoder(list[Meta | None])

_BLOCK: Final = 512
# A tree of n levels has n² characters of indent: no block holds much of that.
_BLOCK_CHARS: Final = 4 * 1024 * 1024
_EMPTY: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
_CLOSE: Final = Raw(b")")
_LINES: Final = bytes.maketrans(b"\0", b"\n")
# What JSON text has of ASCII that can be seen, and the space between its tokens.
_JSON_ASCII: Final = bytes(range(0x20, 0x7F)) + b"\t\n\r"
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
# Control characters, line and paragraph separators, bidi embeddings, overrides and isolates,
# and what is no character at all.
_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Space before one of the line's own markers. It can only match where a run of space begins, and
# ends before no space, so that no run is scanned twice.
_MARKER: Final = re.compile(r'(?<!\s)\s+(?=actions:\s?\{|salience=|—\s?")')
_TYPE_PUNCTUATION: Final = re.compile(r"[\[\]]")
_NAME_PUNCTUATION: Final = re.compile(r"[{}(),:]")


def format_tree(root: Node) -> str:
    """Write a tree as text, with no line break at the end."""
    return "\n".join(format_blocks(root))


def format_blocks(root: Node) -> Iterator[str]:
    """Write a tree as blocks of lines, to be joined by line breaks; large trees stream."""
    nodes: list[Node] = [root]
    indents: list[str] = [""]
    stack = [iter(root.children)]
    indent, room = _at_level(1)
    while stack:
        for node in stack[-1]:
            nodes.append(node)
            indents.append(indent)
            if node.child_list:
                stack.append(iter(node.child_list))
                indent, room = _at_level(len(stack))
                break
            if len(nodes) >= room:
                break
        else:
            stack.pop()
            indent, room = _at_level(len(stack))
        if len(nodes) >= room:
            yield _block(nodes, indents)
            nodes, indents = [], []
    if nodes:
        yield _block(nodes, indents)


def _at_level(level: int) -> tuple[str, int]:
    """The indent of a level, and how many of its lines make a block: few where it is wide."""
    indent = "  " * level
    return indent, min(_BLOCK, _BLOCK_CHARS // (len(indent) + 1) + 1)


def shown_action(name: str) -> str:
    """Spell the name of an action as the text of its node does."""
    return _plain(name, _NAME_PUNCTUATION)


def _block(nodes: list[Node], indents: list[str]) -> str:
    """Write many nodes at once: what native code can do for all of them, it does for all.

    A line is a run of pieces, text and JSON values, and one call encodes the pieces of
    all lines. The encoder ends every piece with a line break, and no piece contains one:
    text has been made plain, and JSON has them escaped. So all of these can go, and a
    NUL, which no piece contains either, keeps the place where a line of ours begins.
    """
    texts = [node.properties_json or _EMPTY for node in nodes]
    properties = _read_properties(nodes, texts)
    ids = [node.id for node in nodes]
    names = [_take_name(values) if values else "" for values in properties]
    if not _is_plain("".join(chain(ids, names))):
        ids = [_plain(node_id) for node_id in ids]
        names = [_plain(name) for name in names]
    if not _is_plain_json(b",".join(texts)):
        _make_values_plain(properties, texts)
    types, first_keys, other_keys = _Types(), _Keys(" ("), _Keys(", ")
    pieces: list[object] = []
    append = pieces.append
    columns = zip(nodes, indents, ids, names, properties, _read_metas(nodes), strict=True)
    for node, indent, node_id, name, values, meta in columns:
        # SLOP, state tree, consumer display format: header, properties, meta, affordances.
        shown = f": {name}" if name and name != node_id else ""
        append(Raw(f"\0{indent}[{types[node.type]}] {node_id}{shown}".encode()))
        if values:
            keys = first_keys
            for key, value in values.items():
                append(keys[key])
                append(value)
                keys = other_keys
            append(_CLOSE)
        if meta is not None:
            append(Raw(_hints(meta).encode()))
        if node.affordances_json:
            append(_actions(bytes(node.affordances_json)))
        if meta is not None and meta.total_children is not None:
            append(Raw(_note(meta, len(node.children), indent).encode()))
    return _encoder.encode_lines(pieces).translate(_LINES, b"\n")[1:].decode()


class _Types(dict[str, str]):
    """Types as they are shown; a block has few."""

    def __missing__(self, kind: str) -> str:
        self[kind] = shown = _plain(kind, _TYPE_PUNCTUATION)
        return shown


class _Keys(dict[str, Raw]):
    """Names of properties as they are shown, after what stands before them; a block has few."""

    def __init__(self, before: str) -> None:
        self._before = before

    def __missing__(self, key: str) -> Raw:
        self[key] = shown = Raw(f"{self._before}{_plain(key)}=".encode())
        return shown


def _make_values_plain(properties: list[dict[str, Any] | None], texts: list[Raw]) -> None:
    """Put the plain JSON text of values in their place, where it may differ from their JSON."""
    for values, text in zip(properties, texts, strict=True):
        if values and not _is_plain_json(text):
            for key, value in values.items():
                values[key] = _plain_value(value)


def _plain_value(value: object) -> Raw:
    return Raw(_plain(_encoder.encode(value).decode()).encode())


def _read_properties(nodes: list[Node], texts: list[Raw]) -> list[dict[str, Any] | None]:
    try:
        return _objects.decode(b"[" + b",".join(texts) + b"]")
    except msgspec.DecodeError:  # a number out of range somewhere: one by one, with care
        return [node.properties for node in nodes]


def _read_metas(nodes: list[Node]) -> list[Meta | None]:
    texts = [node.meta_json or _NULL for node in nodes]
    return _metas.decode(b"[" + b",".join(texts) + b"]")


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


def _hints(meta: Meta) -> str:
    """Write the summary and the salience, each where there is one."""
    summary = f'  — "{_plain(meta.summary)}"' if meta.summary else ""
    return summary if meta.salience is None else f"{summary}  {_salience(meta.salience)}"


def _note(meta: Meta, inline: int, indent: str) -> str:
    """Write the line below a node that says which children are not here."""
    total = meta.total_children
    if total is None or total <= inline:
        return ""
    # SLOP, state tree, consumer display format: windowing.
    if meta.window is not None:
        return f"\0{indent}  (showing {inline} of {total})"
    if inline == 0:
        return f"\0{indent}  ({total} {'child' if total == 1 else 'children'} not loaded)"
    return ""


# Items of one collection tend to have the same actions, byte for byte.
@lru_cache(maxsize=1024)
def _actions(text: bytes) -> Raw:
    affordances = affordances_of(Raw(text))
    if not affordances:
        return Raw(b"")
    return Raw(f"  actions: {{{', '.join(_action(item) for item in affordances)}}}".encode())


def _action(affordance: Affordance) -> str:
    name = shown_action(affordance.action)
    # SLOP, state tree, consumer display format: types come from the JSON Schema.
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
def _salience(share: float) -> str:
    return f"salience={math.floor(share * 100 + 0.5) / 100:g}"


def _is_plain(text: str) -> bool:
    """Vouch that no part of a text needs an escape; False means "look closer"."""
    return (
        text.isprintable()
        and "actions:" not in text
        and "salience=" not in text
        and "—" not in text
    )


def _is_plain_json(text: bytes | Raw) -> bool:
    """The same for the strings in JSON text, when it is written anew."""
    text = bytes(text)
    beyond_ascii = text.translate(None, _JSON_ASCII).decode()
    return (
        _is_plain(beyond_ascii)
        and b"\\u" not in text
        and b"actions:" not in text
        and b"salience=" not in text
    )


def _plain(text: str, punctuation: re.Pattern[str] | None = None) -> str:
    """Write out what is invisible, or could pass for the line's own punctuation."""
    if not _is_plain(text):
        text = _MARKER.sub(_visible, _INVISIBLE.sub(_visible, text))
    return text if punctuation is None else punctuation.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    return "".join(_SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}" for char in match[0])
