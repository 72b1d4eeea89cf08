"""Keep the objects of an old tree wherever a new one says the same.

`share(old, new) == new`, and every subtree of the result that equals the one at
the same path in `old` *is* the one in `old`. After it, comparing the two trees
costs what changed, not what is there.
"""

from __future__ import annotations

from itertools import zip_longest
from operator import is_
from typing import Final

from sightline.slop.protocol.pieces import Steps, finish
from sightline.slop.protocol.tree import Node, same_presence

_NODES: Final = 256


def share(old: Node, new: Node) -> Node:
    """Return `new`, made of the parts of `old` that did not change."""
    return finish(share_steps(old, new))


def share_steps(old: Node, new: Node) -> Steps[Node]:
    """Like `share`, some nodes at a time; see `pieces`."""
    top = [new]
    # Document order: every parent comes before its children, so backwards is bottom-up. Each with
    # what becomes of its children, and its own place among those of its parent.
    order: list[tuple[Node, Node, list[Node], list[Node], int]] = []
    stack = [(old, new, top, 0)] if old is not new else []
    seen = 0
    while stack:
        before, after, home, at = stack.pop()
        children = list(after.children)
        order.append((before, after, children, home, at))
        for index, (past, child) in enumerate(zip_longest(before.children, children)):
            if past is child or child is None:
                continue
            if past is None or past.id != child.id:
                past = before.child(child.id)
            if past is not None and past is not child:
                stack.append((past, child, children, index))
        seen += 1 + len(children)
        if seen > _NODES:
            seen = 0
            yield
    for before, after, children, home, at in reversed(order):
        home[at] = _merged(before, after, children)
        seen += 1
        if seen > _NODES:
            seen = 0
            yield
    return top[0]


def _merged(before: Node, after: Node, children: list[Node]) -> Node:
    """Make the new node of children that are the old ones wherever they say the same."""
    unchanged = len(children) == len(before.children) and all(map(is_, children, before.children))
    if unchanged and same_presence(before.child_list, after.child_list):
        if before.same_fields(after):
            return before
        children_kept = before.child_list is after.child_list
        return after if children_kept else after.with_child_list(before.child_list)
    if all(map(is_, children, after.children)):
        return after
    return after.with_child_list(tuple(children))
