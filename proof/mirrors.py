"""Mirrors over a bad line, and of a provider that lies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from typing import Any

from proof.claim import Claim, Trial
from sightline.errors import SightlineError
from sightline.hub.client import Client
from sightline.protocol.codec import decode, encode
from sightline.protocol.consumer import Consumer, ConsumerEvent, Mirror
from sightline.protocol.limits import DEFAULT
from sightline.protocol.messages import Patch
from sightline.transports.link import Link, LinkClosed
from sightline.transports.memory import memory_pair
from support.convergence import World
from support.trees import value

_ENOUGH = 1000


class _Gullible(Consumer):
    """Takes any patch for the next one, and never asks again."""

    def _take_patch(self, message: Patch) -> list[ConsumerEvent]:
        if mirror := self.mirrors.get(message.subscription):
            mirror.seq = message.seq - 1
            mirror.version = message.base if isinstance(message.base, int) else mirror.version
        return super()._take_patch(message)

    def _ask_again(self, mirror: Mirror) -> None:
        pass


class _GullibleWorld(World):
    def new_consumer(self) -> Consumer:
        return _Gullible(limits=DEFAULT)


def convergence(trial: Trial) -> None:
    """Drop, double, delay, reorder, reconnect, restart; then let the line be good for once."""
    fooled = 0
    while fooled < _ENOUGH:
        fooled += 1
        gullible = _GullibleWorld(trial.random.randrange(2**48))
        gullible.run()
        if gullible.differences():
            break
    trial.control(
        fooled < _ENOUGH, f"without looking at seq a mirror differs, first in sequence {fooled}"
    )
    for _ in range(trial.times(10_000)):
        seed = trial.random.randrange(2**48)
        world = World(seed)
        world.run()
        trial.check(not world.differences(), f"sequence {seed}: {world.differences()}")


class _LyingWorld(World):
    """Between the honest messages come lies; each is one that can be seen through."""

    lies = 0

    def arriving(self, frames: list[bytes], reliable: bool) -> list[bytes]:
        if reliable:
            return frames
        told = []
        for frame in frames:
            told += [frame, *(self.lie() for _ in range(self.rng.choice([0, 0, 1, 2])))]
        return told

    def lie(self) -> bytes:
        self.lies += 1
        rng = self.rng
        own = rng.choice([*self.asked, "nobody"])
        mirror = self.consumer.mirrors.get(own)
        version, seq = (mirror.version, mirror.seq) if mirror else (1, 1)
        ops: list[dict[str, Any]] = [{"op": "replace", "path": "/properties", "value": {"lie": 1}}]
        patch = {
            "type": "patch", "subscription": own, "version": version + 1, "seq": seq + 1,
            "base": version, "ops": ops,
        }  # fmt: skip
        return json.dumps(
            rng.choice(
                [
                    {**patch, "version": version - rng.randrange(1, 5)},
                    {**patch, "version": -1},
                    {**patch, "seq": rng.choice([0, -1, seq, seq + 2, 2**63, 2**70])},
                    {**patch, "base": version + rng.choice([-1, 1, 10**9])},
                    {**patch, "ops": [{"op": "explode", "path": "/"}]},
                    {**patch, "ops": [{"op": "remove", "path": "/no/such/node"}]},
                    {**patch, "ops": [{"op": "move", "path": "/x", "index": -1}]},
                    {**patch, "ops": [{"op": "add", "path": "/a/b/c", "value": value(rng)}]},
                    {**patch, "ops": [{"op": "replace", "path": "/", "value": {"id": "/"}}]},
                    {**patch, "ops": value(rng)},
                    {"type": "snapshot", "id": own, "version": "new", "tree": {}},
                    {"type": "snapshot", "id": own, "version": 1, "seq": 0, "tree": {"id": ""}},
                    {"type": "hello", "provider": {"id": "other", "name": "Other"}},
                    {"type": "result", "id": "i999", "status": "ok", "data": value(rng)},
                    {"type": "event", "name": "x", "data": value(rng)},
                    {"type": rng.choice(["", "sync", "Patch", None, 7]), "id": own},
                    {"type": "batch", "messages": [{"type": "batch", "messages": [1, None, {}]}]},
                ]
            )
        ).encode()


def lies(trial: Trial) -> None:
    """Mix lies into what an honest provider says; then cut them off."""
    told = 0
    for _ in range(trial.times(1000)):
        seed = trial.random.randrange(2**48)
        world = _LyingWorld(seed)
        world.run()
        told += world.lies
        trial.check(not world.differences(), f"world {seed}: {world.differences()}")
        trees = [mirror.tree for mirror in world.consumer.mirrors.values()]
        legal = all(decode(encode(tree)) == tree for tree in trees if tree is not None)
        trial.check(legal, f"world {seed}: a mirror is no legal tree")
    trial.note("lies", f"{told:,}")
    for _ in range(trial.times(50)):
        asyncio.run(_talk_to_a_liar(trial))


async def _talk_to_a_liar(trial: Trial) -> None:
    """A client of somebody who only lies: every request ends, with an answer or an error."""
    seed = trial.random.randrange(2**48)
    servers: list[asyncio.Task[None]] = []

    async def dial() -> Link:
        ours, theirs = memory_pair()
        servers.append(asyncio.create_task(_lie(theirs, random.Random(seed + len(servers)))))
        return ours

    async with asyncio.timeout(60):
        async with Client(dial, handshake_s=0.2, invoke_s=0.2) as client:
            client.subscribe()
            for ask in (client.query("/"), client.invoke("/", "x"), client.query("/a")):
                try:
                    await ask
                except SightlineError as error:
                    trial.check(str(error), f"liar {seed}: an error that says nothing")
                else:
                    trial.check(True, "answered")
        for server in servers:
            server.cancel()
        await asyncio.gather(*servers, return_exceptions=True)


async def _lie(link: Link, rng: random.Random) -> None:
    hello = {"id": "liar", "name": "Liar", "slop_version": "0.1", "capabilities": ["state"]}
    if rng.random() < 0.9:
        await link.send([json.dumps({"type": "hello", "provider": hello}).encode()])
    world = _LyingWorld(rng.randrange(2**32))
    with contextlib.suppress(LinkClosed):
        while (asked := await link.receive()) is not None:
            own = json.loads(asked).get("id", "")
            answers: list[bytes] = [world.lie() for _ in range(rng.randrange(4))]
            if rng.random() < 0.5:
                kind = rng.choice(["result", "snapshot", "error", "patch", "event"])
                answers.append(json.dumps({"type": kind, "id": own, "version": 0}).encode())
            if rng.random() < 0.2:
                answers.append(rng.randbytes(rng.randrange(200)).replace(b"\n", b""))
            await link.send(answers)
            if rng.random() < 0.05:
                return


CLAIMS = (
    Claim("mirrors", "a mirror converges through drop, duplicate, reorder, reconnect, restart",
          convergence),
    Claim("lies", "a provider that lies is seen through, and no request hangs", lies),
)  # fmt: skip
