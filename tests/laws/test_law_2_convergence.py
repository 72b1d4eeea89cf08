"""Law 2: a mirror fed the messages of a subscription, with any drops, duplicates and reconnects,
ends equal to the provider's projection. Law 10: what it cannot read counts as a change."""

from __future__ import annotations

import pytest

from sightline.slop.protocol.consumer import Consumer, ConsumerEvent, Garbled
from sightline.slop.protocol.messages import BadMessage
from support.convergence import World
from support.share import share
from support.trees import every_node

BLOCK = share(100)
BLOCKS = 21


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_mirror_ends_equal_to_the_projection(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        world = World(seed)
        world.run()
        assert world.differences() == [], f"seed {seed}"


class Careless(Consumer):
    """Takes no notice of what it cannot read."""

    def _take_unreadable(self, error: BadMessage) -> list[ConsumerEvent]:
        return [Garbled(error.reason)]


def test_a_mirror_that_ignores_what_it_cannot_read_is_seen_to_fail() -> None:
    found = 0
    for seed in range(20, 40):
        world = World(seed, consumer=Careless)
        world.run()
        found += any("stays behind" in what for what in world.differences())
    assert found >= 3


def test_a_patch_of_another_life_is_not_taken_for_the_one_that_resumes() -> None:
    """Found by `make prove`: the snapshot was lost, and the numbers of the patch fitted."""
    world = World(105923099440931, steps=(30, 90), unreadable=0)
    world.run()
    assert world.differences() == []


def test_the_sequences_reach_every_part_of_the_tree() -> None:
    assert {len(every_node(World(seed).value)) > 10 for seed in range(50)} == {True, False}
