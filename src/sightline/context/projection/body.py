"""One app's tree as a block shows it: canonical text, JSON or YAML, with nothing forged in it.

In text, actions say more of their parameters than the canonical text does (`actions.py`).

Whatever the app's strings contain, a node is one line of text, a JSON body parses
to the tree it came from (but for the table's patterns, which read as the table
says), and a YAML body to what the JSON body parses to.

Results carry sentinels, unless they say otherwise; `escape.reveal` goes over the finished
block once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw, UnsetType

from sightline.context.projection.actions import write_actions
from sightline.context.projection.escape import (
    is_innocent_json,
    mark,
    mark_json,
    mark_word,
    reveal,
)
from sightline.errors import InvalidInput
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.jsontext import canonical, members
from sightline.slop.protocol.text import format_blocks, write_lines
from sightline.slop.protocol.tree import TEXT_FIELDS, Extra, Node

Format: TypeAlias = Literal["text", "json", "yaml"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
# What the `format` attribute says.
MEDIA_TYPES: Final[dict[Format, str]] = {
    "text": "text/tree",
    "json": "application/json",
    "yaml": "application/yaml",
}


def check_format(name: str) -> Format:
    """Return the format of this name. Raises InvalidInput naming those that exist."""
    for known in MEDIA_TYPES:
        if name == known:
            return known
    raise InvalidInput(f"no format {name!r}: there are {', '.join(FORMATS)}")


def tree_body(root: Node, form: Format, indent: str = "") -> str:
    """Write a tree in a format, its strings with `escape.mark`s; YAML lines begin with `indent`."""
    safe = marked(root, lines=form == "text")
    if form == "text":
        return "\n".join(format_blocks(safe, write_actions))
    if form == "json":
        return encode(safe).decode()
    return _yaml(safe, indent)


def escaped_lines(nodes: Sequence[Node], indents: Sequence[str]) -> list[str]:
    """Write nodes as lines of canonical text, revealed: what `LiveText` makes a body of."""
    shown = [
        bytes(text)
        for node in nodes
        for text in (node.properties_json, node.meta_json, node.affordances_json)
        if not isinstance(text, UnsetType)
    ]
    names = "\n".join([name for node in nodes for name in (node.id, node.type)])
    document = f"{names}\n{b','.join(shown).decode()}"
    if not (document.isascii() and is_innocent_json(document, lines=True)):
        nodes = [_marked_node(node, (), lines=True) for node in nodes]
    return [reveal(line) for line in write_lines(nodes, indents, write_actions)]


def quoted(text: str) -> str:
    """Write a string of an app's as a JSON string, with `escape.mark`s."""
    return msgspec.json.encode(mark(text, lines=False)).decode()


def marked(root: Node, *, lines: bool) -> Node:
    """Return the tree with every string marked; the tree itself if none needs it."""
    document = encode(root).decode()
    if is_innocent_json(document, lines=lines) and (document.isascii() or not lines):
        return root
    done: list[Node] = []
    # Backwards through document order: a node's children wait on top, the first one uppermost.
    for node in reversed(list(root.walk())):
        count = len(node.children)
        children = tuple(reversed(done[len(done) - count :]))
        del done[len(done) - count :]
        done.append(_marked_node(node, children, lines=lines))
    return done[0]


def _marked_node(node: Node, children: tuple[Node, ...], *, lines: bool) -> Node:
    texts: dict[str, Any] = {}
    for name in TEXT_FIELDS:
        text = node.text(name)
        if not isinstance(text, UnsetType):
            shown = mark_json(
                bytes(text).decode(), lines=lines, names=lines and name == "affordances"
            )
            texts[f"{name}_json"] = Raw(shown.encode())
    extra = node.extra
    if not isinstance(extra, UnsetType):
        extra = Extra(Raw(mark_json(bytes(extra.json).decode(), lines=lines).encode()))
    kind = mark_word(node.type) if lines else mark(node.type, lines=False)
    bare = Node(mark(node.id, lines=lines), kind, extra=extra)
    return msgspec.structs.replace(bare, child_list=children or node.child_list, **texts)


def _yaml(root: Node, indent: str) -> str:
    """Write nodes as block mappings; their fields are JSON, which is YAML as it is."""
    lines: list[str] = []
    stack: list[tuple[Node, str, str]] = [(root, indent, indent)]
    while stack:
        node, first, rest = stack.pop()
        lines.append(f"{first}id: {_json_string(node.id)}")
        lines.append(f"{rest}type: {_json_string(node.type)}")
        for name in TEXT_FIELDS:
            text = node.text(name)
            if not isinstance(text, UnsetType):
                lines.append(f"{rest}{name}: {_spaced(text)}")
        if not isinstance(node.extra, UnsetType):
            named = members(node.extra.json).items()
            lines.extend(f"{rest}{_json_string(key)}: {_spaced(text)}" for key, text in named)
        if node.child_list:
            lines.append(f"{rest}children:")
            below = [(child, f"{rest}- ", f"{rest}  ") for child in reversed(node.children)]
            stack.extend(below)
        elif not isinstance(node.child_list, UnsetType):
            lines.append(f"{rest}children: {'null' if node.child_list is None else '[]'}")
    return "\n".join(lines)


def _json_string(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _spaced(text: Raw) -> str:
    # Canonical: the app's own spelling may use escapes that only JSON has.
    return canonical(text).decode()
