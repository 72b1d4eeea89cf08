"""One view of one tree: projected once, diffed once, encoded once, for all who see it. Pure.

A `Showing` depends on nothing but the tree and the view, so whoever has both may share it:
the subscriptions of one group, and groups of different sessions where these show the very
same object. It never says which session asked first.

A view of more nodes than a snapshot may have is compacted to that many, as if it had been
asked for so. Within the limit compacting changes nothing, so what a subscriber has seen of
a tree can be told from the tree and the view alone, whenever it comes back.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from sightline.errors import TooLarge
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.diff import diff, needs_snapshot
from sightline.slop.protocol.limits import NODE_BYTES, ProviderLimits
from sightline.slop.protocol.outbox import Body
from sightline.slop.protocol.patch import encode_ops
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import Projector, View


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
