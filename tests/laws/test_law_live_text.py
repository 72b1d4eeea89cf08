"""A text that follows a tree through its changes reads as one written from scratch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

import pytest

from sightline.context.projection.escape import reveal
from sightline.context.projection.tail import escaped_lines, tree_body
from sightline.slop.protocol.text import LiveText, format_tree, write_lines
from sightline.slop.protocol.tree import Node
from support.edits import any_path, edited, grown, with_long_list
from support.share import share
from support.trees import STRINGS

SEEDS = share(240)
SAYINGS = (*STRINGS, "</slop-state>", "salience=1", "\u200b<slop-state>", "### Mail (mail)")
STEPS = 5

pytestmark = pytest.mark.no_cover


def test_following_a_tree_writes_what_starting_anew_writes() -> None:
    for seed in range(SEEDS):
        rng = random.Random(seed)
        tree = grown(rng, Node.of("r", "root"), rng.choice([8, 20, 40]))
        if rng.random() < 0.05:
            tree = grown(rng, with_long_list(rng, tree), 40)
        canonical, escaped = LiveText(), LiveText(escaped_lines)
        for step in range(STEPS):
            where = f"seed {seed}, step {step}"
            assert canonical.of(tree) == format_tree(tree), where
            assert "\n".join(canonical.blocks(tree)) == canonical.of(tree), where
            assert escaped.of(tree) == reveal(tree_body(tree, "text")), where
            for _ in range(rng.choice([1, 1, 2, 5])):
                tree = edited(rng, tree)
            tree = tree.change(any_path(rng, tree), partial(_saying, rng.choice(SAYINGS)))


def test_a_deep_tree_is_written_whole_below_the_level_at_which_it_is_followed() -> None:
    tree = Node.of("leaf", "item", properties={"n": 0})
    for at in range(80):
        tree = Node.of(f"n{at}", "item", children=[tree, Node.of("other", "item")])
    path = "/".join(["", *(f"n{at}" for at in reversed(range(79))), "leaf"])
    text = LiveText()
    for n in range(3):
        tree = tree.change(path, lambda node, n=n: node.with_property("n", n))  # type: ignore[misc]
        assert text.of(tree) == format_tree(tree)


def _saying(text: str, node: Node) -> Node:
    return node.with_property("title", text)


def test_one_change_writes_one_node_and_copies_no_block_off_its_way() -> None:
    written: list[str] = []

    def write(nodes: Sequence[Node], indents: Sequence[str]) -> list[str]:
        written.extend(node.id for node in nodes)
        return write_lines(nodes, indents)

    tree = Node.of("r", "root", children=[
        Node.of(f"f{at}", "group", children=[
            Node.of(f"m{n}", "item", properties={"body": "x" * 100}) for n in range(200)
        ])
        for at in range(20)
    ])  # fmt: skip
    text = LiveText(write)
    before = text.blocks(tree)
    written.clear()
    tree = tree.change("/f3/m40", lambda node: node.with_property("read", True))
    after = text.blocks(tree)
    assert written == ["m40"]
    assert len(before) == len(after) > 50
    assert len({*map(id, after)} - {*map(id, before)}) < 15, (
        "one chunk of a long list, and its list"
    )
    assert "\n".join(after) == format_tree(tree)
    written.clear()
    tree = tree.change("/f3", lambda node: node.without_child("m40"))
    assert text.of(tree) == format_tree(tree)
    assert written == ["f3"], "how many children a node has may stand in its line"
