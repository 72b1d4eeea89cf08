"""Nodes of apps as a person types them: `desk`, `desk/inbox/msg-104`, or `/inbox`.

The app's id comes first and the path follows it. With one app there is no doubt which one
is meant, and the path alone is enough.
"""

from __future__ import annotations

from typing import NamedTuple

from sightline.errors import InvalidInput
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World


class AppPath(NamedTuple):
    """A node of an app's tree; `tree` is the whole tree, `path` where the node is."""

    app: AppState
    path: str
    tree: Node

    @property
    def node(self) -> Node:
        return self.tree.at(self.path)


def find_app(world: World, app_id: str) -> AppState:
    """Find a connected app by its id. Raises InvalidInput, naming those that there are."""
    app = world.app(app_id)
    if app is None:
        raise InvalidInput(f"there is no app {app_id[:80]!r}; {_those_of(world)}")
    return app


def find_path(world: World, text: str) -> AppPath:
    """Find a node. Raises InvalidInput for an unknown app, InvalidPath for an unknown node."""
    app, path = _split(world, text)
    if app.tree is None:
        raise InvalidInput(f"{app.id} has shown no state yet ({app.status})")
    found = AppPath(app, path, app.tree)
    _ = found.node
    return found


def _split(world: World, text: str) -> tuple[AppState, str]:
    matching = [app for app in world.apps if text == app.id or text.startswith(f"{app.id}/")]
    if matching:
        app = max(matching, key=lambda app: len(app.id))
        return app, text[len(app.id) :] or "/"
    if text.startswith("/") and len(world.apps) == 1:
        return world.apps[0], text
    if text.startswith("/"):
        raise InvalidInput(f"say in which app: APP{text[:80]}; {_those_of(world)}")
    return find_app(world, text.partition("/")[0]), "/"


def _those_of(world: World) -> str:
    names = ", ".join(app.id for app in world.apps)
    return f"there are {names}" if names else "no app is connected"
