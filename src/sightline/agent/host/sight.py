"""What of the apps goes into a request: no keys, no walls of text, and no more than fits.

    hub's world → safe world → selection → blocks

The safe world is the hub's with every key-shaped text blanked and every long text cut:
what is shown, recorded and compared is always this one, so a key that an app shows goes
nowhere. Making it costs what changed: a subtree that is the same object as last time is
not looked at again.
"""

from __future__ import annotations

import threading
from bisect import bisect
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sightline.context.messages.gate import shown_json
from sightline.context.messages.graphemes import cut_at_or_before
from sightline.context.projection.changes import ShownState
from sightline.context.projection.select import Selection, fold, select_bounded
from sightline.context.projection.tail import Format, Tail, render_available, render_tail
from sightline.slop.protocol.jsontext import read, text_of
from sightline.slop.protocol.tree import TEXT_FIELDS, Extra, Node
from sightline.slop.protocol.world import AppState, World

LONGEST_TEXT: Final = 2_000
FRAME_TOKENS: Final = 16  # what a message weighs beside its text, at most
CATALOGUE_PART: Final = 4  # apps that are not connected have one part in this many, at most
_REMEMBERED: Final = 200_000


class SightRules(msgspec.Struct, frozen=True):
    """How a request chooses what it shows: kept in its receipt, so that it can be chosen again.

    `budget` is the state's. `pins` are the paths of each app that are shown whatever there is
    room for. `max_tokens` is what state and catalogue weigh together, 0 for no such limit.
    """

    budget: int = 0
    format: Format = "text"
    pins: dict[str, tuple[str, ...]] = {}
    max_tokens: int = 0


class Sight(msgspec.Struct, frozen=True):
    """What one request shows: the world it was taken from, what was chosen, the blocks.

    `at` is when, and `listed` how many apps the catalogue names.
    """

    world: World
    selection: Selection
    tail: Tail
    rules: SightRules
    at: datetime
    listed: int

    @property
    def shown(self) -> ShownState:
        """What a model knows of the apps once it has read the blocks."""
        return ShownState.of(self.selection.world, self.at, self.rules.format, self.listed)


class SafeWorlds:
    """Makes safe worlds, remembering what it found harmless. Safe to use from threads."""

    def __init__(self) -> None:
        # Source node → what stands for it. The nodes are held, so that ids stay their own.
        self._known: dict[int, tuple[Node, Node]] = {}
        self._lock = threading.Lock()

    def of(self, world: World) -> World:
        """Return the world with nothing in it that must not be sent."""
        with self._lock:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            apps = tuple(self._app(app) for app in world.apps)
        if all(one is other for one, other in zip(apps, world.apps, strict=True)):
            return world
        return replace(world, apps=apps)

    def _app(self, app: AppState) -> AppState:
        tree = None if app.tree is None else self._tree(app.tree)
        name = shown_json(_cut(app.name))
        if tree is app.tree and name == app.name:
            return app
        return replace(app, tree=tree, name=name)

    def _tree(self, root: Node) -> Node:
        """Go through what is new, parents before children, and put it together from behind."""
        known = self._known
        new: list[Node] = []
        stack = [root]
        while stack:
            node = stack.pop()
            if id(node) not in known:
                new.append(node)
                stack.extend(node.children)
        for node in reversed(new):
            known[id(node)] = (node, self._safe(node))
        return known[id(root)][1]

    def _safe(self, node: Node) -> Node:
        safe = node
        for name in TEXT_FIELDS:
            text: Raw | UnsetType = getattr(node, f"{name}_json")
            if not isinstance(text, UnsetType) and (blanked := _safe_text(text)) is not text:
                safe = safe.with_text(name, blanked)
        extra = node.extra
        if (
            not isinstance(extra, UnsetType)
            and (blanked := _safe_text(extra.json)) is not extra.json
        ):
            safe = msgspec.structs.replace(safe, extra=Extra(blanked))
        if node.child_list is UNSET or not node.child_list:
            return safe
        children = tuple(self._known[id(child)][1] for child in node.children)
        same = all(one is other for one, other in zip(children, node.children, strict=True))
        return safe if same else safe.with_child_list(children)


def look(world: World, at: datetime, rules: SightRules, count: Callable[[str], int]) -> Sight:
    """Choose what of a safe world is shown by the rules, and write it."""
    form, budget, listed = rules.format, rules.budget, len(world.available)
    if rules.max_tokens:
        room = rules.max_tokens - 2 * FRAME_TOKENS  # they are two messages
        listed = _listed(world, at, min(room, budget) // CATALOGUE_PART, count)
        budget = max(0, min(budget, room - count(render_available(world, at, listed))))
    shown = fold(world, rules.pins)
    selection = select_bounded(shown, budget, count, form=form, pins=rules.pins)
    tail = render_tail(selection.world, at, form, listed, described=selection.described)
    return Sight(world, selection, tail, rules, at, listed)


def _listed(world: World, at: datetime, budget: int, count: Callable[[str], int]) -> int:
    """Count the apps that are not connected and fit into a catalogue with the first of them."""
    every = len(world.available)
    if count(render_available(world, at)) <= budget:
        return every
    # No line is shorter than a token: what is beyond that need not be written to know.
    most = min(every, max(0, budget))
    return bisect(
        range(1, most + 1), budget, key=lambda shown: count(render_available(world, at, shown))
    )


def _safe_text(text: Raw) -> Raw:
    """Return a JSON text with nothing in it that must not be sent; itself if that is so already."""
    written = bytes(text).decode()
    # Behind an escape (`https:\/\/`, `\u0073k-`) a key does not look like one until it is read.
    if len(written) <= LONGEST_TEXT and "\\" not in written and shown_json(written) == written:
        return text
    value = read(text)
    safe = shown_json(_cut_json(value))
    return text if safe == value else text_of(safe)


def _cut_json(value: Any) -> Any:
    match value:
        case str():
            return _cut(value)
        case list() | tuple():
            return [_cut_json(item) for item in value]
        case dict():
            return {key: _cut_json(item) for key, item in value.items()}
        case _:
            return value


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    end = cut_at_or_before(text, LONGEST_TEXT)
    return f"{text[:end]}… ({len(text) - end} more characters)"
