"""Which actions of an app are dangerous, in one line of the host's own.

The canonical text has a fixed grammar and no place for a flag on an action; JSON and
YAML bodies show the app's own field. So the text form says it once for each app, below
its tree, in a line that begins as no line of a tree does:

    dangerous actions (the user must approve): cancel, delete (on some nodes)

What an app does not declare is not in it: whether an action runs unasked is decided by
the host's policy, never by this line.
"""

from __future__ import annotations

from typing import Final

from sightline.context.projection.escape import mark_word, reveal
from sightline.slop.protocol.text import shown_action
from sightline.slop.protocol.tree import Node

__all__ = ["danger_line"]

_LEAD: Final = "dangerous actions (the user must approve): "
_MIXED: Final = " (on some nodes)"


def danger_line(root: Node) -> str:
    """Name the dangerous actions of a tree in their order of appearance; empty if it has none.

    The line of a part of a tree is never longer than that of the whole.
    """
    is_dangerous: dict[str, set[bool]] = {}
    for node in root.walk():
        for affordance in node.affordances if node.affordances_json else ():
            is_dangerous.setdefault(affordance.action, set()).add(bool(affordance.dangerous))
    names = [
        _shown(action) + (_MIXED if False in found else "")
        for action, found in is_dangerous.items()
        if True in found
    ]
    return _LEAD + ", ".join(names) if names else ""


def _shown(action: str) -> str:
    """Spell an action as its node's line does."""
    return reveal(shown_action(mark_word(action)))
