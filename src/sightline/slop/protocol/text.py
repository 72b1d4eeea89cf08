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

*A tree that changes* is written at the cost of the change:

    LiveText().of(tree) == format_tree(tree), whatever was written before

The lines of a run of siblings, and the blocks that they and all below them make, follow
from the run and its level alone. They are kept with the run and go with it. A later tree
shares its runs with the one before, all but those on the way to what changed; in these, a
node that stood in the tree before has its line already, and so has one of which only what is
below it changed. So one change writes the node that changed, and joins the texts of the runs
on its way. What was joined is never joined again: a text stands once in its line and once in
a block, however deep it is, and the blocks of a tree are few.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, repeat
from operator import eq
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.slop.protocol.siblings import Chunk, ShortList
from sightline.slop.protocol.tree import Affordance, Meta, Node, affordances_of

_encoder: Final = msgspec.json.Encoder(decimal_format="number")
_objects: Final = msgspec.json.Decoder(list[dict[str, Any] | None])
_metas: Final = msgspec.json.Decoder(list[Meta | None])

# Writes the text of a node's affordances as the end of its line.
ActionWriter: TypeAlias = Callable[[bytes], str]
# Writes the lines of nodes, at these indents.
LineWriter: TypeAlias = Callable[[Sequence[Node], Sequence[str]], list[str]]
_Run: TypeAlias = Chunk | ShortList
# So many nodes are written together.
_BLOCK: Final = 512
# A tree of n levels has n² characters of indent: no block holds much of that.
_BLOCK_CHARS: Final = 4 * 1024 * 1024
# Of a tree that changes, texts are joined until they have so many characters.
_LONG: Final = 4 * 1024
# Below this level a subtree counts as one line: every level knows all blocks below it.
_DEEP: Final = 64
_NULL: Final = Raw(b"null")
# What the encoder writes of ASCII that can be seen, and what ends its lines.
_JSON_ASCII: Final = bytes(range(0x20, 0x7F)) + b"\n"
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
    return write_blocks(root, partial(write_lines, actions=actions))


def write_blocks(root: Node, write: LineWriter, level: int = 0) -> Iterator[str]:
    """Write a tree whose root is at this level, in blocks of the lines that `write` gives."""
    nodes, indents = [root], ["  " * level]
    stack = [iter(root.children)]
    while stack:
        indent, room = "", 0
        for node in stack[-1]:
            if not indent:
                indent, room = _at_level(level + len(stack))
            nodes.append(node)
            indents.append(indent)
            if len(nodes) >= room:
                yield "\n".join(write(nodes, indents))
                nodes, indents = [], []
            if node.child_list:
                stack.append(iter(node.child_list))
                break
        else:
            stack.pop()
    if nodes:
        yield "\n".join(write(nodes, indents))


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
    properties = _read_properties(nodes)
    ids = _all_plain([node.id for node in nodes])
    heads = _Heads()
    kinds = [heads[node.type] for node in nodes]
    ends = _ends(nodes, indents, actions or _actions)
    tables: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, values in enumerate(properties):
        tables[tuple(values) if values else ()].append(at)
    lines = [""] * len(nodes)
    for keys, positions in tables.items():
        own_ids = [ids[at] for at in positions]
        # SLOP, state tree, consumer display format: header, properties, meta, affordances.
        columns: list[Iterable[str]] = [
            [indents[at] for at in positions], [kinds[at] for at in positions], own_ids,
        ]  # fmt: skip
        if keys:
            rows: list[dict[str, Any]] = [properties[at] or {} for at in positions]
            columns += _names(rows, keys, own_ids)
            columns += _columns(rows)
        columns.append([ends[at] for at in positions])
        # Not strict: what is the same in every row has no end.
        for at, line in zip(positions, map("".join, zip(*columns)), strict=True):  # noqa: B905
            lines[at] = line
    return lines


def _names(
    rows: list[dict[str, Any]], keys: tuple[str, ...], ids: list[str]
) -> Sequence[Iterable[str]]:
    """Take the display names out of rows, and write each as it follows an id."""
    named = [key for key in ("label", "title") if key in keys]
    if not named:
        return ()
    key = named[0]
    names = [row.pop(key) for row in rows]
    if len(named) > 1 or set(map(type, names)) != {str}:
        names = [_name(name, row.pop("title", None)) for name, row in zip(names, rows, strict=True)]
    names = _all_plain(names)
    if all(names) and not any(map(eq, names, ids)):
        return repeat(": "), names
    shown = [
        f": {name}" if name and name != node_id else ""
        for name, node_id in zip(names, ids, strict=True)
    ]
    return (shown,)


