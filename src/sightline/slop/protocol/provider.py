"""The provider's side of the protocol, for one app and all its connections. Pure.

*Theory of operation.* The app publishes trees, one per *audience* (an app without
sessions has one audience; with sessions, each session that sees its own tree is
one). Nothing is sent until `flush`: then the version goes up by one, and every
*group* of subscriptions (equal audience, path and view) projects its part of the
new tree once, diffs it once against what it showed before and encodes the
operations once; each subscriber gets those bytes behind a small head with its own
id and seq. Groups of different audiences that show the same objects share that work
too (`showing`). So a change costs per different view, and per further subscriber a
few bytes.

A subscriber that cannot be sent operations (it just came, its reader is slow, its
root changed in a way that deployed mirrors cannot follow, the patch is too long)
is *stale*: its connection sends it a fresh snapshot with `seq` 0 as soon as there
is room. See `connection`.

Old trees are kept for a while, which is cheap, for trees share what did not
change: a subscriber that comes back with the version it has seen gets the
difference to that version instead of a snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, MutableMapping
from typing import Final
from weakref import WeakValueDictionary

from sightline.errors import InvalidPath
from sightline.slop.protocol.bounds import Bounding, Bounds
from sightline.slop.protocol.connection import Connection, Subscription
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.protocol.messages import ProviderInfo, ResumePoint
from sightline.slop.protocol.showing import Showing, ViewChange
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import View

CAPABILITIES: Final = (
    "state",
    "patches",
    "affordances",
    "attention",
    "windowing",
    "x-base",
    "x-fields",
    "x-resume",
    "x-retain",
    "x-actions-hint",
    "x-served",
    "x-trace",
)
_BOUNDED: Final = 64


class Provider:
    """An app's trees, and everyone who watches them."""

    def __init__(
        self, info: ProviderInfo, tree: Node, limits: ProviderLimits | None = None
    ) -> None:
        self.info = info
        self.limits = limits or ProviderLimits()
        self.bounds = Bounds(hints=self.supports("x-actions-hint"))
        self.version = 0
        # Whether the app makes nodes when they are asked for, beyond those in its tree.
        self.makes_nodes = False
        self.ready: set[Connection] = set()
        self._audiences: dict[Hashable, Audience] = {}
        self._published: dict[Audience, None] = {}
        self._showings: WeakValueDictionary[tuple[int, View], Showing] = WeakValueDictionary()
        # (limits, path, id of a tree) → that tree, which is held, and what of it is shown.
        self._bounded: dict[tuple[int, tuple[str, ...], int], tuple[Node, Node]] = {}
        self.publish(tree)

    def supports(self, capability: str) -> bool:
        """Tell whether the provider declares a capability."""
        return capability in self.info.capabilities

    def publish(self, tree: Node, audience: Hashable = None) -> None:
        """Set an audience's tree; `flush` tells its subscribers."""
        known = self._audiences.get(audience)
        if known is None:
            # A later life of an audience is not the one that an old resume point speaks of.
            if self._audiences:
                self.version += 1
            self._audiences[audience] = Audience(self, audience, tree)
        else:
            known.tree = tree
            self._published[known] = None

    def connect(self, audience: Hashable = None) -> Connection:
        """Begin a connection that sees this audience's tree, which must have been published."""
        return Connection(self, self._audiences[audience])

    def drop_audience(self, audience: Hashable) -> None:
        """Forget a tree that nobody is connected to any more."""
        known = self._audiences.get(audience)
        if known is not None and not known.groups:
            del self._audiences[audience]
            self._published.pop(known, None)

    @property
    def is_dirty(self) -> bool:
        """Whether a tree was published that no subscriber was sent yet."""
        return any(audience.is_dirty for audience in self._published)

    def flush(self) -> None:
        """Tell subscribers what changed since the last flush, if anything did."""
        dirty = [audience for audience in self._published if audience.is_dirty]
        self._published.clear()
        if dirty:
            self.version += 1
            steps = Steps(self._showings)
            for audience in dirty:
                audience.advance(self.version, steps)

    def showing(self, source: Node, view: View) -> Showing:
        """Return what a view shows of a tree, shared with whoever asked for the same before."""
        # A showing holds its tree, so the id is that tree's for as long as it is found here.
        key = (id(source), view)
        found = self._showings.get(key)
        if found is None:
            found = self._showings[key] = Showing.of(source, view, self.limits)
        return found

    def bounded(self, path: tuple[str, ...], source: Node, bounding: Bounding) -> Node:
        """Cut what a subscription to a path is shown, once for all who share the tree."""
        key = (self.bounds.version, path, id(source))
        found = self._bounded.get(key)
        if found is None:
            if len(self._bounded) >= _BOUNDED:
                self._bounded.clear()
            found = self._bounded[key] = (source, bounding(source))
        return found[1]

    def take_ready(self) -> set[Connection]:
        """Return the connections that got something to send since this was last asked."""
        ready, self.ready = self.ready, set()
        return ready


