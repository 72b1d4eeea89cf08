"""Children that are made when somebody asks for them.

A resolver is a function for a pattern of paths. It is called when a query names
such a node, or something below it, whose children are not in the tree: the node
is lazy, or shows a window and the query wants another part. What it returns goes
into that one answer; subscriptions do not see it. An invoke on such a node makes it
again, so that what a query showed can be acted on.

A resolver that takes `offset` and `count` is asked for just that part; it may return
`{"items": …, "total": …}` where the total is not declared on the node.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import msgspec

from sightline.slop.app.action import Action
from sightline.slop.app.descriptor import Actions, Ids, describe
from sightline.slop.app.exposure import Exposure
from sightline.slop.app.parameters import Call, Parameters, underlying
from sightline.slop.app.pattern import Branch, Pattern
from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.messages import Query
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.tree import Node

WINDOW: Final = 50
# How many children a resolver is asked for when one of them is wanted by its id.
LOOK_UP: Final = 10_000
_KEY: Final = "children"
Hides = Callable[[Ids, Hashable], bool]


class _Resolver(msgspec.Struct, frozen=True):
    function: Callable[..., Any]
    pattern: Pattern
    parameters: Parameters
    windowed: bool


class Resolvers:
    """The resolvers of an app."""

    def __init__(self, patterns: Branch[Action], hides: Hides = lambda *_: False) -> None:
        """Take the actions of the app, and what tells which paths a session is not shown."""
        self._patterns = patterns
        self._hides = hides
        self._branch: Branch[_Resolver] = Branch()

    def add(self, path: str, function: Callable[..., Any]) -> None:
        """Let a function make the children of the nodes that fit a pattern."""
        pattern = Pattern.of(path)
        parameters = Parameters.of(function, placeholders=pattern.names)
        windowed = {"offset", "count"} <= set(inspect.signature(function).parameters)
        resolver = _Resolver(function, pattern, parameters, windowed)
        self._branch.grow(pattern).by_name[_KEY] = resolver

    async def resolve(self, query: Query, tree: Node, session: Hashable) -> tuple[Query, Node]:
        """Return the tree with what the query needs, and the query that is left to answer.

        Raises InvalidPath where the path leads nowhere, and whatever a resolver raises.
        """
        ids = parse_path(query.path)
        tree, _ = await self._walk(ids, tree, session)
        node = tree.at(query.path)
        resolver = None if self._hides(ids, session) else self._branch.find(ids, _KEY)
        # SLOP, scaling: a lazy subtree is resolved when it is asked for.
        if resolver is None or query.depth == 0 or not _lacks(node, query.window):
            return query, tree
        window = query.window or (0, WINDOW)
        filled, _ = await self._children(resolver, node, ids, session, window)
        left = msgspec.structs.replace(query, window=None) if resolver.windowed else query
        return left, tree.change_at(ids, _put(filled))

    async def make(self, ids: Ids, tree: Node, session: Hashable) -> tuple[Node, Actions]:
        """Return the node at a path and the actions of what was made on the way to it.

        Raises InvalidPath where the path leads nowhere, and whatever a resolver raises.
        """
        tree, actions = await self._walk(ids, tree, session)
        return tree.at(format_path(ids)), actions

    async def _walk(self, ids: Ids, tree: Node, session: Hashable) -> tuple[Node, Actions]:
        """Go down a path and make what is missing on it."""
        actions: Actions = {}
        node = tree
        for depth in range(len(ids)):
            if node.child(ids[depth]) is None and not self._hides(ids[:depth], session):
                resolver = self._branch.find(ids[:depth], _KEY)
                if resolver is not None:
                    window = (0, max(WINDOW, min(node.total_children, LOOK_UP)))
                    filled, added = await self._children(
                        resolver, node, ids[:depth], session, window
                    )
                    actions.update(added)
                    tree = tree.change_at(ids[:depth], _put(filled))
            node = tree.at(format_path(ids[: depth + 1]))
        return tree, actions

    async def _children(
        self,
        resolver: _Resolver,
        node: Node,
        ids: Ids,
        session: Hashable,
        window: tuple[int, int],
    ) -> tuple[Node, Actions]:
        """Return the node with the children that its resolver makes, and their actions."""
        offset, count = window
        params = {"offset": offset, "count": count} if resolver.windowed else {}
        holes = resolver.pattern.values(ids)
        call = Call(format_path(ids), "", params, node, session, holes)
        arguments = resolver.parameters.arguments(params, holes, call)
        if inspect.iscoroutinefunction(underlying(resolver.function)):
            given = await resolver.function(**arguments)
        else:
            given = await asyncio.to_thread(resolver.function, **arguments)
        answer = given if isinstance(given, Mapping) else {"items": given}
        described = describe({"items": answer["items"]}, ids, node.id)
        holder = described.node()
        meta = members(node.meta_json)
        if resolver.windowed:
            total = answer.get("total", max(node.total_children, offset + len(holder.children)))
            meta["window"] = text_of([answer.get("offset", offset), len(holder.children)])
        else:
            total = len(holder.children)
            meta.pop("window", None)
        meta["total_children"] = text_of(total)
        filled = node.with_child_list(holder.child_list).with_text("meta", text_of(meta))
        return Exposure(self._patterns).expose_below(filled, ids), described.actions


def _lacks(node: Node, window: tuple[int, int] | None) -> bool:
    """Tell whether the tree does not hold what is asked of this node."""
    if node.is_lazy or node.child_list is None:
        return True
    if window is None:
        return False
    first = node.meta.window[0] if node.meta.window is not None else 0
    last = min(window[0] + window[1], node.total_children)
    return window[0] < first or last > first + len(node.children)


def _put(node: Node) -> Callable[[Node], Node]:
    return lambda _: node
