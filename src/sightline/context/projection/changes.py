"""What changed since a model was last shown the apps: the nodes as they are now, by path.

    whatever it was shown, with the changes applied, is what is there now

    <slop-state generated_at="2026-04-28T10:30:07Z" format="text/tree" since="10:30:00Z">
    (only what changed)
    ### Mail (mail-app)
    below /inbox:
      [item] thread-42: Launch plan (unread=false)  actions: {reply(body: string)}
      after thread-42:
      [item] thread-50: Lunch (unread=true)
      gone: thread-7
    ### Notes (notes)
    (gone)
    </slop-state>

A node that is named stands as it is now; what is below it is as it was, unless it is new: then
all of it is there. A new node comes last among its siblings, or where the line before it says; so
does one that moved. A node that is gone is gone with all below it; what is not named is as it
was. `since` is the time of the block before, without the date where that is the same. An app that
is new, or of which more changed than its nodes, is shown as a whole.

`ShownState` is what a block showed, line by line, in its format: a value that can be kept as JSON
by whoever has no memory between two requests. Lines are kept as `tail` marks them and revealed in
the finished block, which is sealed as every block is: no line of an app's can pass for ours.

Where the block before it in the same user turn still holds, a state block may say so in a word:

    <slop-state generated_at="2026-04-28T10:30:07Z" format="text/tree">
    (unchanged since observation 1 of this turn)
    </slop-state>

It is rendered fresh, has its own time and stands last, as every tail; only its body is
a reference. Two tails are the same if nothing but their times differs: an app that
lost its connection, an action that appeared, a catalogue that grew is a change.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from sightline.context.projection.escape import BLOCK_NAMES, escape_line, reveal
from sightline.context.projection.moment import format_moment
from sightline.context.projection.tail import (
    AVAILABLE,
    MEDIA_TYPES,
    STATE,
    Format,
    Tail,
    app_header,
    app_heading,
    host_lines,
    marked,
    quoted,
    render_available,
    sealed,
    tree_body,
)
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.jsontext import canonical
from sightline.slop.protocol.path import join
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

_ROOT: Final = "/"
_SINCE: Final = "(only what changed)"
_NOTHING: Final = "(nothing has changed)"
_WHOLE: Final = "(as a whole)"
_GONE: Final = "(gone)"
_NO_DANGER: Final = "dangerous actions (the user must approve): none"

Row: TypeAlias = tuple[str, str]
_Kind: TypeAlias = Literal["new", "changed", "moved", "gone", "whole", "note"]


class ShownApp(msgspec.Struct, frozen=True, array_like=True):
    """What a block showed of one app: its heading, its nodes by path, the host's lines below.

    A row is a node's path, and its lines without what is below it and without their indent.
    """

    id: str
    heading: str
    rows: tuple[Row, ...] = ()
    below: str = ""


class ShownState(msgspec.Struct, frozen=True, array_like=True):
    """What a model knows of the apps once it has read a tail; `available` is the catalogue."""

    at: str
    form: Format
    apps: tuple[ShownApp, ...] = ()
    available: str = ""

    @classmethod
    def of(
        cls, world: World, at: datetime, form: Format = "text", listed: int | None = None
    ) -> ShownState:
        """Return what `render_tail`, given the same, shows."""
        apps = tuple(_shown_app(app, form) for app in world.apps)
        return cls(format_moment(at), form, apps, render_available(world, at, listed))


def render_changes(shown: ShownState, current: ShownState) -> Tail:
    """Write what is different now as blocks of their own; no catalogue if that is the same."""
    write = _text_body if current.form == "text" else _json_body
    body = write(*_compared(shown, current))
    day = current.at.partition("T")[0]
    since = shown.at.removeprefix(f"{day}T")
    attributes = f'generated_at="{current.at}" format="{MEDIA_TYPES[current.form]}" since="{since}"'
    state = sealed(STATE, attributes, reveal(body, far=current.form == "yaml"))
    if timeless(shown.available) == timeless(current.available):
        return Tail(state)
    none = sealed(AVAILABLE, f'generated_at="{current.at}"', "(none)")
    return Tail(state, current.available or none)


class ChangedNode(NamedTuple):
    """One change as a value: the node's lines as text now, escaped; empty if it is gone.

    `whole` is an app with all its nodes, `note` what the host says below them.
    """

    app: str
    path: str
    change: _Kind
    text: str = ""


def changed_nodes(shown: ShownState, current: ShownState) -> Iterator[ChangedNode]:
    """List what `render_changes` writes, change by change; both in the text form."""
    changes, apps_gone = _compared(shown, current)
    for change in changes:
        app = change.app
        if change.is_whole:
            whole = "\n".join(_indented(text, _level(path)) for path, text in app.rows)
            yield ChangedNode(app.id, _ROOT, "whole", reveal(whole))
        for nodes in change.nodes.values():
            for node in nodes:
                kind: _Kind = "new" if node.is_new else "changed" if node.after is None else "moved"
                text = "\n".join(_with_inside(node, app)) if node.is_new else node.text
                yield ChangedNode(app.id, reveal(escape_line(node.path)), kind, reveal(text))
        for parent, ids in change.gone.items():
            for one in ids:
                yield ChangedNode(app.id, reveal(escape_line(join(parent, one))), "gone")
        if change.below:
            yield ChangedNode(app.id, _ROOT, "note", reveal(change.below))
    yield from (ChangedNode(app.id, _ROOT, "gone") for app in apps_gone)


def _compared(shown: ShownState, current: ShownState) -> tuple[list[_AppChanges], list[ShownApp]]:
    """Find what changed app by app, and the apps that are gone."""
    known = {app.id: app for app in shown.apps} if shown.form == current.form else {}
    present = {app.id for app in current.apps}
    changes = (_AppChanges.between(known.get(app.id), app) for app in current.apps)
    gone = [app for app in shown.apps if app.id not in present]
    return [change for change in changes if change is not None], gone


def _shown_app(app: AppState, form: Format) -> ShownApp:
    rows = () if app.live_tree is None else tuple(_rows(app.live_tree, form))
    if form == "text":
        return ShownApp(app.id, app_heading(app), rows, "\n".join(host_lines(app)))
    header = ",".join(f'"{name}":{value}' for name, value in app_header(app))
    return ShownApp(app.id, header, rows)


def _rows(root: Node, form: Format) -> Iterator[Row]:
    paths = _paths(root)
    if form == "text":
        yield from zip(paths, _node_lines(tree_body(root, "text")), strict=True)
        return
    for path, node in zip(paths, root.walk(), strict=True):
        alone = node.with_child_list(UNSET) if node.child_list else node
        data = encode(marked(alone, lines=False))
        yield path, (canonical(Raw(data)) if form == "yaml" else data).decode()


def _paths(root: Node) -> Iterator[str]:
    """The path of every node, in document order."""
    stack = [(_ROOT, root)]
    while stack:
        path, node = stack.pop()
        yield path
        stack.extend((join(path, child.id), child) for child in reversed(node.children))


def _node_lines(body: str) -> Iterator[str]:
    """Take a canonical text apart: the line of each node, and what follows before the next one."""
    lines: list[str] = []
    indent = 0
    for line in body.split("\n"):
        bare = line.lstrip(" ")
        if bare.startswith("["):
            if lines:
                yield "\n".join(lines)
            lines, indent = [], len(line) - len(bare)
        lines.append(line[indent:])
    yield "\n".join(lines)


class _NodeChange(NamedTuple):
    """A node to be named: its row, and the sibling it stands behind, None for where it stood.

    An empty `after` is the first place of all.
    """

    path: str
    text: str
    after: str | None = None
    is_new: bool = False


class _AppChanges(NamedTuple):
    """What to say of one app: nodes under their parents, ids that are gone from there."""

    app: ShownApp
    nodes: dict[str, list[_NodeChange]]
    gone: dict[str, list[str]]
    below: str
    is_whole: bool = False

    @classmethod
    def between(cls, past: ShownApp | None, now: ShownApp) -> _AppChanges | None:
        """Compare what was shown of an app with what is; None if it is the same."""
        if past == now:
            return None
        if past is None or not _comparable(past, now):
            return cls(now, {}, {}, now.below, is_whole=True)
        old, new = dict(past.rows), dict(now.rows)
        before, after = _children(past.rows), _children(now.rows)
        nodes: dict[str, list[_NodeChange]] = {}
        gone: dict[str, list[str]] = {}
        if old[_ROOT] != new[_ROOT]:
            nodes[""] = [_NodeChange(_ROOT, new[_ROOT])]
        for parent, ids in after.items():
            had = before.get(parent, [])
            if parent in old and (named := [*_named(parent, had, ids, old, new)]):
                nodes[parent] = named
        for parent, ids in before.items():
            if parent in new and (lost := [one for one in ids if join(parent, one) not in new]):
                gone[parent] = lost
        below = now.below or _NO_DANGER
        return cls(now, nodes, gone, "" if past.below == now.below else below)


def _comparable(past: ShownApp, now: ShownApp) -> bool:
    """Whether both are trees of which nothing but nodes differs, each with a path of its own."""
    if not past.rows or not now.rows or past.heading != now.heading:
        return False
    return all(len(dict(app.rows)) == len(app.rows) for app in (past, now))


def _children(rows: Sequence[Row]) -> dict[str, list[str]]:
    """The ids below every path, in order; paths in document order."""
    found: dict[str, list[str]] = {}
    for path, _ in rows:
        found.setdefault(path, [])
        if path != _ROOT:
            parent, _, node_id = path.rpartition("/")
            found[parent or _ROOT].append(node_id)
    return found


def _named(
    parent: str, had: list[str], ids: list[str], old: dict[str, str], new: dict[str, str]
) -> Iterator[_NodeChange]:
    """Name the children that changed, came or moved, in order."""
    ranks = {node_id: at for at, node_id in enumerate(had)}
    stay = _longest_rising([ranks[one] for one in ids if one in ranks])
    last_known = max((at for at, one in enumerate(ids) if one in ranks), default=-1)
    previous = ""
    for at, node_id in enumerate(ids):
        path, rank = join(parent, node_id), ranks.get(node_id)
        text = new[path]
        if rank is None:
            yield _NodeChange(path, text, previous if at < last_known else None, is_new=True)
        elif rank not in stay:
            yield _NodeChange(path, text, previous)
        elif old[path] != text:
            yield _NodeChange(path, text)
        previous = node_id


def _longest_rising(ranks: list[int]) -> frozenset[int]:
    """Choose as many of these as can be, so that they rise in the order they have."""
    if all(one < other for one, other in pairwise(ranks)):
        return frozenset(ranks)
    ends: list[int] = []
    before: dict[int, int] = {}
    for rank in ranks:
        at = bisect_left(ends, rank)
        before[rank] = ends[at - 1] if at else -1
        ends[at:] = [rank, *ends[at + 1 :]]
    chosen, rank = set(), ends[-1]
    while rank >= 0:
        chosen.add(rank)
        rank = before[rank]
    return frozenset(chosen)


def _text_body(changes: list[_AppChanges], gone: list[ShownApp]) -> str:
    if not changes and not gone:
        return _NOTHING
    lines = [_SINCE]
    for change in changes:
        lines.append(f"### {change.app.heading}")
        if change.is_whole:
            lines.append(_WHOLE)
            lines.extend(_indented(text, _level(path)) for path, text in change.app.rows)
        else:
            lines.extend(_changed_lines(change))
        if change.below:
            lines.append(change.below)
    for app in gone:
        lines += f"### {app.heading}", _GONE
    return "\n".join(lines)


def _changed_lines(change: _AppChanges) -> Iterator[str]:
    root = change.nodes.get("", [])
    yield from (node.text for node in root)
    for parent in _children(change.app.rows):
        nodes, gone = change.nodes.get(parent, []), change.gone.get(parent, [])
        if not nodes and not gone:
            continue
        yield f"below {escape_line(parent)}:"
        for node in nodes:
            if node.after is not None:
                yield f"  after {escape_line(node.after)}:" if node.after else "  first:"
            lines = _with_inside(node, change.app) if node.is_new else (node.text,)
            yield from (_indented(line, 1) for line in lines)
        yield from (f"  gone: {escape_line(node_id)}" for node_id in gone)


def _with_inside(node: _NodeChange, app: ShownApp) -> Iterator[str]:
    """Write a node that is new, and all below it."""
    yield node.text
    level, inside = _level(node.path), f"{node.path}/"
    yield from (
        _indented(text, _level(path) - level) for path, text in app.rows if path.startswith(inside)
    )


def _indented(text: str, level: int) -> str:
    indent = "  " * level
    return "\n".join(f"{indent}{line}" for line in text.split("\n"))


def _level(path: str) -> int:
    return 0 if path == _ROOT else path.count("/")


def _json_body(changes: list[_AppChanges], gone: list[ShownApp]) -> str:
    """One app per line: its header, the paths that are gone, its nodes in document order."""
    apps = [f"{{{','.join(_json_members(change))}}}" for change in changes]
    apps += [f'{{"id":{quoted(app.id)},"gone":true}}' for app in gone]
    shown = ",\n".join(apps)
    return f'{{"changed":[\n{shown}\n]}}' if shown else '{"changed":[]}'


def _json_members(change: _AppChanges) -> Iterator[str]:
    yield change.app.heading
    if change.is_whole:
        nodes = [_NodeChange(path, text) for path, text in change.app.rows]
        yield '"whole":true'
    else:
        nodes = [*_named_nodes(change)]
        gone = [quoted(join(up, one)) for up, ids in change.gone.items() for one in ids]
        if gone:
            yield f'"gone_nodes":[{",".join(gone)}]'
    if nodes:
        yield f'"nodes":[{",".join(map(_json_node, nodes))}]'


def _named_nodes(change: _AppChanges) -> Iterator[_NodeChange]:
    for nodes in change.nodes.values():
        for node in nodes:
            yield node
            if node.is_new:
                inside = f"{node.path}/"
                rows = change.app.rows
                yield from (_NodeChange(*row) for row in rows if row[0].startswith(inside))


def _json_node(node: _NodeChange) -> str:
    after = "" if node.after is None else f'"after":{quoted(node.after) if node.after else "null"},'
    return f'{{"path":{quoted(node.path)},{after}"node":{node.text}}}'


_TIME: Final = re.compile(rf'^(<(?:{"|".join(BLOCK_NAMES)})) generated_at="[^"\n]*"', re.MULTILINE)
_STATE: Final = re.compile(
    rf'^<{BLOCK_NAMES[0]} generated_at="[^"\n]*" format="([^"\n]*)">$', re.MULTILINE
)


def timeless(tail: str) -> str:
    """Return a tail without the times of its blocks, to compare it with another."""
    return _TIME.sub(r"\1", tail)


def brief_state(tail: str, observation: int) -> str:
    """Return the state block of a tail with a reference for a body; empty if it has none.

    The body is of the block's own format, so that what parses bodies can parse this one.
    """
    opening = _STATE.search(tail)
    if opening is None:
        return ""
    body = f'{{"unchanged_since_observation":{observation}}}'
    if opening[1] == "text/tree":
        body = f"(unchanged since observation {observation} of this turn)"
    return f"{opening[0]}\n{body}\n</{BLOCK_NAMES[0]}>"
