"""A provider and a consumer with a bad line between them, driven by chance."""

from __future__ import annotations

import random

from sightline.errors import InvalidPath
from sightline.protocol.codec import encode, from_value
from sightline.protocol.connection import Connection, QueryRequested
from sightline.protocol.consumer import Consumer
from sightline.protocol.limits import DEFAULT, ProviderLimits
from sightline.protocol.messages import Filter, ProviderInfo
from sightline.protocol.provider import CAPABILITIES, Provider
from sightline.protocol.view import View, project
from support.trees import edited, every_node, touched, tree


class World:
    """A provider and a consumer with a bad line between them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        # The largest of a few: what has no nodes has no patches.
        some = [tree(self.rng) for _ in range(self.rng.randrange(1, 5))]
        self.value = max(some, key=lambda value: len(every_node(value)))
        self.lives = 0
        self.provider = self.new_provider()
        self.consumer = self.new_consumer()
        self.connection: Connection | None = None
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self.asked: dict[str, tuple[str, View]] = {}
        self.asked[self.consumer.subscribe("/")] = ("/", View())
        for _ in range(self.rng.randrange(3)):
            self.subscribe()

    def new_consumer(self) -> Consumer:
        return Consumer(limits=DEFAULT)

    def new_provider(self) -> Provider:
        self.lives += 1
        capabilities = tuple(c for c in CAPABILITIES if c != "x-actions-hint")
        info = ProviderInfo("app", "App", capabilities=capabilities, epoch=f"life-{self.lives}")
        pick = self.rng.choice
        limits = ProviderLimits(
            kept_versions=pick([2, 8, 64]),
            patch_ops=pick([5, 20, 200]),
            queue_bytes=pick([500, 4000, 64_000]),
        )
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
        change = edited if self.rng.random() < 0.2 else touched
        self.value = change(self.rng, self.value)
        self.value["id"] = "root"
        self.provider.publish(from_value(self.value))

    def exchange(self, *, reliable: bool) -> bool:
        """Let both sides speak once; returns whether anything was said."""
        if self.connection is None:
            return False
        self.down.extend(self.connection.frames_to_send())
        self.up.extend(self.consumer.frames_to_send())
        said = bool(self.down or self.up)
        for frame in self.arriving(self.through(self.down, reliable), reliable):
            self.consumer.receive(frame)
        for frame in self.through(self.up, reliable):
            for request in self.connection.receive(frame):
                assert isinstance(request, QueryRequested)
                self.connection.answer_query(request.query)
        return said

    def arriving(self, frames: list[bytes], reliable: bool) -> list[bytes]:
        """What the consumer gets of what came through: here, just that."""
        return frames

    def through(self, line: list[bytes], reliable: bool) -> list[bytes]:
        if reliable:
            arrived, line[:] = list(line), []
            return arrived
        arrived = []
        stopped = self.rng.randrange(len(line) + 1)  # the rest is delayed
        taken, line[:] = line[:stopped], line[stopped:]
        for frame in taken:
            pick = self.rng.random()
            if pick < 0.2:
                continue
            arrived.append(frame)
            if pick > 0.9:
                arrived.append(frame)
        if self.rng.random() < 0.1:
            self.rng.shuffle(arrived)
        return arrived

    def run(self) -> None:
        # Mostly good hours: a mirror that is never current has no patch to miss.
        for _ in range(self.rng.randrange(10, 60)):
            pick = self.rng.random()
            if pick < 0.4:
                self.change()
                self.provider.flush()
            elif pick < 0.5:
                self.change()
            elif pick < 0.97:
                self.connect()
                self.exchange(reliable=self.rng.random() < 0.5)
            elif pick < 0.99:
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

    def differences(self) -> list[str]:
        """Name every mirror that does not show what the provider shows."""
        now = from_value(self.value)
        found: list[str] = []
        for own, (path, view) in self.asked.items():
            try:
                expected = project(now.at(path), view)
            except InvalidPath:
                continue
            mirror = self.consumer.mirrors[own]
            if mirror.tree is None:
                found.append(f"{own} shows nothing")
            elif encode(mirror.tree) != encode(expected):
                found.append(f"{own} differs at version {mirror.version}")
            elif mirror.version != self.provider.version and mirror.tree != expected:
                found.append(f"{own} is not current")
        return found
