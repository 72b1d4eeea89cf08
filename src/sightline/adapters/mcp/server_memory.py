"""What callers were shown, by version, and what is different now.

    what a caller was shown of an app, with the changes that it is told, is what is there now

A state gets a version when it is first shown to somebody: the app's own number, or the next one
where that would not rise (an app that was started anew counts from one). The last few states of
an app are kept, sharing all that they have in common, so that "changed since version 7" has an
answer; a version that is no longer kept has none, and whoever goes by it is told to look again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from sightline.agent.host.sight import SightRules, look
from sightline.agent.toolbox.bench import Attention
from sightline.context.projection.changes import (
    ChangedNode,
    ShownState,
    changed_nodes,
    render_changes,
)
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidPath
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

_STATES: Final = 64
_APPS: Final = 512
_CALLERS: Final = 256


class Seen(NamedTuple):
    """A state of an app that somebody was shown; without keys, as all that is shown."""

    version: int
    app: AppState
    at: datetime


class Versions:
    """The states of every app that were shown last, each with its number."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, deque[Seen]] = OrderedDict()

    def number(self, app: AppState, at: datetime) -> Seen:
        """Give a state its number: the same one as before if it is the same state."""
        kept = self._kept.setdefault(app.id, deque(maxlen=_STATES))
        self._kept.move_to_end(app.id)
        while len(self._kept) > _APPS:
            self._kept.popitem(last=False)
        if kept and _same(kept[-1].app, app):
            return kept[-1]
        seen = Seen(max(app.version, kept[-1].version + 1 if kept else 1), app, at)
        kept.append(seen)
        return seen

    def at(self, app_id: str, version: int) -> Seen | None:
        """Find a state by its number; None if it is not kept."""
        kept = self._kept.get(app_id, ())
        return next((seen for seen in kept if seen.version == version), None)


@dataclass(slots=True)
class Caller:
    """What one caller was last shown of each app, and the nodes that it looked at or acted on."""

    seen: dict[str, Seen] = field(default_factory=dict)
    attention: Attention = field(default_factory=Attention)


class Callers:
    """Those who call, by what tells them apart; who cannot be told apart is new each time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Caller] = OrderedDict()

    def of(self, key: str | None) -> Caller:
        """Find a caller, or make one."""
        if key is None:
            return Caller()
        caller = self._known.setdefault(key, Caller())
        self._known.move_to_end(key)
        while len(self._known) > _CALLERS:
            self._known.popitem(last=False)
        return caller


class Difference(NamedTuple):
    """What changed between two states of an app: as a block of text, and change by change."""

    text: str = ""
    nodes: tuple[ChangedNode, ...] = ()

    def json(self) -> list[dict[str, Any]]:
        """Write the changes as JSON objects, without what is empty."""
        return [{k: v for k, v in node._asdict().items() if v} for node in self.nodes]


def difference(past: Seen, now: Seen, rules: SightRules, counter: Counter) -> Difference:
    """Say what of an app is different, within the rules; nothing if it is the same."""
    if past.version == now.version:
        return Difference()
    before, after = _shown(past, rules, counter), _shown(now, rules, counter)
    nodes = tuple(changed_nodes(before, after))
    return Difference(render_changes(before, after).text, nodes) if nodes else Difference()


def changes_below(past: Seen, now: Seen, path: str) -> Iterator[ChangedNode]:
    """List what changed at a node and below it, however much that is."""
    alone = [replace(one.app, tree=node_at(one.app, path)) for one in (past, now)]
    before, after = (ShownState.of(World((app,)), now.at) for app in alone)
    for node in changed_nodes(before, after):
        rest = "" if node.path == "/" else node.path
        yield node._replace(path=(path.rstrip("/") + rest) or "/")


def node_at(app: AppState | None, path: str) -> Node | None:
    """Find a node of an app that shows its state now."""
    if app is None or app.tree is None or app.status != "connected":
        return None
    try:
        return app.tree.at(format_path(parse_path(path)))
    except InvalidPath:
        return None


def _shown(seen: Seen, rules: SightRules, counter: Counter) -> ShownState:
    return look(World((seen.app,)), seen.at, rules, counter.count).shown


def _same(past: AppState, now: AppState) -> bool:
    return past.tree is now.tree and past.status == now.status and past.name == now.name
