"""Time, for those who need it: notes on what changed, and snapshots to keep.

A tail shows only what is there now. Three things may go into the history instead,
all written by the host in its own words, with app text escaped and cut to size:

    change_note      "State change: Mail: /inbox unread 12 -> 13"   one line, bounded
    pin_snapshot     a state to remember, labelled as past
    changed_signal   "State changed in Mail (mail-app)"   for loops that decide when to look

None of them is a context block, none carries a patch, and `strip_blocks` leaves
all of them alone. Equal worlds give no note and no signal.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from sightline.context.projection.escape import escape_line, reveal
from sightline.context.projection.moment import format_moment
from sightline.context.projection.tail import app_heading, status_line, tree_body
from sightline.slop.protocol.path import join
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

_VALUE_CHARS: Final = 60
_encoder: Final = msgspec.json.Encoder(decimal_format="number")


def change_note(
    before: World, after: World, *, max_changes: int = 12, max_chars: int = 600
) -> str | None:
    """Say in one line what changed between two worlds; None where nothing did.

    What does not fit is counted at the end. Whole changes are left out, never halves.
    """
    # SLOP, context injection, trade-offs: inline diffs.
    changes = list(changes_between(before, after))
    if not changes:
        return None
    kept: list[str] = []
    size = len("State change: ") + len("; and 000000 more")
    for change in changes[:max_changes]:
        size += len(change) + 2
        if size > max_chars:
            break
        kept.append(change)
    more = len(changes) - len(kept)
    if more:
        kept.append(f"and {more} more" if kept else f"{more} changes")
    return f"State change: {'; '.join(kept)}"


def changed_signal(before: World, after: World) -> str | None:
    """Name the apps that changed, and nothing of what they say; None where none did."""
    # SLOP, context injection, patches: a signal without the patch body, for autonomous loops.
    changed = [
        app_heading(app)
        for app in after.apps
        if (past := before.app(app.id)) is None or _differs(past, app)
    ]
    present = {app.id for app in after.apps}
    changed.extend(app_heading(app) for app in before.apps if app.id not in present)
    if not changed:
        return None
    return f"State changed in {', '.join(changed)}. The next request carries the current state."


def pin_snapshot(world: World, at: datetime) -> str:
    """Write a world down to be remembered: for one message of the history, on the user's request.

    Every line of it is quoted (`| `), so it is no context block and nothing in it
    can pass for the host's words around it.
    """
    # SLOP, context injection, trade-offs: snapshot pinning.
    lines: list[str] = []
    for app in world.apps:
        lines.append(f"### {app_heading(app)}")
        if app.live_tree is not None:
            lines.extend(reveal(tree_body(app.live_tree, "text")).split("\n"))
        else:
            lines.append(status_line(app))
    quoted = "\n".join(f"| {line}" for line in lines)
    return f"Pinned state of {format_moment(at)} (a snapshot of the past, not current):\n{quoted}"


def _differs(past: AppState, app: AppState) -> bool:
    return (past.status, past.name, past.tree) != (app.status, app.name, app.tree)


def changes_between(before: World, after: World) -> Iterator[str]:
    """Yield every change between two worlds in words, each a line with app text escaped."""
    for app in after.apps:
        past = before.app(app.id)
        name = escape_line(app.name or app.id)
        if past is None or past.status != app.status:
            yield f"{name}: {app.status}"
            continue
        if past.live_tree is not None and app.live_tree is not None:
            for change in _tree_changes(past.live_tree, app.live_tree):
                yield f"{name}: {change}"
    present = {app.id for app in after.apps}
    for gone in before.apps:
        if gone.id not in present:
            yield f"{escape_line(gone.name or gone.id)}: gone"


def _tree_changes(old_root: Node, new_root: Node) -> Iterator[str]:
    """Compare two trees; what is the same object in both is not looked at."""
    lost: list[str] = []
    found: list[str] = []
    stack = [(old_root, new_root, "/")]
    while stack:
        old, new, path = stack.pop()
        if old is new:
            continue
        was_focused, is_focused = old.meta.focus is True, new.meta.focus is True
        if was_focused and not is_focused:
            lost.append(escape_line(path))
        elif is_focused and not was_focused:
            found.append(escape_line(path))
        yield from _property_changes(old, new, escape_line(path))
        if old.child_list is not new.child_list:
            kept: list[tuple[Node, Node, str]] = []
            yield from _child_changes(old, new, path, kept)
            stack.extend(reversed(kept))
    if lost or found:
        yield f"focus {', '.join(lost) or 'none'} -> {', '.join(found) or 'none'}"


def _property_changes(old: Node, new: Node, path: str) -> Iterator[str]:
    before, after = old.properties, new.properties
    for key, value in after.items():
        if key not in before:
            yield f"{path} {escape_line(key)} = {_shown(value)}"
        elif before[key] != value or type(before[key]) is not type(value):
            yield f"{path} {escape_line(key)} {_shown(before[key])} -> {_shown(value)}"
    yield from (f"{path} {escape_line(key)} removed" for key in before if key not in after)
    old_summary, new_summary = old.meta.summary, new.meta.summary
    if old_summary != new_summary and new_summary:
        yield f"{path} now {_shown(new_summary)}"


def _child_changes(
    old: Node, new: Node, path: str, kept: list[tuple[Node, Node, str]]
) -> Iterator[str]:
    before = {child.id: child for child in old.children}
    for child in new.children:
        where = join(path, child.id)
        past = before.pop(child.id, None)
        if past is not None:
            kept.append((past, child, where))
        else:
            yield f"{escape_line(where)} added{_named(child)}"
    yield from (f"{escape_line(join(path, node_id))} removed" for node_id in before)


def _named(node: Node) -> str:
    properties = node.properties
    name = properties.get("label") or properties.get("title")
    return f" {_shown(name)}" if name else ""


def _shown(value: Any) -> str:
    """A value as JSON, cut to size before it is escaped so that no escape is cut."""
    text = _encoder.encode(value).decode()
    if len(text) > _VALUE_CHARS:
        text = f"{text[:_VALUE_CHARS]}…"
    return escape_line(text)
