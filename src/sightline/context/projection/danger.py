"""Which actions of an app are dangerous, in one line of the host's own.

The canonical text has a fixed grammar and no place for a flag on an action; JSON and
YAML bodies show the app's own field. So the text form says it once for each app, below
its tree, in a line that begins as no line of a tree does:

    dangerous actions (the user must approve): cancel, delete (on some nodes)

What an app does not declare is not in it: whether an action runs unasked is decided by
the host's policy, never by this line.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Raw

from sightline.context.projection.escape import mark_word, reveal
from sightline.slop.protocol.text import shown_action
from sightline.slop.protocol.tree import Node, affordances_of, fold

_LEAD: Final = "dangerous actions (the user must approve): "
_MIXED: Final = " (on some nodes)"


def danger_line(root: Node) -> str:
    """Name the dangerous actions of a tree in their order of appearance; empty if it has none.

    The line of a part of a tree is never longer than that of the whole.
    """
    fold(root, _dangers)
    names = [
        _shown(action) + (_MIXED if False in found else "")
        for action, found in _dangers((root,)).items()
        if True in found
    ]
    return _LEAD + ", ".join(names) if names else ""


def _dangers(nodes: tuple[Node, ...]) -> dict[str, frozenset[bool]]:
    """Whether each action of these nodes and of all below them is dangerous, or only sometimes."""
    found: dict[str, frozenset[bool]] = {}
    for node in nodes:
        if node.affordances_json:
            _add(found, _own_dangers(bytes(node.affordances_json)))
        for run in node.runs() if node.child_list else ():
            _add(found, run.known[_dangers].items())
    return found


def _add(found: dict[str, frozenset[bool]], more: Iterable[tuple[str, frozenset[bool]]]) -> None:
    for action, dangers in more:
        known = found.get(action)
        if known is None:
            found[action] = dangers
        elif not dangers <= known:
            found[action] = known | dangers


# Items of one collection tend to have the same actions, byte for byte.
@lru_cache(maxsize=1024)
def _own_dangers(text: bytes) -> tuple[tuple[str, frozenset[bool]], ...]:
    return tuple(
        (item.action, frozenset((bool(item.dangerous),))) for item in affordances_of(Raw(text))
    )


def _shown(action: str) -> str:
    """Spell an action as its node's line does."""
    return reveal(shown_action(mark_word(action)))
