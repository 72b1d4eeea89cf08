"""Keep the objects of an old tree wherever a new one says the same.

`share(old, new) == new`, and every subtree of the result that equals the one at
the same path in `old` *is* the one in `old`. After it, comparing the two trees
costs what changed, not what is there.
"""

from __future__ import annotations

from operator import is_
from typing import Final

from sightline.slop.protocol.pieces import Steps, finish
from sightline.slop.protocol.tree import Node, same_presence

__all__ = ["share", "share_steps"]

_NODES: Final = 256


def share(old: Node, new: Node) -> Node:
    """Return `new`, made of the parts of `old` that did not change."""
    return finish(share_steps(old, new))


def share_steps(old: Node, new: Node) -> Steps[Node]:
    """Like `share`, some nodes at a time; see `pieces`."""
    # Document order: every parent comes before its children, so backwards is bottom-up.
    order: list[tuple[Node | None, Node, int]] = []
    stack: list[tuple[Node | None, Node, int]] = [(old, new, 0)]
    while stack:
        before, after, parent = stack.pop()
        mine = len(order)
        order.append((before, after, parent))
        if not mine % _NODES:
            yield
        if before is not None and before is not after:
            stack.extend(
                (before.child(child.id), child, mine) for child in reversed(after.children)
            )
    results: list[list[Node]] = [[] for _ in order]
    for mine in range(len(order) - 1, -1, -1):
        before, after, parent = order[mine]
        result = after if before is None else _merged(before, after, results[mine][::-1])
        results[parent].append(result)
        if not mine % _NODES:
            yield
    return results[0][-1]


def _merged(before: Node, after: Node, children: list[Node]) -> Node:
    if before is after:
        return before
    unchanged = len(children) == len(before.children) and all(map(is_, children, before.children))
    if not unchanged or not same_presence(before.child_list, after.child_list):
        return after.with_child_list(tuple(children)) if children else after
    return before if before.same_fields(after) else after.with_child_list(before.child_list)
