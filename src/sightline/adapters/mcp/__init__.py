"""The Model Context Protocol: every app as one server of it, each server an app. Extra `mcp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline._lazy import lazily

if TYPE_CHECKING:
    from sightline.adapters.mcp.server import AppsServer, guarded_app

__all__ = ["AppsServer", "guarded_app"]

__getattr__, __dir__ = lazily(__name__, {"sightline.adapters.mcp.server": "AppsServer guarded_app"})
