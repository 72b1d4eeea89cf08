"""Everything that can be seen now, as one value.

A `World` never changes; the next one shares what is the same. A tree is in it only while
it is current: what an app showed before it was lost is not state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from sightline.hub.descriptor import Descriptor
from sightline.protocol.tree import Node

__all__ = ["AppState", "Status", "World"]

Status: TypeAlias = Literal["connected", "awaiting", "disconnected"]


@dataclass(frozen=True, slots=True)
class AppState:
    """One app that is wanted: what it shows, or why it shows nothing."""

    id: str
    name: str
    status: Status
    since: datetime
    tree: Node | None = None
    version: int = 0
    last_seen: datetime | None = None
    reason: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """All apps by id. `version` goes up by one with every change."""

    version: int = 0
    apps: tuple[AppState, ...] = ()
    available: tuple[Descriptor, ...] = field(default=())

    def app(self, app_id: str) -> AppState | None:
        """Return one app, or None if it is not among those that are wanted."""
        return next((app for app in self.apps if app.id == app_id), None)