def _columns(rows: list[dict[str, Any]]) -> Iterator[Iterable[str]]:
    """Write the properties of rows that name the same ones: what stands before a value, values."""
    if not rows[0]:
        return
    width = len(rows[0])
    # The encoder ends every value with a line break, and no value contains one.
    written = _encoder.encode_lines(list(chain.from_iterable(map(dict.values, rows))))
    values = written.decode().split("\n")
    if not _is_plain_json(written):
        values = [_plain(value) for value in values]
    before = " ("
    for at, key in enumerate(rows[0]):
        yield repeat(f"{before}{_key(key)}=")
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
    metas = b",".join([nodes[at].meta_json or _NULL for at in having])
    for at, meta in zip(having, _metas.decode(b"[" + metas + b"]"), strict=True):
        if meta is None:
            continue
        if meta.salience is not None:
            ends[at] = _salience(meta.salience) + ends[at]
        if meta.summary:
            ends[at] = f'  — "{_plain(meta.summary)}"{ends[at]}'
        if meta.total_children is not None:
            ends[at] += _note(meta, meta.total_children, len(nodes[at].children), indents[at])
    return ends


class _Heads(dict[str, str]):
    """Types as they are shown; a block has few."""

    def __missing__(self, kind: str) -> str:
        self[kind] = shown = f"[{_plain(kind, _TYPE_PUNCTUATION)}] "
        return shown


def _read_properties(nodes: Sequence[Node]) -> list[dict[str, Any] | None]:
    try:
        texts = b",".join([node.properties_json or _NULL for node in nodes])
        return _objects.decode(b"[" + texts + b"]")
    except msgspec.DecodeError:  # a number out of range somewhere: one by one, with care
        return [node.properties for node in nodes]


def _name(label: object, title: object) -> str:
    """The display name: the label, else the title; a value of another kind as JSON."""
    name = title if label is None or label == "" else label
    if isinstance(name, str):
        return name
    return "" if name is None else _encoder.encode(name).decode()


def _note(meta: Meta, total: int, inline: int, indent: str) -> str:
    """Write the line below a node that says which children are not here."""
    if total <= inline:
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
    return f"  salience={math.floor(share * 100 + 0.5) / 100:g}"


def _is_plain(text: str) -> bool:
    """Vouch that no part of a text needs an escape; False means "look closer"."""
    return (
        text.isprintable()
        and "actions:" not in text
        and "salience=" not in text
        and "—" not in text
    )


def _is_plain_json(written: bytes) -> bool:
    """The same for what the encoder wrote, which has escaped the control characters of ASCII."""
    # One character is found faster than several.
    if b"{" in written and b"actions:" in written:
        return False
    if b"=" in written and b"salience=" in written:
        return False
    if written.isascii():
        return b"\x7f" not in written
    return _is_plain(written.translate(None, _JSON_ASCII).decode())


def _all_plain(texts: list[str]) -> list[str]:
    return texts if _is_plain("".join(texts)) else [_plain(text) for text in texts]


@lru_cache(maxsize=1024)
def _key(name: str) -> str:
    return _plain(name)


def _plain(text: str, punctuation: re.Pattern[str] | None = None) -> str:
    """Write out what is invisible, or could pass for the line's own punctuation."""
    if not _is_plain(text):
        text = _MARKER.sub(_visible, _INVISIBLE.sub(_visible, text))
    return text if punctuation is None else punctuation.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    return "".join(_SHORT_ESCAPES.get(char) or f"\\u{ord(char):04x}" for char in match[0])


class _RunText(NamedTuple):
    """The text of a run and of all below it; a short one is not joined, but in its lines."""

    blocks: list[str]
    is_short: bool
    # How many characters a short one has.
    size: int
    # Of the nodes of the run alone.
    lines: Sequence[str]


