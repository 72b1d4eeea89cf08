"""Mirrors over a bad line, and of a provider that lies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import msgspec

from proof.claim import Claim, Trial
from sightline.errors import SightlineError
from sightline.slop.hub.client import Client
from sightline.slop.protocol.codec import decode, encode
from sightline.slop.protocol.consumer import Consumer, ConsumerEvent, Garbled, MirrorChanged
from sightline.slop.protocol.messages import BadMessage, Patch
from sightline.slop.protocol.pieces import Steps, Text
from sightline.slop.transports.link import Link, LinkClosed
from sightline.slop.transports.memory import memory_pair
from support.convergence import World
from support.trees import value


class _Deaf(Consumer):
    """Takes any patch for the next one, whatever its seq."""

    def _take_patch(self, message: Patch, ops: Text) -> Steps[list[ConsumerEvent]]:
        if mirror := self.mirrors.get(message.subscription):
            mirror.seq = _seq(message) - 1
            mirror.version = message.base if isinstance(message.base, int) else mirror.version
        return (yield from super()._take_patch(message, ops))


class _Repeating(Consumer):
    """Applies a patch that it has had already once more."""

    def _take_patch(self, message: Patch, ops: Text) -> Steps[list[ConsumerEvent]]:
        mirror = self.mirrors.get(message.subscription)
        if mirror is None or mirror.tree is None or _seq(message) > mirror.seq:
            return (yield from super()._take_patch(message, ops))
        seq, version = mirror.seq, mirror.version
        mirror.base_version, mirror.seq = message.version - 1, _seq(message) - 1
        mirror.version = message.base if isinstance(message.base, int) else version
        happened = yield from super()._take_patch(message, ops)
        mirror.seq, mirror.version = seq, version
        return [
            msgspec.structs.replace(event, version=version)
            if isinstance(event, MirrorChanged)
            else event
            for event in happened
        ]


class _Stubborn(Consumer):
    """Does not ask for a snapshot after a gap."""

    def _take_patch(self, message: Patch, ops: Text) -> Steps[list[ConsumerEvent]]:
        mirror = self.mirrors.get(message.subscription)
        if mirror is not None and _seq(message) > mirror.seq + 1:
            return []
        return (yield from super()._take_patch(message, ops))


class _Careless(Consumer):
    """Takes no notice of what it cannot read."""

    def _take_unreadable(self, error: BadMessage) -> list[ConsumerEvent]:
        return [Garbled(error.reason)]


def _seq(message: Patch) -> int:
    return message.seq if isinstance(message.seq, int) else 0


_BROKEN: dict[str, type[Consumer]] = {
    "ignores seq": _Deaf,
    "applies a patch twice": _Repeating,
    "asks for no snapshot after a gap": _Stubborn,
}
_STEPS = (30, 90)
_WORKERS, _MANY, _CHUNK = 2, 1000, 100
# Worlds of the control of `lies` at every scale. A world fools a mirror that ignores seq with a
# probability of 0.43, so fewer than a fifth of a hundred do with a probability of 1 in 2,000,000.
_LIED_TO = 100
# So many sequences of a broken mirror must show it, out of a hundred.
_SHARE = 10


def _seen_through(broken: type[Consumer], world: Callable[..., World], seeds: list[int]) -> int:
    """Count the sequences that show what is wrong with a mirror."""
    found = 0
    for seed in seeds:
        one = world(seed, steps=_STEPS, consumer=broken)
        one.run()
        found += bool(one.differences())
    return found


def convergence(trial: Trial) -> None:
    """Drop, double, delay, reorder, damage, reconnect, restart; then let the line be good."""
    seeds = [trial.random.randrange(2**48) for _ in range(trial.times(200, least=10))]
    readable = partial(World, unreadable=0)
    shown = {how: _seen_through(broken, readable, seeds) for how, broken in _BROKEN.items()}
    shown["ignores what it cannot read"] = _seen_through(_Careless, World, seeds)
    trial.control(
        all(found * 100 >= _SHARE * len(seeds) for found in shown.values()),
        f"of {len(seeds)} sequences with a broken mirror this many show it: "
        + ", ".join(f"{how} {found}" for how, found in shown.items()),
    )
    run = [trial.random.randrange(2**48) for _ in range(trial.times(10_000))]
    for seed, wrong in zip(run, _in_parallel(run), strict=True):
        trial.check(not wrong, f"sequence {seed}: {wrong}")


def _in_parallel(seeds: list[int]) -> Iterator[list[str]]:
    """What each sequence comes to. Few are run here: a process costs as much as a hundred."""
    if len(seeds) < _MANY:
        yield from map(_differences, seeds)
        return
    with ProcessPoolExecutor(_WORKERS, mp_context=get_context("spawn")) as workers:
        yield from workers.map(_differences, seeds, chunksize=_CHUNK)


def _differences(seed: int) -> list[str]:
    world = World(seed, steps=_STEPS)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, this sequence failed
        return [f"{type(error).__name__}: {error}"]
    return world.differences()


class _LyingWorld(World):
    """Between the honest messages come lies; each is one that can be seen through."""

    def __init__(
        self, seed: int, *, steps: tuple[int, int] = _STEPS, consumer: type[Consumer] = Consumer
    ) -> None:
        super().__init__(seed, steps=steps, consumer=consumer)
        self.lies: set[bytes] = set()

    def told_of(self, frame: bytes) -> dict[str, int]:
        return {} if frame in self.lies else super().told_of(frame)

    def watch(self, frame: bytes) -> None:
        mirrors = self.consumer.mirrors
        before = {own: (mirrors[own].version, mirrors[own].seq) for own in mirrors}
        super().watch(frame)
        for own, mirror in mirrors.items() if frame in self.lies else ():
            if mirror.is_current and before[own] != (mirror.version, mirror.seq):
                self.wrong.append(f"{own} believed {frame!r}")

    def arriving(self, frames: list[bytes], reliable: bool) -> Iterator[bytes]:
        for frame in frames:
            yield frame
            # Made when all before it has arrived: one that repeats a number could be right later.
            for _ in range(0 if reliable else self.rng.choice([0, 0, 1, 2])):
                yield self.lie()

    def lie(self) -> bytes:
        told = self._lie()
        self.lies.add(told)
        return told

    def _lie(self) -> bytes:
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
                    # Not an empty list: that is a change of nothing, which nobody can see through.
                    {**patch, "ops": value(rng) or "nothing"},
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
    seeds = [trial.random.randrange(2**48) for _ in range(_LIED_TO)]
    fooled = _seen_through(_Deaf, _LyingWorld, seeds)
    trial.control(
        fooled * 5 >= _LIED_TO,
        f"a mirror that ignores seq is fooled in {fooled} of {_LIED_TO} worlds",
    )
    for _ in range(trial.times(1000)):
        seed = trial.random.randrange(2**48)
        world = _LyingWorld(seed)
        world.run()
        told += len(world.lies)
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
