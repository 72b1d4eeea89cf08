"""Hang the actions of patterns on the nodes that they fit.

Only nodes on the way of some pattern are looked at, and of these only the ones
that are not the same objects as last time: where one item of a long list changed,
the rest of the list comes from last time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeAlias

from msgspec import UnsetType

import sightline.telemetry as telemetry
from sightline.slop.app.action import Action
from sightline.slop.app.pattern import Branch
from sightline.slop.protocol.jsontext import read, text_of
from sightline.slop.protocol.siblings import Chunk, Siblings
from sightline.slop.protocol.tree import Node

Branches: TypeAlias = tuple[Branch[Action], ...]
# A chunk of a long list (which is held, so that its id stays its own) and what it became,
# by the chunk and the patterns that led to it.
_Chunks: TypeAlias = dict[tuple[int, ...], tuple[Chunk, Chunk]]
_log: Final = telemetry.logger(__name__)


class Exposure:
    """Adds the actions of an app's patterns to one tree, anew only where it changed."""

    def __init__(self, patterns: Branch[Action]) -> None:
        self._patterns = patterns
        self._source: Node | None = None
        self._result: Node | None = None
        self._chunks: _Chunks = {}
        self._closed: frozenset[int] = frozenset()
        self._turned: frozenset[int] = frozenset()

    def expose_below(self, node: Node, ids: tuple[str, ...]) -> Node:
        """Return a node that is shown once, at a path, with the actions of it and all below it."""
        return self._exposed(node, tuple(self._patterns.at(ids)), None, None, {})

    def forget(self) -> None:
        """Look at everything anew next time: the patterns have changed."""
        self._source = self._result = None
        self._chunks = {}

    def adopt(self, other: Exposure) -> None:
        """Take over what another has made of a tree by the same patterns."""
        self._source, self._result, self._chunks = other._source, other._result, other._chunks

    def expose(self, tree: Node, closed: Collection[Node] = ()) -> Node:
        """Return the tree with the actions that apply to each node; closed ones get none."""
        if self._result is None or tree is not self._source:
            # Whoever gives them holds them, so that their ids stay their own.
            before, self._closed = self._closed, frozenset(map(id, closed))
            self._turned = before ^ self._closed
            fresh: _Chunks = {}
            self._result = self._exposed(tree, (self._patterns,), self._source, self._result, fresh)
            self._source = tree
            self._chunks = fresh
        return self._result

    def _exposed(
        self,
        node: Node,
        branches: Branches,
        old: Node | None,
        past: Node | None,
        fresh: _Chunks,
    ) -> Node:
        if id(node) in self._closed:
            return node
        result = _with_actions(node, branches)
        onward = tuple(branch for branch in branches if branch.goes_on)
        if not onward or not node.child_list:
            return result

        def child_exposed(child: Node) -> Node:
            further = tuple(item for branch in onward for item in branch.into(child.id))
            if not further:
                return child
            before = None if old is None else old.child(child.id)
            became = None if past is None else past.child(child.id)
            if before is child and became is not None and id(child) not in self._turned:
                self._keep(child, further, fresh)
                return became
            return self._exposed(child, further, before, became, fresh)

        children = node.child_list
        if not isinstance(children, Siblings):
            return result.with_child_list(tuple([child_exposed(child) for child in children]))
        chunks: list[Chunk] = []
        way = tuple(map(id, onward))
        for chunk in children.chunks:
            key = (id(chunk), *way)
            kept = self._chunks.get(key)
            if kept is None:
                kept = (chunk, Chunk(tuple([child_exposed(child) for child in chunk.nodes])))
            fresh[key] = kept
            chunks.append(kept[1])
        return result.with_child_list(Siblings(tuple(chunks)))

    def _keep(self, node: Node, branches: Branches, fresh: _Chunks) -> None:
        """Carry over what is remembered of an unchanged node's long list."""
        children = node.child_list
        if isinstance(children, Siblings):
            way = tuple(id(branch) for branch in branches if branch.goes_on)
            for chunk in children.chunks:
                key = (id(chunk), *way)
                if key in self._chunks:
                    fresh[key] = self._chunks[key]


def _with_actions(node: Node, branches: Branches) -> Node:
    wanted: dict[str, Action] = {}
    for branch in branches:
        for name, action in branch.by_name.items():
            wanted.setdefault(name, action)
    if not wanted:
        return node
    shown = [affordance.action for affordance in node.affordances]
    properties = node.properties if any(action.when for action in wanted.values()) else {}
    added = [
        action.affordance
        for name, action in wanted.items()
        if name not in shown and _applies(action, properties)
    ]
    if not added:
        return node
    if not shown:
        return node.with_text("affordances", text_of(added))
    existing = [] if isinstance(node.affordances_json, UnsetType) else read(node.affordances_json)
    return node.with_text("affordances", text_of([*existing, *added]))


def _applies(action: Action, properties: dict[str, Any]) -> bool:
    if action.when is None:
        return True
    try:
        return bool(action.when(properties))
    except Exception:  # noqa: BLE001 - the app's own code; what is not known is not offered
        _log.exception("the condition of action %r failed; it is not offered", action.name)
        return False
