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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.slop.protocol.tree import Affordance, Meta, Node, affordances_of

__all__ = ["document_order", "format_blocks", "format_tree", "shown_action", "write_lines"]

_encoder: Final = msgspec.json.Encoder(decimal_format="number")
_objects: Final = msgspec.json.Decoder(list[dict[str, Any] | None])
_metas: Final = msgspec.json.Decoder(list[Meta | None])

# Writes the text of a node's affordances as the end of its line.
ActionWriter: TypeAlias = Callable[[bytes], str]
_BLOCK: Final = 512
# A tree of n levels has n² characters of indent: no block holds much of that.
_BLOCK_CHARS: Final = 4 * 1024 * 1024
_EMPTY: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
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


def format_blocks(root: Node, actions: ActionWriter | None = None) -> Iterator[str]:
    """Write a tree as blocks of lines, to be joined by line breaks; large trees stream.

    `actions` writes the affordances of a node in another way than the canonical one.
    """
    nodes: list[Node] = []
    indents: list[str] = []
    for run, indent, room in document_order(root):
        nodes += run
        indents += repeat(indent, len(run))
        if len(nodes) >= room:
            yield "\n".join(write_lines(nodes, indents, actions))
            nodes, indents = [], []
    if nodes:
        yield "\n".join(write_lines(nodes, indents, actions))


# Neighbours of one level that follow each other in the text, their indent, and how many lines of
# it make a block.
_Neighbours: TypeAlias = tuple[tuple[Node, ...], str, int]


def document_order(root: Node, level: int = 0) -> Iterator[_Neighbours]:
    """Go through a tree whose root is at this level, line by line, in runs of neighbours."""
    yield (root,), *_at_level(level)
    stack = [_neighbours(root.children, level + 1)]
    while stack:
        for found in stack[-1]:
            yield found
            last = found[0][-1]
            if last.child_list:
                stack.append(_neighbours(last.child_list, level + len(stack) + 1))
                break
        else:
            stack.pop()


def _neighbours(siblings: Sequence[Node], level: int) -> Iterator[_Neighbours]:
    """Cut siblings behind each that has children, and where a block is full."""
    siblings = tuple(siblings)
    indent, room = _at_level(level)
    ends = [at for at, node in enumerate(siblings, 1) if node.child_list]
    start = 0
    for end in (*ends, len(siblings)):
        while start < end:
            run = siblings[start : min(end, start + room)]
            yield run, indent, room
            start += len(run)


