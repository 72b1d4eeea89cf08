"""A compaction that follows a tree through its changes shows what one from scratch shows."""

from __future__ import annotations

import random

import pytest

from sightline.slop.protocol.compaction import Compaction
from sightline.slop.protocol.tree import Node
from support.edits import edited, grown, with_long_list
from support.scratch_compaction import compact_from_scratch
from support.share import share

BLOCK = share(250)
BLOCKS = 40
STEPS = 4

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize("block", range(BLOCKS))
def test_following_a_tree_shows_what_starting_anew_shows(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(seed)
        tree = grown(rng, Node.of("r", "root"), rng.choice([8, 20, 20, 40]))
        if rng.random() < 0.02:
            tree = grown(rng, with_long_list(rng, tree), 40)
        size = sum(1 for _ in tree.walk())
        followed = [Compaction(rng.randrange(1, size + 2)) for _ in range(2)]
        for step in range(STEPS):
            for compaction in followed:
                shown = compaction.of(tree)
                told = f"seed {seed}, step {step}, {compaction.max_nodes} nodes"
                assert shown == compact_from_scratch(tree, compaction.max_nodes), told
                assert compaction.nodes == sum(1 for _ in shown.walk()), told
            for _ in range(rng.choice([1, 1, 2, 5])):
                tree = edited(rng, tree)
