"""The blocks at the end of every request: what is there now, and what could be.

    <slop-apps-available generated_at="2026-04-28T10:30:00Z">
    - Calendar (id: `calendar-app`, unix, local)
    </slop-apps-available>
    <slop-state generated_at="2026-04-28T10:30:00Z" format="text/tree">
    ## SLOP Apps
    ### Mail (mail-app)
    [root] mail-app: Mail
    </slop-state>

Every block begins with its only opening tag and ends with its only closing tag,
whatever the apps say; the assembled text is checked for it, and a block that
breaks the rule is never returned. An app that is not connected has a status line
and no tree: what it last showed is not what is there now.

The same world, moment and format give the same bytes. A tail is for one request:
nothing here is ever stored in a conversation (`strip.py` sees to what comes back).

*Trees* are canonical text, JSON or YAML. Whatever an app's strings contain, a node is one
line of text, a JSON body parses to the tree it came from (but for the table's patterns,
which read as the table says), and a YAML body to what the JSON body parses to. In text,
actions say more of their parameters than the canonical text does (`actions.py`). Bodies
carry sentinels, unless they say otherwise; `escape.reveal` goes over the finished block once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from operator import is_
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw, UnsetType

from sightline.context.projection.actions import about_lines, danger_line, write_actions
from sightline.context.projection.escape import (
    BLOCK_NAMES,
    escape_line,
    escape_name,
    is_innocent_json,
    mark,
    mark_json,
    mark_word,
    reveal,
    tag_like,
)
from sightline.context.projection.moment import format_moment
from sightline.errors import InvalidInput
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.jsontext import canonical, members
from sightline.slop.protocol.text import LiveText, format_blocks, write_lines
from sightline.slop.protocol.tree import TEXT_FIELDS, Extra, Node
from sightline.slop.protocol.world import AppState, AvailableApp, World

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


STATE, AVAILABLE = BLOCK_NAMES
EVERY_APP: Final = "*"  # no app's id: what `slop_query` takes for a list of all of them
_REMEMBERED: Final = 4
_REMEMBERED_APPS: Final = 16
_AWAITING: Final = "status: awaiting its first state"


class Tail(msgspec.Struct, frozen=True):
    """The blocks of one request. `available` is empty where there is nothing to offer."""

    state: str
    available: str = ""

    @property
    def text(self) -> str:
        """Both blocks, the catalogue first: what changes most comes last."""
        return f"{self.available}\n{self.state}" if self.available else self.state

    def message(self) -> dict[str, str]:
        """Write it as the last message of a request, behind all others, in the user's role."""
        return {"role": "user", "content": self.text}

    def __str__(self) -> str:
        return self.text


def render_tail(
    world: World,
    at: datetime,
    form: Format = "text",
    listed: int | None = None,
    *,
    described: bool = False,
) -> Tail:
    """Render what a model is shown of a world at a moment; `listed` is for `render_available`."""
    state = render_state(world, at, form, described=described)
    return Tail(state, render_available(world, at, listed))


def render_state(
    world: World, at: datetime, form: Format = "text", *, described: bool = False
) -> str:
    """Render the live state of all apps as one `<slop-state>` block.

    `described` adds to text what actions do; the other forms say it in any case.
    """
    attributes = f'generated_at="{format_moment(at)}" format="{MEDIA_TYPES[form]}"'
    body = _BODIES.of(world.apps, form, described=described and form == "text")
    return sealed(STATE, attributes, body)


