"""The provider's side of the protocol, for one app and all its connections. Pure.

*Theory of operation.* The app publishes trees, one per *audience* (an app without
sessions has one audience; with sessions, each session that sees its own tree is
one). Nothing is sent until `flush`: then the version goes up by one, and every
*group* of subscriptions (equal audience, path and view) projects its part of the
new tree once, diffs it once against what it showed before and encodes the
operations once; each subscriber gets those bytes behind a small head with its own
id and seq. So a change costs per group, and per further subscriber a few bytes.

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
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from sightline.errors import InvalidPath, TooLarge
from sightline.protocol.codec import encode
from sightline.protocol.connection import Connection, Subscription
from sightline.protocol.diff import diff, needs_snapshot
from sightline.protocol.messages import ProviderInfo, ResumePoint
from sightline.protocol.patch import encode_ops
from sightline.protocol.tree import Node
from sightline.protocol.view import Projector, View, project

__all__ = ["CAPABILITIES", "Audience", "Group", "Provider", "ProviderLimits"]

CAPABILITIES: Final = (
    "state",
    "patches",
    "affordances",
    "attention",
    "windowing",
    "x-base",
    "x-resume",
    "x-pause",
    "x-retain",
    "x-actions-hint",
    "x-served",
)


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """What a provider takes from one connection and keeps for it."""

    message_bytes: int = 1024 * 1024
    snapshot_bytes: int = 16 * 1024 * 1024
    snapshot_nodes: int = 50_000
    subscriptions: int = 64
    invocations: int = 64
    patch_ops: int = 1024
    # With what is on its way out, a stalled reader costs less than 128 KiB.
    queue_bytes: int = 64 * 1024
    kept_versions: int = 256


class Provider:
    """An app's trees, and everyone who watches them."""

    def __init__(
        self, info: ProviderInfo, tree: Node, limits: ProviderLimits | None = None
    ) -> None:
        self.info = info
        self.limits = limits or ProviderLimits()
        self.version = 0
        # Whether the app makes nodes when they are asked for, beyond those in its tree.
        self.makes_nodes = False
        self.ready: set[Connection] = set()
        self._audiences: dict[Hashable, Audience] = {}
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

    def connect(self, audience: Hashable = None) -> Connection:
        """Begin a connection that sees this audience's tree, which must have been published."""
        return Connection(self, self._audiences[audience])

    def drop_audience(self, audience: Hashable) -> None:
        """Forget a tree that nobody is connected to any more."""
        known = self._audiences.get(audience)
        if known is not None and not known.groups:
            del self._audiences[audience]

    @property
    def is_dirty(self) -> bool:
        """Whether a published tree has not been told yet."""
        return any(audience.is_dirty for audience in self._audiences.values())

    def flush(self) -> None:
        """Tell subscribers what changed since the last flush, if anything did."""
        dirty = [audience for audience in self._audiences.values() if audience.is_dirty]
        if dirty:
            self.version += 1
            for audience in dirty:
                audience.advance(self.version)

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
        self.groups: dict[tuple[tuple[str, ...], View], Group] = {}
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

    def group(self, path: tuple[str, ...], view: View) -> Group:
        """Return the group for a path and view. Raises InvalidPath where nothing is there."""
        key = (path, view)
        group = self.groups.get(key)
        if group is None:
            group = Group(self, path, view)
            self.groups[key] = group
        return group

    def leave(self, subscription: Subscription) -> None:
        """End a subscription's part in its group."""
        group = subscription.group
        group.subscriptions.discard(subscription)
        if not group.subscriptions:
            self.groups.pop((group.path, group.view), None)


class Group:
    """The subscriptions that see the same thing."""

    def __init__(self, audience: Audience, path: tuple[str, ...], view: View) -> None:
        self.audience = audience
        self.path = path
        self.view = view
        self.subscriptions: set[Subscription] = set()
        self._projector = Projector(view)
        self.shown: Node | None = self._projector.project(subtree(audience.tree, path))
        self._encoded: bytes | None = None
        self._served: View = view

    def advance(self, version: int) -> None:
        """Show the audience's new tree; queue what changed for every subscription."""
        before = self.shown
        try:
            self.shown = self._projector.project(subtree(self.audience.tree, self.path))
        except InvalidPath:
            self.shown = None
        if self.shown is before:
            return
        self._encoded = None
        if self.shown is None:
            for subscription in self.subscriptions:
                subscription.lose_root()
            return
        ops = None if before is None else self.encoded_ops(before)
        if ops == b"[]":
            return
        for subscription in self.subscriptions:
            subscription.change(version, ops)

    def encoded_ops(self, before: Node) -> bytes | None:
        """The operations from an earlier view to this one, or None if a snapshot is better."""
        assert self.shown is not None  # noqa: S101 - callers have looked
        ops = diff(before, self.shown)
        limits = self.audience.provider.limits
        if len(ops) > limits.patch_ops or needs_snapshot(ops):
            return None
        encoded = encode_ops(ops)
        return encoded if len(encoded) <= limits.snapshot_bytes else None

    def encoded_tree(self) -> bytes:
        """The view as JSON, encoded once for all. Raises TooLarge, saying what to ask for."""
        assert self.shown is not None  # noqa: S101 - callers have looked
        if self._encoded is None:
            limits = self.audience.provider.limits
            if _has_more_than(self.shown, limits.snapshot_nodes):
                self._bound_nodes(limits.snapshot_nodes)
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
        return None if self._served == self.view else self._served

    def shown_at(self, point: ResumePoint) -> Node | None:
        """What a subscription of this group had seen when it was last heard of, if known."""
        tree = self.audience.tree_at(point.version)
        if tree is None:
            return None
        try:
            return project(subtree(tree, self.path), self._served)
        except InvalidPath:
            return None

    def _bound_nodes(self, max_nodes: int) -> None:
        self._served = replace(self.view, max_nodes=max_nodes)
        self._projector = Projector(self._served)
        self.shown = self._projector.project(subtree(self.audience.tree, self.path))
        if _has_more_than(self.shown, max_nodes):
            raise TooLarge(
                f"this view has more than {max_nodes} nodes, which no rule allows to collapse: "
                "ask for less depth or a window"
            )


def subtree(tree: Node, path: tuple[str, ...]) -> Node:
    """Return the node at a path of ids. Raises InvalidPath."""
    return tree.at("/" + "/".join(path))


def _has_more_than(node: Node, count: int) -> bool:
    return next(islice(node.walk(), count, None), None) is not None