class LiveText:
    """Writes one tree as it changes.

    `write` gives the lines of nodes, at these indents; a line must follow from the fields of
    its node and from how many children are here.
    """

    def __init__(self, write: LineWriter = write_lines) -> None:
        self._write = write
        # The last tree, its first line and its blocks: one value, so that threads cannot mix
        # two trees.
        self._last: tuple[Node | None, str, tuple[str, ...]] = (None, "", ())

    def of(self, root: Node) -> str:
        """Return the tree as text, with no line break at the end."""
        return "\n".join(self.blocks(root))

    def blocks(self, root: Node) -> tuple[str, ...]:
        """Return the tree as blocks of lines, to be joined by line breaks.

        Nothing is copied of what did not change: where a text is sent on in pieces, these
        cost less than joining them.
        """
        past, line, blocks = self._last
        if root is not past:
            line = self._look_at(root, past, line)
            blocks = tuple(self._joined((root,), (line,), 0, whole=True).blocks)
            self._last = (root, line, blocks)
        return blocks

    def _look_at(self, root: Node, past: Node | None, line: str) -> str:
        """Write all runs below the root that are not written, the last ones first.

        `line` is that of the past root; returns the root's own.
        """
        first = [line if past is not None and _has_line_of(root, past) else ""]
        new: list[tuple[_Run, list[str], int]] = []
        homes: list[tuple[list[str], int, Node, str]] = []
        if not first[0]:
            homes.append((first, 0, root, ""))
        stack: list[tuple[Node, Node | None, int]] = [(root, past, 1)]
        while stack:
            node, past, level = stack.pop()
            runs = node.runs()
            key = (self._write, level)
            unknown = [run for run in runs if key not in run.known]
            if not unknown:
                continue
            known = {} if past is None else self._known_lines(past, runs, level)
            indent = "  " * level
            for run in unknown:
                lines = [known.get(id(child), "") for child in run.nodes]
                new.append((run, lines, level))
                for at in [at for at, line in enumerate(lines) if not line]:
                    child = run.nodes[at]
                    if child.child_list and level == _DEEP:
                        lines[at] = "\n".join(write_blocks(child, self._write, level))
                        continue
                    before = past.child(child.id) if past is not None and known else None
                    if before is not None and _has_line_of(child, before):
                        lines[at] = known.get(id(before), "")
                    if not lines[at]:
                        homes.append((lines, at, child, indent))
                    if child.child_list:
                        stack.append((child, before, level + 1))
        for start in range(0, len(homes), _BLOCK):
            part = homes[start : start + _BLOCK]
            written = self._write([home[2] for home in part], [home[3] for home in part])
            for (lines, at, _, _), line in zip(part, written, strict=True):
                lines[at] = line
        for run, lines, level in reversed(new):
            run.known[self._write, level] = self._joined(run.nodes, lines, level)
        return first[0]

    def _known_lines(self, past: Node, runs: tuple[_Run, ...], level: int) -> dict[int, str]:
        """The lines of a node's children as it was, but for the runs that it still has."""
        same = set(map(id, runs))
        lines: dict[int, str] = {}
        for run in past.runs():
            if id(run) not in same and (text := run.known.get((self._write, level))):
                lines.update(zip(map(id, run.nodes), text.lines, strict=True))
        return lines

    def _joined(
        self, nodes: Sequence[Node], lines: Sequence[str], level: int, *, whole: bool = False
    ) -> _RunText:
        """Join nodes of a level, and what is below them, to blocks.

        If they make none, they stay lines unless they are all there is.
        """
        blocks: list[str] = []
        parts: list[str] = []
        size = 0
        key = (self._write, level + 1)
        for node, line in zip(nodes, lines, strict=True):
            parts.append(line)
            size += len(line)
            for run in node.runs() if node.child_list and level < _DEEP else ():
                text: _RunText = run.known[key]
                if text.is_short:
                    parts += text.blocks
                    size += text.size
                else:
                    blocks += ("\n".join(parts), *text.blocks) if parts else text.blocks
                    parts, size = [], 0
                if size >= _LONG:
                    blocks.append("\n".join(parts))
                    parts, size = [], 0
            if size >= _LONG:
                blocks.append("\n".join(parts))
                parts, size = [], 0
        if not blocks and not whole:
            return _RunText(parts, is_short=True, size=size, lines=lines)
        if parts:
            blocks.append("\n".join(parts))
        return _RunText(blocks, is_short=False, size=0, lines=lines)


def _has_line_of(node: Node, past: Node) -> bool:
    """Tell at a glance that a node has the line that it had: what it says of itself is the same."""
    return (
        node.properties_json is past.properties_json
        and node.meta_json is past.meta_json
        and node.affordances_json is past.affordances_json
        and node.type is past.type
        and node.id == past.id
        and len(node.children) == len(past.children)
    )
