"""Choosing from a tree that changed chooses what choosing from it for the first time does."""

from __future__ import annotations

import random

import pytest

from sightline.context.projection.actions import danger_line
from sightline.context.projection.select import quarter_chars, select
from sightline.context.projection.tail import Format
from sightline.slop.protocol.codec import decode, encode
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support.edits import edited, grown, with_long_list
from support.share import share

BLOCK = share(250)
STEPS = 4
FORMS: list[Format] = ["text", "text", "json", "yaml"]

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize("block", range(8))
def test_what_is_known_of_a_tree_changes_nothing_that_is_chosen(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(seed)
        trees = [grown(rng, Node.of(f"app{at}", "root"), 20) for at in range(rng.choice([1, 1, 2]))]
        if rng.random() < 0.02:
            trees[0] = grown(rng, with_long_list(rng, trees[0]), 40)
        form, budget = rng.choice(FORMS), rng.randrange(20, 500)
        least = rng.choice([None, None, 0.4])
        pins = {tree.id: ["/" + tree.children[0].id, "/not/there"] for tree in trees}
        for _ in range(STEPS):
            known = select(
                world(trees), budget, quarter_chars, form=form, min_salience=least, pins=pins
            )
            # Another function counts the same: nothing is known by it.
            new = select(
                world([decode(encode(tree)) for tree in trees]),
                budget, lambda text: quarter_chars(text),
                form=form, min_salience=least, pins=pins,
            )  # fmt: skip
            assert known == new, f"seed {seed}"
            for tree in trees:
                assert danger_line(tree) == danger_line(decode(encode(tree))), f"seed {seed}"
            trees = [edited(rng, tree) for tree in trees]


def world(trees: list[Node]) -> World:
    return World(tuple(AppState(tree.id, tree.id, tree=tree) for tree in trees))
