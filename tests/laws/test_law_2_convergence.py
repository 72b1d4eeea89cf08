"""Law 2: a mirror fed the messages of a subscription, with any drops, duplicates and reconnects,
ends equal to the provider's projection."""

from __future__ import annotations

import random

import pytest

from sightline.errors import InvalidPath
from sightline.protocol.codec import encode, from_value
from sightline.protocol.connection import Connection, QueryRequested
from sightline.protocol.consumer import Consumer
from sightline.protocol.limits import DEFAULT, ProviderLimits
from sightline.protocol.messages import Filter, ProviderInfo
from sightline.protocol.provider import CAPABILITIES, Provider
from sightline.protocol.view import View, project
from support.trees import edited, every_node, tree

BLOCK = 100
BLOCKS = 21


class World:
    """A provider and a consumer with a bad line between them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.value = tree(self.rng)
        self.lives = 0
        self.provider = self.new_provider()
        self.consumer = Consumer(limits=DEFAULT)
        self.connection: Connection | None = None
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self.asked: dict[str, tuple[str, View]] = {}
        for _ in range(self.rng.randrange(1, 4)):
            self.subscribe()

    def new_provider(self) -> Provider:
        self.lives += 1
        capabilities = tuple(c for c in CAPABILITIES if c != "x-actions-hint")
        info = ProviderInfo("app", "App", capabilities=capabilities, epoch=f"life-{self.lives}")
        limits = ProviderLimits(kept_versions=4, patch_ops=20, queue_bytes=4000)
        return Provider(info, from_value(self.value), limits)

    def subscribe(self) -> None:
        rng = self.rng
        ids = [""] + [node["id"] for node in (self.value.get("children") or ())]
        path = f"/{rng.choice(ids)}"
        depth = rng.choice([-1, -1, 0, 1, 2])
        max_nodes = rng.choice([None, None, 3, 8])
        salience = rng.choice([None, None, 0.3, 0.5])
        own = self.consumer.subscribe(
            path, depth=depth, max_nodes=max_nodes,
            filter=None if salience is None else Filter(min_salience=salience),
        )  # fmt: skip
        self.asked[own] = (path, View(depth, max_nodes, salience))

    def connect(self) -> None:
        if self.connection is None:
            self.connection = self.provider.connect()

    def cut(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.consumer.connection_lost()
        self.down.clear()
        self.up.clear()

    def restart(self) -> None:
        self.cut()
        self.provider = self.new_provider()

    def change(self) -> None:
        self.value = edited(self.rng, self.value)
        self.value["id"] = "root"
        self.provider.publish(from_value(self.value))

    def exchange(self, *, reliable: bool) -> bool:
        """Let both sides speak once; returns whether anything was said."""
        if self.connection is None:
            return False
        self.down.extend(self.connection.frames_to_send())
        self.up.extend(self.consumer.frames_to_send())
        said = bool(self.down or self.up)
        for frame in self.through(self.down, reliable):
            self.consumer.receive(frame)
        for frame in self.through(self.up, reliable):
            for request in self.connection.receive(frame):
                assert isinstance(request, QueryRequested)
                self.connection.answer_query(request.query)
        return said

    def through(self, line: list[bytes], reliable: bool) -> list[bytes]:
        if reliable:
            arrived, line[:] = list(line), []
            return arrived
        arrived = []
        stopped = self.rng.randrange(len(line) + 1)  # the rest is delayed
        taken, line[:] = line[:stopped], line[stopped:]
        for frame in taken:
            pick = self.rng.random()
            if pick < 0.1:
                continue
            arrived.append(frame)
            if pick > 0.9:
                arrived.append(frame)
        if self.rng.random() < 0.1:
            self.rng.shuffle(arrived)
        return arrived

    def run(self) -> None:
        for _ in range(self.rng.randrange(5, 40)):
            pick = self.rng.random()
            if pick < 0.35:
                self.change()
            elif pick < 0.55:
                self.provider.flush()
            elif pick < 0.9:
                self.connect()
                self.exchange(reliable=False)
            elif pick < 0.96:
                self.cut()
            else:
                self.restart()
        self.cut()
        self.connect()
        self.provider.flush()
        for _ in range(100):
            if not self.exchange(reliable=True):
                return
        raise AssertionError("the two sides never stop talking")


@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_mirror_ends_equal_to_the_projection(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        world = World(seed)
        world.run()
        now = from_value(world.value)
        for own, (path, view) in world.asked.items():
            try:
                expected = project(now.at(path), view)
            except InvalidPath:
                continue
            mirror = world.consumer.mirrors[own]
            assert mirror.tree is not None, f"seed {seed}"
            assert encode(mirror.tree) == encode(expected), f"seed {seed}"
            assert mirror.version == world.provider.version or mirror.tree == expected


def test_the_sequences_reach_every_part_of_the_tree() -> None:
    assert {len(every_node(World(seed).value)) > 10 for seed in range(50)} == {True, False}