class Audience:
    """One tree, as it was lately, and the groups that watch parts of it."""

    def __init__(self, provider: Provider, key: Hashable, tree: Node) -> None:
        self.provider = provider
        self.key = key
        self.tree = tree
        self.groups: dict[tuple[tuple[str, ...], View], ViewGroup] = {}
        kept = provider.limits.kept_versions
        self._past: deque[tuple[int, Node]] = deque([(provider.version, tree)], maxlen=kept)

    @property
    def is_dirty(self) -> bool:
        return self.tree is not self._past[-1][1]

    def advance(self, version: int, steps: Steps) -> None:
        """Take the published tree as the one of this version, and tell the groups."""
        self._past.append((version, self.tree))
        for group in self.groups.values():
            group.advance(version, steps)

    def tree_at(self, version: int) -> Node | None:
        """Return the tree as it was at a version, if it is still known."""
        if version > self.provider.version:
            return None
        for when, tree in reversed(self._past):
            if when <= version:
                return tree
        return None

    def group(self, path: tuple[str, ...], view: View) -> ViewGroup:
        """Return the group for a path and view. Raises InvalidPath where nothing is there."""
        key = (path, view)
        group = self.groups.get(key)
        if group is None:
            group = ViewGroup(self, path, view)
            self.groups[key] = group
        return group

    def leave(self, subscription: Subscription) -> None:
        """End a subscription's part in its group."""
        group = subscription.group
        group.subscriptions.discard(subscription)
        if not group.subscriptions:
            self.groups.pop((group.path, group.view), None)


class ViewGroup:
    """The subscriptions of one audience to the same path, through the same view."""

    def __init__(self, audience: Audience, path: tuple[str, ...], view: View) -> None:
        self.audience = audience
        self.path = path
        self.view = view
        self.subscriptions: set[Subscription] = set()
        self._bounds_version = -1
        self._bounding: Bounding | None = None
        self.showing: Showing | None = audience.provider.showing(self._source(audience.tree), view)

    def advance(self, version: int, steps: Steps) -> None:
        """Show the audience's new tree; queue what changed for every subscription."""
        before = self.showing
        try:
            source = self._source(self.audience.tree)
        except InvalidPath:
            self.showing = None
            if before is not None:
                for subscription in self.subscriptions:
                    subscription.lose_root()
            return
        change: ViewChange | None = None
        if before is None:
            self.showing = self.audience.provider.showing(source, self.view)
        elif source is before.source:
            return
        else:
            fields = any(each.takes_fields for each in self.subscriptions)
            self.showing, change = steps.step(before, source, fields=fields)
        if change is not None and change.is_empty:
            return
        for subscription in self.subscriptions:
            fields = subscription.takes_fields
            subscription.change(version, None if change is None else change.body(fields=fields))

    @property
    def served(self) -> View | None:
        """What is really shown, where it is less than was asked for."""
        if self.showing is None:
            return None
        applied = self.showing.served or self.view
        if self._bounding is not None:
            applied = self._bounding.bound.applied_to(applied)
        return None if applied == self.view else applied

    def _source(self, tree: Node) -> Node:
        """The part of a tree that is watched, as far as the app shows it at once."""
        provider = self.audience.provider
        if self._bounds_version != provider.bounds.version:
            self._bounds_version = provider.bounds.version
            self._bounding = provider.bounds.at(self.path)
        source = subtree(tree, self.path)
        if self._bounding is None:
            return source
        return provider.bounded(self.path, source, self._bounding)

    def shown_at(self, point: ResumePoint) -> Node | None:
        """What a subscription of this group had seen when it was last heard of, if known."""
        tree = self.audience.tree_at(point.version)
        if tree is None:
            return None
        try:
            source = self._source(tree)
        except InvalidPath:
            return None
        return Showing.of(source, self.view, self.audience.provider.limits).shown


class Steps:
    """What each showing becomes in one flush: worked out once for all groups that share it."""

    def __init__(self, showings: MutableMapping[tuple[int, View], Showing]) -> None:
        self._showings = showings
        # With the showing that it begins from, which is held, so that its id stays its own.
        self._taken: dict[tuple[int, int], tuple[Showing, Showing, ViewChange | None]] = {}

    def step(
        self, before: Showing, source: Node, *, fields: bool
    ) -> tuple[Showing, ViewChange | None]:
        """Show a later tree, and tell the change that leads to it, None if it is too much."""
        key = (id(before), id(source))
        if key not in self._taken:
            self._taken[key] = before, *before.next(source, fields=fields)
            self._showings[id(source), before.view] = self._taken[key][1]
        _, after, change = self._taken[key]
        return after, change


def subtree(tree: Node, path: tuple[str, ...]) -> Node:
    """Return the node at a path of ids. Raises InvalidPath."""
    return tree.at("/" + "/".join(path))
