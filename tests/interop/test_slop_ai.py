"""The deployed peer, slop-ai 0.2, reads our snapshots and follows our patches, and we its.

Trees here stay within what its types can hold: the meta keys it knows, no unknown
fields, no nulls, no empty-string keys. Where the list of what deployed mirrors
mishandle (see `sightline.slop.protocol.diff`) leaves no way out, a snapshot is sent.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from slop_ai.diff import diff_nodes
from slop_ai.state_mirror import StateMirror
from slop_ai.types import SlopNode

from sightline.slop.protocol.codec import encode, from_value
from sightline.slop.protocol.diff import diff, needs_snapshot
from sightline.slop.protocol.patch import apply, encode_ops, ops_from_value
from sightline.slop.protocol.tree import Node
from support.share import share
from support.trees import Tree, deep, edited, tree, wide

# Thousands of pairs; the other tests say which lines are covered.
pytestmark = pytest.mark.no_cover

BLOCK = share(5_000)
BLOCKS = 4
META_KEYS = {
    "summary", "salience", "pinned", "changed", "focus", "urgency", "reason", "total_children",
    "window", "created", "updated",
}  # fmt: skip
FIELDS = ("id", "type", "properties", "meta", "affordances", "content_ref", "children")


def holdable(value: Tree) -> Tree:
    """The part of a tree that the peer's types can hold."""
    kept = {name: value[name] for name in FIELDS if value.get(name) is not None}
    if "properties" in kept:
        kept["properties"] = {
            key: member for key, member in kept["properties"].items() if key and member is not None
        }
    if "meta" in kept:
        kept["meta"] = {
            key: member
            for key, member in kept["meta"].items()
            if key in META_KEYS and member is not None
        }
    if "affordances" in kept:
        kept["affordances"] = [_affordance(item) for item in kept["affordances"]]
    if "children" in kept:
        kept["children"] = [holdable(child) for child in kept["children"]]
    return kept


def _affordance(value: dict[str, Any]) -> dict[str, Any]:
    """It drops a flag that is false, and what it does not know."""
    known = {name: value[name] for name in ("action", "params") if name in value}
    return known | ({"dangerous": True} if value.get("dangerous") else {})


def pair_for_the_peer(rng: random.Random) -> tuple[Tree, Tree]:
    """A tree and what became of it; one in twenty is wide, one in twenty deep."""
    made = rng.random()
    if made < 0.05:
        old = wide(rng)
    elif made < 0.1:
        old = deep(rng, 20)
    else:
        old = tree(rng, rng.choice([2, 3, 3, 4]))
    return holdable(old), holdable(edited(rng, old))


def as_seen_by_the_peer(value: Tree) -> Any:
    return SlopNode.from_dict(value).to_dict()


def test_the_peer_reads_our_snapshots() -> None:
    for seed in range(500):
        value = holdable(tree(random.Random(seed)))
        snapshot = json.loads(encode(from_value(value)))
        assert SlopNode.from_dict(snapshot).to_dict() == value


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_peer_s_mirror_follows_our_patches(block: int) -> None:
    """Every change arrives there: as a patch, or as a snapshot where the root itself changes so."""
    followed = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        old_value, new_value = pair_for_the_peer(random.Random(seed))
        old, new = from_value(old_value), from_value(new_value)
        ops = diff(old, new)
        if needs_snapshot(old, ops):
            continue
        mirror = mirror_of(old)
        mirror.apply_patch({"ops": json.loads(encode_ops(ops)), "version": 2, "seq": 1})
        assert mirror.get_tree().to_dict() == as_seen_by_the_peer(new_value), f"seed {seed}"
        followed += 1
    assert followed > 0.7 * BLOCK, "too few of the changes were sent as patches"


def mirror_of(tree: Node) -> StateMirror:
    return StateMirror({"tree": json.loads(encode(tree)), "version": 1, "seq": 0})


def test_the_peer_s_mirror_would_be_lost_with_operations_on_whole_fields() -> None:
    """What is kept from it: else the test above would show nothing."""
    lost = 0
    for seed in range(300):
        old_value, new_value = pair_for_the_peer(random.Random(seed))
        old, new = from_value(old_value), from_value(new_value)
        ops = diff(old, new, fields=True)
        mirror = mirror_of(old)
        mirror.apply_patch({"ops": json.loads(encode_ops(ops)), "version": 2, "seq": 1})
        try:
            lost += mirror.get_tree().to_dict() != as_seen_by_the_peer(new_value)
        except AttributeError:  # a field holds what it cannot
            lost += 1
    assert lost > 30


def test_we_follow_the_peer_s_patches_where_they_are_right() -> None:
    """Its diff forgets types and content references; but for those, we arrive."""
    followed = 0
    for seed in range(2_000):
        old_value, new_value = pair_for_the_peer(random.Random(seed))
        found = diff_nodes(SlopNode.from_dict(old_value), SlopNode.from_dict(new_value))
        ops = ops_from_value([op.to_dict() for op in found])
        result = apply(from_value(old_value), ops)
        if as_plain(json.loads(encode(result))) == as_plain(new_value):
            followed += 1
        else:
            assert forgets(old_value, new_value), f"seed {seed}"
    assert followed > 1_200


def as_plain(value: Tree) -> Any:
    """A tree without what the peer's diff does not see: order of members, what is empty."""
    kept = {name: member for name, member in value.items() if member not in ({}, [])}
    if "children" in kept:
        kept["children"] = [as_plain(child) for child in kept["children"]]
    return kept


def forgets(old: Tree, new: Tree) -> bool:
    """Whether something changed that the peer's diff does not look at."""
    before = {child["id"]: child for child in old.get("children") or []}
    return any(old.get(name) != new.get(name) for name in ("id", "type", "content_ref")) or any(
        forgets(before[child["id"]], child)
        for child in new.get("children") or []
        if child["id"] in before
    )
