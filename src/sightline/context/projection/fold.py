"""What an app wants to be asked for: a folded node is a stub, but for what is in focus. Pure.

An app may mark a node below its root as `meta.folded`: a catalogue, say, of which one entry is
wanted at a time. A model is shown that it is there, and its summary; the host knows all of it, so
that an action there is decided on as anywhere. What a model focuses on is shown below it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from msgspec import UnsetType

from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.path import parse_path
from sightline.slop.protocol.shapes import depth_stub
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

_MARK: Final = b'"folded"'


def fold(world: World, pins: Mapping[str, Collection[str]]) -> World:
    """Return the world as it is shown: `pins` are the paths in focus, by the ids of their apps."""
    apps = tuple(_folded(app, pins.get(app.id, ())) for app in world.apps)
    same = all(one is other for one, other in zip(apps, world.apps, strict=True))
    return world if same else replace(world, apps=apps)


def _folded(app: AppState, pins: Collection[str]) -> AppState:
    if app.tree is None or not any(map(_is_folded, app.tree.children)):
        return app
    focused = [ids for path in pins if (ids := parse_path(path))]
    children = tuple(
        _stub(node, {ids[1:2] for ids in focused if ids[0] == node.id})
        if _is_folded(node)
        else node
        for node in app.tree.children
    )
    return replace(app, tree=app.tree.with_child_list(children))


def _stub(node: Node, focused: set[tuple[str, ...]]) -> Node:
    """The node without its children, but for those in focus; all of it if it is so itself."""
    if () in focused:
        return node
    stub = depth_stub(node)
    shown = tuple(child for child in node.children if (child.id,) in focused)
    return stub.with_child_list(shown) if shown else stub


def _is_folded(node: Node) -> bool:
    meta = node.meta_json
    if isinstance(meta, UnsetType) or _MARK not in bytes(meta):
        return False
    return members(meta).get("folded") == text_of(True)
