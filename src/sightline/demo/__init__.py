"""A small mail and calendar app, as a state tree.

It shows what a well-structured tree looks like: a context node, one view in focus
with a window of its messages, another view with its events, and a third as a stub
with a summary. README, tests and, later, the chat use it.
"""

from __future__ import annotations

from importlib.resources import files

from sightline.slop.protocol.codec import decode
from sightline.slop.protocol.tree import Node

__all__ = ["demo_tree"]


def demo_tree() -> Node:
    """Return the demo app's state."""
    return decode(files(__name__).joinpath("state.json").read_bytes())
