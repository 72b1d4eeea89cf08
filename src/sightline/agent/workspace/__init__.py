"""A directory as an app: git status, files, search, and, with approval, edits and commands."""

from __future__ import annotations

from sightline.agent.workspace.workspace import Workspace

__all__ = ["Workspace"]
