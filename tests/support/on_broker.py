"""An app on a broker and mirrors of it, while both are cut off, killed and started again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.hub.watch import Watch
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.view import View, project
from sightline.slop.transports.nats_app import serve_nats
from support import nats
from support.edits import edited
from support.live import TREE, LiveApp
from support.partition import Partition, partition

Trouble = Literal["killed", "frozen", "cut off", "app cut off"]
TROUBLES: tuple[Trouble, ...] = ("killed", "frozen", "cut off", "app cut off")
LONGEST_S = 60.0
# Whole, shallow, a part, and few nodes.
VIEWS: tuple[dict[str, object], ...] = ({}, {"depth": 1}, {"path": "/inbox"}, {"max_nodes": 5})


class OnBroker:
    """An app, a broker, and a cut between each of them and the mirrors."""

    def __init__(
        self, seed: int, broker: nats.Server, before_app: Partition, before_mirrors: Partition
    ) -> None:
        self.rng = random.Random(seed)
        self.app = LiveApp()
        self.broker = broker
        self._before_app = before_app
        self._before_mirrors = before_mirrors
        self.address = f"nats://127.0.0.1:{before_mirrors.port}/live"
        self.clients: list[Client] = []
        self.watches: list[tuple[Watch, dict[str, object]]] = []

    def mirror(self, **wanted: object) -> Watch:
        """Begin one more mirror, of a client of its own."""
        client = Client(dial_address(self.address))
        watch = client.subscribe(**wanted)  # type: ignore[arg-type]
        client.start()
        self.clients.append(client)
        self.watches.append((watch, wanted))
        return watch

    def change(self, times: int = 1) -> None:
        """Let the app show something else, which always has what is mirrored."""
        for _ in range(times):
            tree = edited(self.rng, self.app.tree)
            if not any(child.id == "inbox" for child in tree.children):
                tree = tree.with_child(TREE.at("/inbox"))
            self.app.publish(tree)

    async def trouble(self, kind: Trouble) -> None:
        """Let something go wrong, changes happen unseen, and all be well again."""
        begin, end = {
            "killed": (self.broker.kill, self.broker.start),
            "frozen": (self.broker.freeze, self.broker.thaw),
            "cut off": (self._before_mirrors.cut, self._before_mirrors.heal),
            "app cut off": (self._before_app.cut, self._before_app.heal),
        }[kind]
        begin()
        self.change(3)
        await until(lambda: not any(watch.is_current for watch, _ in self.watches))
        self.change(3)
        end()

    def wrong(self) -> list[str]:
        """What is wrong with each mirror that says it is right, and which do not say so."""
        return [
            f"{wanted}: {'differs' if watch.is_current else 'is not current'}"
            for watch, wanted in self.watches
            if not watch.is_current or watch.tree != self._shown(wanted)
        ]

    def _shown(self, wanted: dict[str, object]) -> Node:
        view = {name: value for name, value in wanted.items() if name != "path"}
        source = self.app.tree.at(str(wanted.get("path", "/")))
        return project(source, View(available_actions=True, **view))  # type: ignore[arg-type]

    async def settled(self) -> None:
        """Wait until every mirror is right."""
        await until(lambda: not self.wrong())


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something; what never comes is an error."""
    async with asyncio.timeout(LONGEST_S):
        while not holds():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def on_broker(seed: int = 0, *settings: str) -> AsyncIterator[OnBroker]:
    """An app on a broker of its own, for a block."""
    async with AsyncExitStack() as stack:
        broker = stack.enter_context(nats.server(*settings))
        before_app = await stack.enter_async_context(partition(broker.port))
        before_mirrors = await stack.enter_async_context(partition(broker.port))
        world = OnBroker(seed, broker, before_app, before_mirrors)
        app = world.app
        url = f"nats://127.0.0.1:{before_app.port}"
        await stack.enter_async_context(serve_nats(app.handle, app.provider.info, url))
        try:
            yield world
        finally:
            await asyncio.gather(*(client.close() for client in world.clients))
