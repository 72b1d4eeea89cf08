"""The two shapes of a node whose subtree is not shown.

A *depth stub* says "there is something here, ask": id, type and meta only. A
*compacted node* says "its subtree had to go": id, type, properties, affordances
and meta. The two are never blurred, and in both `meta.total_children` is the
declared total where the app declared one.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from sightline.slop.protocol.jsontext import members, text_of
from sightline.slop.protocol.tree import Node

_NO_PROPERTIES: Final = Raw(b"{}")


def depth_stub(node: Node, *, available_actions: bool = False) -> Node:
    """The node as a pointer to itself: id, type and meta."""
    actions = [item.action for item in node.affordances] if available_actions else []
    hints: dict[str, object] = {"available_actions": actions} if actions else {}
    # SLOP, state tree: a depth stub keeps id, type and meta.
    return _with_total(node, Node(node.id, node.type), hints)


def compacted_node(node: Node) -> Node:
    """The node without its subtree and content reference.

    One that has neither properties nor affordances says that it has no properties: a consumer
    tells it from a depth stub, which says nothing of them.
    """
    properties = node.properties_json
    if isinstance(properties, UnsetType) and isinstance(node.affordances_json, UnsetType):
        properties = _NO_PROPERTIES
    # SLOP, state tree: a compacted node drops children and content_ref.
    bare = Node(node.id, node.type, properties, affordances_json=node.affordances_json)
    hints: dict[str, object] = {}
    if not node.meta.summary:
        hints["summary"] = f"{node.total_children} children"
    return _with_total(node, bare, hints)


def _with_total(node: Node, shape: Node, hints: dict[str, object]) -> Node:
    if node.meta.total_children is None:
        hints["total_children"] = len(node.children)
    if not hints:
        return msgspec.structs.replace(shape, meta_json=node.meta_json)
    meta = members(node.meta_json)
    meta.update((name, text_of(value)) for name, value in hints.items())
    return shape.with_text("meta", text_of(meta))
