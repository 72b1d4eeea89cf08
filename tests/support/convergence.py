"""A provider and a consumer with a bad line between them, driven by chance.

A mirror is held to this. Whatever it shows is what its provider showed at that version.
Whoever hears of a later version has it, or waits for a snapshot, even if what was heard
cannot be read. Whoever hears a patch over a good line ends right, without another connection.
On a new connection, everybody does.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from typing import Any

from sightline.errors import InvalidPath
from sightline.slop.protocol.codec import _from_checked, encode
from sightline.slop.protocol.connection import Connection, QueryRequested
from sightline.slop.protocol.consumer import Consumer, MirrorChanged
from sightline.slop.protocol.limits import DEFAULT, ProviderLimits
from sightline.slop.protocol.messages import Filter, ProviderInfo
from sightline.slop.protocol.provider import CAPABILITIES, Provider
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import View, project
from support.trees import edited, every_node, touched, tree


class World:
    """A provider and a consumer with a bad line between them, for so many steps."""

    def __init__(
        self,
        seed: int,
        *,
        steps: tuple[int, int] = (10, 60),
        levels: tuple[int, ...] = (2, 2, 3, 3, 4),
        consumer: type[Consumer] = Consumer,
        unreadable: float = 0.2,
    ) -> None:
        self.rng = random.Random(seed)
        self.steps = steps
        # Half of the worlds are told of changes as a deployed mirror is.
        self.unknown = ("x-fields",) if seed % 2 else ()
        # The share of messages that arrive damaged, and what each of these was.
        self.unreadable = unreadable
        self.damaged: dict[bytes, bytes] = {}
        # The largest of a few: what has no nodes has no patches.
        deep = self.rng.choice(levels)
        some = [tree(self.rng, deep) for _ in range(self.rng.randrange(1, 5))]
        self.value = max(some, key=lambda value: len(every_node(value)))
        self.node = _from_checked(self.value)  # the generator's trees are legal
        self.lives = self.ticks = 0
        self.shown: dict[int, Node] = {}
        self.wrong: list[str] = []
        self.heard: set[str] = set()
        self.provider = self.new_provider()
        self.consumer = consumer(limits=DEFAULT)
        self.connection: Connection | None = None
        self.down: list[bytes] = []
        self.up: list[bytes] = []
        self.asked: dict[str, tuple[str, View]] = {}
        self.asked[self.consumer.subscribe("/")] = ("/", View())
        for _ in range(self.rng.randrange(3)):
            self.subscribe()

    def new_provider(self) -> Provider:
        self.lives += 1
        left_out = {"x-actions-hint", *self.unknown}
        capabilities = tuple(c for c in CAPABILITIES if c not in left_out)
        info = ProviderInfo("app", "App", capabilities=capabilities, epoch=f"life-{self.lives}")
        pick = self.rng.choice
        limits = ProviderLimits(
            kept_versions=pick([2, 8, 64]),
            patch_ops=pick([5, 200, 200]),
            queue_bytes=pick([500, 64_000, 64_000]),
        )
        provider = Provider(info, self.node, limits)
        self.shown = {provider.version: self.node}
        return provider

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
            if self.rng.random() < 0.8:  # mostly somebody says hello, and is heard
                self.exchange(reliable=True)
                self.exchange(reliable=True)

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
        self.ticks += 1  # something that every later patch overwrites
        self.value["properties"] = {**(self.value.get("properties") or {}), "tick": self.ticks}
        self.show()

    def show(self) -> None:
        """Have the provider show the value."""
        self.node = _from_checked(self.value)  # the generator's trees are legal
        self.provider.publish(self.node)

    def flush(self) -> None:
        self.provider.flush()
        self.note_version()

    def note_version(self) -> None:
        self.shown.setdefault(self.provider.version, self.node)

    def exchange(self, *, reliable: bool) -> bool:
        """Let both sides speak once; returns whether anything was said."""
        if self.connection is None:
            return False
        self.down.extend(self.connection.frames_to_send())
        self.up.extend(self.consumer.frames_to_send())
        said = bool(self.down or self.up)
        arrived = self.spoiled(self.through(self.down, reliable), reliable)
        for frame in self.arriving(arrived, reliable):
            self.watch(frame)
        for frame in self.through(self.up, reliable):
            for request in self.connection.receive(frame):
                assert isinstance(request, QueryRequested)
                self.connection.answer_query(request.query)
            self.note_version()  # a subscription flushes what is published
        return said

    def watch(self, frame: bytes) -> None:
        """Let the consumer have a message, and look at what it shows then."""
        told = self.told_of(frame)
        self.heard.update(told)
        for event in self.consumer.receive(frame):
            if isinstance(event, MirrorChanged) and event.subscription in self.asked:
                then = self.shown.get(event.version)
                if then is None or not self.is_right(event.subscription, event.tree, then):
                    self.wrong.append(f"{event.subscription} was wrong at version {event.version}")
        for own, version in told.items():
            mirror = self.consumer.mirrors[own]
            if mirror.is_current and mirror.version < version:
                self.wrong.append(f"{own} heard of version {version} and stays behind")

    def told_of(self, frame: bytes) -> dict[str, int]:
        """The subscriptions of which a message brings news, and to which version."""
        message = json.loads(self.damaged.get(frame, frame))
        inner = message.get("messages", [message])
        return {
            item["subscription" if item["type"] == "patch" else "id"]: item["version"]
            for item in inner
            if item["type"] in {"patch", "snapshot"}
        }

    def is_right(self, own: str, shown: Node, truth: Node) -> bool:
        """Whether a mirror shows what its subscription shows of a tree; no matter if it is gone."""
        path, view = self.asked[own]
        try:
            expected = project(truth.at(path), view)
        except InvalidPath:
            return True
        return encode(shown) == encode(expected)

    def arriving(self, frames: list[bytes], reliable: bool) -> Iterable[bytes]:
        """What the consumer gets of what came through: here, just that."""
        return frames

    def spoiled(self, frames: list[bytes], reliable: bool) -> list[bytes]:
        """The same messages, some of which nobody can read any more."""
        if reliable or not self.unreadable:
            return frames
        return [
            self.spoil(frame) if self.rng.random() < self.unreadable else frame for frame in frames
        ]

    def spoil(self, frame: bytes) -> bytes:
        rng = self.rng
        at = rng.randrange(len(frame))
        message: dict[str, Any] = json.loads(frame)
        ways: list[object] = [frame[:at], frame[:at] + b"\xff" + frame[at:]]
        if message["type"] in {"patch", "snapshot"}:
            without = {key: value for key, value in message.items() if key != "version"}
            ways += [
                without,
                {**message, "seq": rng.choice([None, 1.0, "1", -1])},
                {**message, "version": rng.choice([None, 1.5, math.nan])},
                {**message, "ops": [math.nan], "tree": {"id": "a/b", "type": "item"}},
                {"type": "batch", "messages": [without]},
            ]
        way = rng.choice(ways)
        told = way if isinstance(way, bytes) else json.dumps(way).encode()
        self.damaged[told] = frame
        return told

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
            if pick > 0.95:
                arrived.append(frame)
            elif pick > 0.75:  # the second one comes behind what is sent later
                line.insert(self.rng.randrange(len(line) + 1), frame)
        if self.rng.random() < 0.1:
            self.rng.shuffle(arrived)
        return arrived

    def run(self) -> None:
        # Mostly good hours: a mirror that is never current has no patch to miss.
        for _ in range(self.rng.randrange(*self.steps)):
            pick = self.rng.random()
            if pick < 0.4:
                self.change()
                self.flush()
            elif pick < 0.5:
                self.change()
            elif pick < 0.97:
                self.connect()
                if self.rng.random() < 0.5:
                    self.ask_again()
                self.exchange(reliable=self.rng.random() < 0.4)
            elif pick < 0.99:
                self.cut()
            else:
                self.restart()
        self.come_right_on_this_connection()
        self.cut()
        self.connect()
        self.flush()
        self.talk()

    def come_right_on_this_connection(self) -> None:
        self.connect()
        self.talk()
        self.ask_again()
        self.talk()
        self.heard.clear()
        for number in range(3):
            self.value["properties"] = {"good": number}
            self.change()
            self.flush()
            self.talk()
        for own in self.heard & self.asked.keys():
            mirror = self.consumer.mirrors[own]
            if mirror.tree is None or not self.is_right(own, mirror.tree, self.node):
                self.wrong.append(f"{own} heard of a change and differs")

    def ask_again(self) -> None:
        """Do what a client does in time where the snapshot does not come: it may be lost."""
        for own, mirror in self.consumer.mirrors.items():
            if not mirror.is_current:
                self.consumer.subscribe_again(own)

    def talk(self) -> None:
        for _ in range(100):
            if not self.exchange(reliable=True):
                return
        raise AssertionError("the two sides never stop talking")

    def differences(self) -> list[str]:
        """Name every mirror that does not show what the provider shows."""
        found = list(self.wrong)
        for own, (path, view) in self.asked.items():
            try:
                expected = project(self.node.at(path), view)
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
