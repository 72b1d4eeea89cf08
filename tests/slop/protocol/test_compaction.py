"""What compaction keeps: with the runs of a tree, and no longer than these."""

from __future__ import annotations

import gc

from sightline.slop.protocol.compaction import Compaction, _Facts, compact
from sightline.slop.protocol.tree import Node
from support.scratch_compaction import compact_from_scratch


def office(folders: int = 30, messages: int = 20) -> Node:
    return Node.of("r", "root", children=[
        Node.of("mail", "view", children=[
            Node.of(f"f{at}", "group", children=[
                Node.of(f"m{n}", "item", children=[Node.of("file", "media")])
                for n in range(messages)
            ])
            for at in range(folders)
        ])
    ])  # fmt: skip


def facts() -> set[int]:
    return {id(found) for found in gc.get_objects() if type(found) is _Facts}  # no proxies


def test_after_one_change_only_the_runs_on_its_way_are_looked_at() -> None:
    tree = office()
    compaction = Compaction(100)
    compaction.of(tree)
    before = facts()
    later = tree.change("/mail/f3/m4", lambda node: node.with_property("read", True))
    compaction.of(later)
    assert len(facts() - before) == 3, "the root's list, the folders', and that of folder f3"


def test_what_is_known_of_a_tree_goes_with_it() -> None:
    gc.collect()
    before = facts()
    tree = office()
    compact(tree, 100)
    assert len(facts() - before) > 600
    for n in range(5):
        tree = tree.change("/mail/f3/m4", lambda node, n=n: node.with_property("n", n))  # type: ignore[misc]
        compact(tree, 100)
    del tree
    assert len(facts()) <= len(before), (
        "nothing waits for a garbage collector that does not look at nodes"
    )


def test_a_tree_far_from_the_last_one_is_compacted_from_the_top_again() -> None:
    few, many = office(4), office(90)
    for at in range(90):
        extra = [Node.of(f"x{n}", "item") for n in range(at)]
        many = many.change(
            f"/mail/f{at}",
            lambda node, extra=extra: node.with_children([*node.children, *extra]),  # type: ignore[misc]
        )
    compaction = Compaction(3000)
    for tree in (few, many, few, many):
        assert compaction.of(tree) == compact_from_scratch(tree, 3000)
