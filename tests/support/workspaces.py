"""The app of a directory, for tests."""

from __future__ import annotations

from pathlib import Path

from sightline.agent.workspace import Workspace
from sightline.slop.app.app import App


def workspace_app(root: Path) -> App:
    """Make the app of a directory, with a picture of it taken. Raises InvalidInput."""
    workspace = Workspace(root)
    workspace.look()
    return workspace.app
