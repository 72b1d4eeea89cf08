"""The provider's side of the protocol, for one app and all its connections. Pure.

*Theory of operation.* The app publishes trees, one per *audience* (an app without
sessions has one audience; with sessions, each session that sees its own tree is
one). Nothing is sent until `flush`: then the version goes up by one, and every
*group* of subscriptions (equal audience, path and view) projects its part of the
new tree once, diffs it once against what it showed before and encodes the
operations once; each subscriber gets those bytes behind a small head with its own
id and seq. Groups of different audiences that show the same objects share that work
too: a `Showing` depends on nothing but the tree and the view, and never says which
session asked first. So a change costs per different view, and per further subscriber a
few bytes.

A subscriber that cannot be sent operations (it just came, its reader is slow, its
root changed in a way that deployed mirrors cannot follow, the patch is too long)
is *stale*: its connection sends it a fresh snapshot with `seq` 0 as soon as there
is room. See `connection`.

Old trees are kept for a while, which is cheap, for trees share what did not
change: a subscriber that comes back with the version it has seen gets the
difference to that version instead of a snapshot.

A view of more nodes than a snapshot may have is compacted to that many, as if it had been
asked for so. Within the limit compacting changes nothing, so what a subscriber has seen of
a tree can be told from the tree and the view alone, whenever it comes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import replace
from itertools import islice
from typing import Final
from weakref import WeakValueDictionary

from sightline.errors import InvalidPath, TooLarge
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.connection import Connection, Subscription
from sightline.slop.protocol.diff import diff, needs_snapshot
from sightline.slop.protocol.limits import NODE_BYTES, ProviderLimits
from sightline.slop.protocol.messages import ProviderInfo, ResumePoint
from sightline.slop.protocol.outbox import Body
from sightline.slop.protocol.patch import encode_ops
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import Bounding, Bounds, Projector, View

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
        # What showings became in this flush. With the one that it begins from, which is held, so
        # that its id stays its own.
        self._steps: dict[tuple[int, int], tuple[Showing, Showing, ViewChange | None]] = {}
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
            for audience in dirty:
                audience.advance(self.version)
            self._steps.clear()

    def showing(self, source: Node, view: View) -> Showing:
        """Return what a view shows of a tree, shared with whoever asked for the same before."""
        # A showing holds its tree, so the id is that tree's for as long as it is found here.
        key = (id(source), view)
        found = self._showings.get(key)
        if found is None:
            found = self._showings[key] = Showing.of(source, view, self.limits)
        return found

    def step(
        self, before: Showing, source: Node, *, fields: bool
    ) -> tuple[Showing, ViewChange | None]:
        """Show a later tree, and tell the change that leads to it, None if it is too much.

        In one flush this is worked out once for all groups that share the showing.
        """
        key = (id(before), id(source))
        if key not in self._steps:
            self._steps[key] = before, *before.next(source, fields=fields)
            self._showings[id(source), before.view] = self._steps[key][1]
        _, after, change = self._steps[key]
        return after, change

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

    def advance(self, version: int) -> None:
        """Take the published tree as the one of this version, and tell the groups."""
        self._past.append((version, self.tree))
        for group in self.groups.values():
            group.advance(version)

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

    def advance(self, version: int) -> None:
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
            self.showing, change = self.audience.provider.step(before, source, fields=fields)
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


def subtree(tree: Node, path: tuple[str, ...]) -> Node:
    """Return the node at a path of ids. Raises InvalidPath."""
    return tree.at("/" + "/".join(path))


class Showing:
    """What one view shows of one tree, and the ops that lead to a later one."""

    __slots__ = (
        "__weakref__", "_applied", "_encoded", "_limits", "_most_nodes", "_projector",
        "shown", "source", "view",
    )  # fmt: skip

    def __init__(
        self, source: Node, view: View, limits: ProviderLimits, projector: Projector
    ) -> None:
        """Take a projector that has shown an earlier tree, or none. Use `of` and `next`."""
        self.source = source
        self.view = view
        self.shown = projector.project(source)
        self._limits = limits
        self._applied = projector.view
        self._projector: Projector | None = projector
        self._most_nodes = 0
        self._encoded: bytes | None = None

    @classmethod
    def of(cls, source: Node, view: View, limits: ProviderLimits) -> Showing:
        """Show a tree for the first time."""
        showing = cls(source, view, limits, Projector(view))
        showing._bound(limits.snapshot_nodes + 1)
        return showing

    def next(self, source: Node, *, fields: bool) -> tuple[Showing, ViewChange | None]:
        """Show a later tree; also the change from here to there, None if a snapshot is better.

        `fields` is the kind of operations that will be wanted, of one subscription at least.
        The first later tree gets what this one remembers; if there is a second, it starts anew.
        """
        projector, self._projector = self._projector or Projector(self._applied), None
        later = Showing(source, self.view, self._limits, projector)
        change = ViewChange(self.shown, later)
        body = change.body(fields=fields)
        # No count of the tree: an operation cannot add more nodes than its text has room for.
        limit = self._limits.snapshot_nodes
        most_nodes = limit + 1
        if body is not None:
            most_nodes = self._most_nodes + len(body.data) // NODE_BYTES
        return later, change if later._bound(most_nodes) else None

    def ops_from(self, before: Node, *, fields: bool) -> bytes | None:
        """The operations from an earlier view to this one, or None if a snapshot is better.

        With `fields` they are for a mirror that takes them all, else for deployed ones.
        """
        ops = diff(before, self.shown, fields=fields)
        if len(ops) > self._limits.patch_ops or needs_snapshot(before, ops, fields=fields):
            return None
        encoded = encode_ops(ops)
        return encoded if len(encoded) <= self._limits.snapshot_bytes else None

    def encoded(self) -> bytes:
        """The view as JSON. Raises TooLarge, saying what to ask for."""
        if self._encoded is None:
            limits = self._limits
            if self._most_nodes > limits.snapshot_nodes:
                raise TooLarge(
                    f"this view has more than {limits.snapshot_nodes} nodes, which no rule "
                    "allows to collapse: ask for less depth or a window"
                )
            encoded = encode(self.shown)
            if len(encoded) > limits.snapshot_bytes:
                raise TooLarge(
                    f"this view has {len(encoded)} bytes, more than {limits.snapshot_bytes}: "
                    "ask for less depth, fewer nodes or a window"
                )
            self._encoded = encoded
        return self._encoded

    @property
    def served(self) -> View | None:
        """What is really applied, where it is less than was asked for."""
        return None if self._applied == self.view else self._applied

    def _bound(self, most_nodes: int) -> bool:
        """Keep the view within the limit, given what it has at most; False if that took a cut."""
        limit = self._limits.snapshot_nodes
        known = self._projector.most_nodes if self._projector is not None else None
        most_nodes = most_nodes if known is None else min(most_nodes, known)
        self._most_nodes = most_nodes if most_nodes <= limit else self._counted(limit)
        if self._most_nodes <= limit:
            return True
        wanted = self._applied.max_nodes
        if wanted is None or wanted > limit:
            self._projector = Projector(replace(self.view, max_nodes=limit))
            self._applied = self._projector.view
            self.shown = self._projector.project(self.source)
            self._most_nodes = self._counted(limit)
        return False

    def _counted(self, limit: int) -> int:
        return sum(1 for _ in islice(self.shown.walk(), limit + 1))


class ViewChange:
    """The way from one view to a later one, in operations for either kind of mirror."""

    __slots__ = ("_after", "_before", "_bodies")

    def __init__(self, before: Node, after: Showing) -> None:
        self._before = before
        self._after = after
        self._bodies: dict[bool, Body | None] = {}

    def body(self, *, fields: bool) -> Body | None:
        """What `Showing.ops_from` gives; made when it is first asked for, and once."""
        if fields not in self._bodies:
            ops = self._after.ops_from(self._before, fields=fields)
            self._bodies[fields] = None if ops is None else Body(ops)
        return self._bodies[fields]

    @property
    def is_empty(self) -> bool:
        """Whether both views show the same."""
        return any(body is not None and body.data == b"[]" for body in self._bodies.values())
