"""What a host sees: every app it knows, as one immutable value.

The hub makes a new `World` whenever something changes; the projection reads it.
Trees are the mirrors themselves, so two worlds share what did not change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sightline.slop.protocol.tree import Node

Status: TypeAlias = Literal["connected", "awaiting", "disconnected"]


@dataclass(frozen=True, slots=True)
class AppState:
    """One app that the host is, or was, connected to.

    `awaiting` is connected without a first snapshot. `tree` is what was last seen;
    `last_seen` is when, as UTC in RFC 3339, for an app that is disconnected, and `reason`
    says why it is. One that gives no sign of life counts as disconnected while it is silent.
    """

    id: str
    name: str
    status: Status = "connected"
    tree: Node | None = None
    version: int = 0
    last_seen: str | None = None
    reason: str = ""

    @property
    def live_tree(self) -> Node | None:
        """What is there now: nothing while it is awaited or not connected."""
        return self.tree if self.status == "connected" else None


@dataclass(frozen=True, slots=True)
class AvailableApp:
    """One app that the host could connect to."""

    id: str
    name: str
    transport: str = ""
    source: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class World:
    """All apps, those connected first in the order in which they came."""

    apps: tuple[AppState, ...] = ()
    available: tuple[AvailableApp, ...] = field(default=())

    def app(self, app_id: str) -> AppState | None:
        """Return the app with this id, or None."""
        return next((app for app in self.apps if app.id == app_id), None)