class _Bodies:
    """Cache of the block bodies written last: each is weighed, then sent, and often sent again.

    Known by the apps' own objects, which never change and are held here.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[tuple[AppState, ...], Format, bool, str], ...] = ()

    def of(self, apps: tuple[AppState, ...], form: Format, *, described: bool) -> str:
        """Write the body of a block, or find it written."""
        for known, *how, body in self._last:
            if how == [form, described] and len(known) == len(apps) and all(map(is_, known, apps)):
                return body
        if form == "text":
            written = _text_body(apps, described=described)
        else:
            written = _json_body(apps) if form == "json" else _yaml_body(apps)
        body = reveal(written, far=form == "yaml")
        self._last = ((apps, form, described, body), *self._last[: _REMEMBERED - 1])
        return body


@lru_cache(maxsize=_REMEMBERED_APPS)
def _text_of(_app_id: str) -> LiveText:
    """The text of an app, which follows its tree: only what is new there is written."""
    return LiveText(escaped_lines)


def render_available(world: World, at: datetime, listed: int | None = None) -> str:
    """Render the apps that could be connected as a sibling block; empty where there are none.

    `listed` is how many of them, if not all; the others are counted.
    """
    if not world.available:
        return ""
    lines = [*map(_available_line, world.available[:listed])]
    if left := len(world.available) - len(lines):
        lines.append(f'({left} more; slop_query with app "{EVERY_APP}" lists them all)')
    return sealed(AVAILABLE, f'generated_at="{format_moment(at)}"', "\n".join(lines))


def app_heading(app: AppState | AvailableApp) -> str:
    """Name an app for the model: its name, and the id by which it is addressed."""
    return f"{_name_of(app)} ({escape_name(app.id)})"


def app_frame(app: AppState, form: Format) -> str:
    """Everything that stands in a block for one app besides its tree."""
    if form == "text":
        return "".join(f"{line}\n" for line in (f"### {app_heading(app)}", *host_lines(app)))
    if form == "json":
        return (
            "{" + ",".join(f'"{name}":{value}' for name, value in app_header(app)) + ',"tree":},\n'
        )
    header = "\n".join(f"    {name}: {value}" for name, value in app_header(app))
    return f"{reveal(header)}\n    tree:\n"


def _name_of(app: AppState | AvailableApp) -> str:
    return escape_name(app.name if app.name.strip() else app.id)


def status_line(app: AppState) -> str:
    """Say why an app shows no state."""
    # SLOP, context injection, conformance 8: no stale tree of a disconnected app as current state.
    if app.status != "disconnected":
        return _AWAITING
    seen = f", last seen {escape_name(app.last_seen)}" if app.last_seen else ""
    return f"status: disconnected{seen}"


def host_lines(app: AppState) -> list[str]:
    """What the host adds below a heading and its tree, if there is one."""
    if app.live_tree is None:
        return [status_line(app)]
    danger = danger_line(app.live_tree)
    return [danger] if danger else []


def _text_body(apps: Sequence[AppState], *, described: bool) -> str:
    lines = ["## SLOP Apps"]
    for app in apps:
        # SLOP, context injection, conformance 7: clear boundaries, by name and id.
        lines.append(f"### {app_heading(app)}")
        tree = app.live_tree
        if tree is not None:
            lines.append(_text_of(app.id).of(tree))
        lines.extend(host_lines(app))
        if described and tree is not None:
            lines.extend(about_lines(tree))
    if not apps:
        lines.append("(no app is connected)")
    return "\n".join(lines)


def _json_body(apps: Sequence[AppState]) -> str:
    shown = ",\n".join("{" + ",".join(_json_members(app)) + "}" for app in apps)
    return f'{{"apps":[\n{shown}\n]}}' if shown else '{"apps":[]}'


def _json_members(app: AppState) -> Iterator[str]:
    for name, value in app_header(app):
        yield f'"{name}":{value}'
    if app.live_tree is not None:
        yield f'"tree":{tree_body(app.live_tree, "json")}'


def _yaml_body(apps: Sequence[AppState]) -> str:
    lines = ["apps:" if apps else "apps: []"]
    for app in apps:
        (_, app_id), *others = app_header(app)
        lines.append(f"  - id: {app_id}")
        lines.extend(f"    {name}: {value}" for name, value in others)
        if app.live_tree is not None:
            lines += "    tree:", tree_body(app.live_tree, "yaml", "      ")
    return "\n".join(lines)


def app_header(app: AppState) -> Iterator[tuple[str, str]]:
    """What a JSON or YAML body says of an app besides its tree, as names and JSON values."""
    yield "id", quoted(app.id)
    yield "name", quoted(app.name if app.name.strip() else app.id)
    is_waiting = app.status == "connected" and app.tree is None
    yield "status", msgspec.json.encode("awaiting" if is_waiting else app.status).decode()
    if app.status == "disconnected" and app.last_seen:
        yield "last_seen", quoted(app.last_seen)


def _available_line(app: AvailableApp) -> str:
    facts = [f"id: `{escape_name(app.id)}`"]
    facts.extend(escape_name(fact) for fact in (app.transport, app.source) if fact)
    about = f": {escape_line(app.description)}" if app.description else ""
    return f"- {_name_of(app)} ({', '.join(facts)}){about}"


_BODIES: Final = _Bodies()


def sealed(name: str, attributes: str, body: str) -> str:
    """Put a body between its tags. Raises AssertionError if a reader could find others."""
    closing = f"</{name}>"
    block = f"<{name} {attributes}>\n{body}\n{closing}"
    if list(tag_like(block)) != [0, len(block) - len(closing)]:
        # Unreachable as long as the escaping holds; if it does not, no state is better than forged
        # state. Not an `assert`, which an optimising interpreter would drop.
        raise AssertionError(f"a {name} block must have one opening and one closing tag")
    return block
