"""Compaction from scratch: every node looked at, one subtree collapsed after the other."""

from __future__ import annotations

from sightline.slop.protocol.shapes import compacted_node
from sightline.slop.protocol.tree import Node


def compact_from_scratch(root: Node, max_nodes: int) -> Node:
    """Collapse the lowest-scoring subtree while there are more than `max_nodes` nodes."""
    nodes: list[Node] = []
    parents: list[int] = []
    distances: list[int] = []
    stack = [(root, -1, 0)]
    while stack:
        node, parent, distance = stack.pop()
        mine = len(nodes)
        nodes.append(node)
        parents.append(parent)
        distances.append(distance)
        stack.extend((child, mine, distance + 1) for child in reversed(node.children))
    below = [0] * len(nodes)
    for at in range(len(nodes) - 1, 0, -1):
        below[parents[at]] += below[at] + 1
    kept = [node.meta.pinned is True for node in nodes]
    for at in range(1, len(nodes)):
        kept[at] |= kept[parents[at]]
    for at in range(len(nodes) - 1, 0, -1):
        kept[parents[at]] |= kept[at]
    scored = sorted(
        (_salience(nodes[at]) - distances[at] * 0.01 - below[at] * 0.001, at)
        for at in range(1, len(nodes))
        if below[at] and distances[at] > 1 and not kept[at]
    )
    hidden: set[int] = set()
    collapsed: set[int] = set()
    for _, at in scored:
        if len(nodes) - len(hidden) <= max_nodes:
            break
        if at not in hidden:
            inside = range(at + 1, at + below[at] + 1)
            hidden.update(inside)
            collapsed.difference_update(inside)
            collapsed.add(at)
    made: dict[int, Node] = {}
    children: dict[int, list[Node]] = {}
    for at in range(len(nodes) - 1, -1, -1):
        if at in hidden:
            continue
        if at in collapsed:
            made[at] = compacted_node(nodes[at])
        elif below[at]:
            made[at] = nodes[at].with_child_list(tuple(reversed(children[at])))
        else:
            made[at] = nodes[at]
        children.setdefault(parents[at], []).append(made[at])
    return made[0]


def _salience(node: Node) -> float:
    salience = node.meta.salience
    return 0.5 if salience is None else salience
