"""share(old, new) says what `new` says, with the objects of `old` wherever it can."""

from __future__ import annotations

import random

from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.rewrite import share
from sightline.slop.protocol.tree import Node
from support.trees import copy_of, pair, tree, wide


def assert_shared(old: Node, new: Node) -> None:
    stack = [(old, new)]
    while stack:
        a, b = stack.pop()
        if a is b:
            continue
        assert a != b, f"{b} was copied, though nothing in it changed"
        stack.extend((before, child) for child in b.children if (before := a.child(child.id)))


def test_it_says_what_the_new_tree_says_and_shares_the_rest() -> None:
    for seed in range(500):
        old_value, new_value = pair(random.Random(seed))
        old, new = from_value(old_value), from_value(new_value)
        shared = share(old, new)
        assert shared == new
        assert_shared(old, shared)


def test_an_equal_tree_is_the_old_one() -> None:
    for seed in range(100):
        value = tree(random.Random(seed))
        old = from_value(value)
        assert share(old, from_value(copy_of(value))) is old
        assert share(old, old) is old


def test_a_long_list_that_did_not_change_is_kept_whole() -> None:
    value = wide(random.Random(1), 1000)
    old = from_value(value)
    renamed = from_value({**copy_of(value), "type": "view"})
    shared = share(old, renamed)
    assert shared.type == "view"
    assert all(a is b for a, b in zip(shared.children, old.children, strict=True))


def test_another_order_is_another_list_of_the_same_objects() -> None:
    old = Node.of("r", "root", children=[Node.of(i, "item") for i in "abc"])
    new = Node.of("r", "root", children=[Node.of(i, "item") for i in "cab"])
    shared = share(old, new)
    assert [child.id for child in shared.children] == ["c", "a", "b"]
    assert all(child is old.child(child.id) for child in shared.children)