def _at_level(level: int) -> tuple[str, int]:
    """The indent of a level, and how many of its lines make a block: few where it is wide."""
    indent = "  " * level
    return indent, min(_BLOCK, _BLOCK_CHARS // (len(indent) + 1) + 1)


def shown_action(name: str) -> str:
    """Spell the name of an action as the text of its node does."""
    return _plain(name, _NAME_PUNCTUATION)


def write_lines(
    nodes: Sequence[Node], indents: Sequence[str], actions: ActionWriter | None = None
) -> list[str]:
    """Write each of many nodes: its line, and the note on children that are not here.

    What native code can do for all of them, it does for all: nodes that name the same
    properties are one table, whose columns are joined row by row.
    """
    texts = [node.properties_json or _EMPTY for node in nodes]
    joined = b",".join(texts)
    properties = _read_properties(nodes, joined)
    is_plain = _is_plain_json(joined, len(texts))
    ids = [node.id for node in nodes]
    if not _is_plain("".join(ids)):
        ids = [_plain(node_id) for node_id in ids]
    types = _Types()
    kinds = [types[node.type] for node in nodes]
    ends = _ends(nodes, indents, actions or _actions)
    tables: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, values in enumerate(properties):
        tables[tuple(values) if values else ()].append(at)
    lines = [""] * len(nodes)
    for keys, positions in tables.items():
        own_ids = [ids[at] for at in positions]
        rows: list[dict[str, Any]] = [properties[at] or {} for at in positions]
        # SLOP, state tree, consumer display format: header, properties, meta, affordances.
        columns: list[Iterable[str]] = [
            [indents[at] for at in positions], repeat("["), [kinds[at] for at in positions],
            repeat("] "), own_ids, _names(rows, keys, own_ids),
        ]  # fmt: skip
        columns.extend(_columns(rows, is_plain=is_plain))
        columns.append([ends[at] for at in positions])
        # Not strict: what is the same in every row has no end.
        for at, line in zip(positions, map("".join, zip(*columns)), strict=True):  # noqa: B905
            lines[at] = line
    return lines


def _names(rows: list[dict[str, Any]], keys: tuple[str, ...], ids: list[str]) -> Iterable[str]:
    """Take the display names out of rows, and write each as it follows an id."""
    named = [key for key in ("label", "title") if key in keys]
    if not named:
        return repeat("")
    names = [row.pop(named[0]) for row in rows]
    if len(named) > 1 or set(map(type, names)) != {str}:
        names = [_name(name, row.pop("title", None)) for name, row in zip(names, rows, strict=True)]
    if not _is_plain("".join(names)):
        names = [_plain(name) for name in names]
    return [
        f": {name}" if name and name != node_id else ""
        for name, node_id in zip(names, ids, strict=True)
    ]


def _columns(rows: list[dict[str, Any]], *, is_plain: bool) -> Iterator[Iterable[str]]:
    """Write the properties of rows that name the same ones: what stands before a value, values."""
    if not rows[0]:
        return
    width = len(rows[0])
    # The encoder ends every value with a line break, and no value contains one.
    written = _encoder.encode_lines(list(chain.from_iterable(map(dict.values, rows)))).decode()
    values = written.split("\n")
    if not is_plain:
        values = [_plain(value) for value in values]
    before = " ("
    for at, key in enumerate(rows[0]):
        yield repeat(f"{before}{_plain(key)}=")
        yield values[at:-1:width]
        before = ", "
    yield repeat(")")


def _ends(nodes: Sequence[Node], indents: Sequence[str], write: ActionWriter) -> list[str]:
    """Write what follows the properties of each node: hints, actions, the note."""
    ends: list[str] = []
    last: Raw | UnsetType = UNSET
    actions = ""
    for node in nodes:
        text = node.affordances_json
        if text != last:  # items of one collection tend to have the same actions, byte for byte
            last, actions = text, "" if isinstance(text, UnsetType) else write(bytes(text))
        ends.append(actions)
    having = [at for at, node in enumerate(nodes) if node.meta_json]
    metas = b",".join(nodes[at].meta_json or _NULL for at in having)
    for at, meta in zip(having, _metas.decode(b"[" + metas + b"]"), strict=True):
        if meta is not None:
            note = _note(meta, len(nodes[at].children), indents[at])
            ends[at] = f"{_hints(meta)}{ends[at]}{note}"
    return ends


class _Types(dict[str, str]):
    """Types as they are shown; a block has few."""

    def __missing__(self, kind: str) -> str:
        self[kind] = shown = _plain(kind, _TYPE_PUNCTUATION)
        return shown


def _read_properties(nodes: Sequence[Node], joined: bytes) -> list[dict[str, Any] | None]:
    try:
        return _objects.decode(b"[" + joined + b"]")
    except msgspec.DecodeError:  # a number out of range somewhere: one by one, with care
        return [node.properties for node in nodes]


def _name(label: object, title: object) -> str:
    """The display name: the label, else the title; a value of another kind as JSON."""
    name = title if label is None or label == "" else label
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
        return f"\n{indent}  (showing {inline} of {total})"
    if inline == 0:
        return f"\n{indent}  ({total} {'child' if total == 1 else 'children'} not loaded)"
    return ""


@lru_cache(maxsize=1024)
def _actions(text: bytes) -> str:
    affordances = affordances_of(Raw(text))
    if not affordances:
        return ""
    return f"  actions: {{{', '.join(_action(item) for item in affordances)}}}"


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


def _is_plain_json(text: bytes, objects: int) -> bool:
    """The same for the strings in the JSON text of so many objects, when it is written anew."""
    # One character is found faster than several.
    if text.count(b"{") > objects and b"actions:" in text:
        return False
    if b"=" in text and b"salience=" in text:
        return False
    if b"\\" in text and any(part[:1] == b"u" for part in text.split(b"\\")):
        return False
    return _is_plain(text.translate(None, _JSON_ASCII).decode())


def _plain(text: str, punctuation: re.Pattern[str] | None = None) -> str:
    """Write out what is invisible, or could pass for the line's own punctuation."""
    if not _is_plain(text):
        text = _MARKER.sub(_visible, _INVISIBLE.sub(_visible, text))
    return text if punctuation is None else punctuation.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    return "".join(_SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}" for char in match[0])
