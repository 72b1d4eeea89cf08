"""Law 2: a mirror fed the messages of a subscription, with any drops, duplicates and reconnects,
ends equal to the provider's projection."""

from __future__ import annotations

import pytest

from support.convergence import World
from support.trees import every_node

BLOCK = 100
BLOCKS = 21


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_mirror_ends_equal_to_the_projection(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        world = World(seed)
        world.run()
        assert world.differences() == [], f"seed {seed}"


def test_the_sequences_reach_every_part_of_the_tree() -> None:
    assert {len(every_node(World(seed).value)) > 10 for seed in range(50)} == {True, False}
