"""Mirrors over a broker that is killed, frozen, cut off from them, or cut off from the app."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

from proof.claim import Claim, Trial
from sightline.slop.transports.nats import Broker
from sightline.slop.transports.nats_link import _Feed
from support import nats
from support.on_broker import TROUBLES, VIEWS, on_broker

_AT_ONCE = 4
_MIRRORS = 3


async def _round(trial: Trial, troubles: int) -> None:
    """Let so many troubles happen to one app and its mirrors, one after the other."""
    seed = trial.random.randrange(2**48)
    async with on_broker(seed) as world:
        for wanted in VIEWS * _MIRRORS:
            world.mirror(**wanted)
        await world.settled()
        for _ in range(troubles):
            kind = world.rng.choice(TROUBLES)
            await world.trouble(kind)
            try:
                await world.settled()
            except TimeoutError:
                trial.check(False, f"seed {seed}, {kind}: {world.wrong()}")
                return
            trial.check(True, kind)


async def _without_looking() -> list[str]:
    """What a mirror shows that does not look at versions, when one change was lost."""
    say = Broker.say

    async def loses(self: Broker, subject: str, message: bytes, reply: str = "") -> bool:
        is_lost = message.startswith(b'{"type":"patch"') and b'"lost"' in message
        return is_lost or await say(self, subject, message, reply)

    with patch.object(_Feed, "lose", lambda _: None), patch.object(Broker, "say", loses):
        async with on_broker() as world:
            world.mirror()
            await world.settled()
            for value in ("lost", "found"):
                world.app.publish(world.app.tree.with_property("n", value))
                # What was published before the answer is here before it.
                await world.clients[0].query("/")
            return world.wrong()


def brokers(trial: Trial) -> None:
    """Kill, freeze and cut; change the tree meanwhile; let all be well, and compare."""
    if why := nats.lacks():
        trial.tried += 1
        trial.note("left out", why)
        return
    wrong = asyncio.run(_without_looking())
    trial.control(wrong, f"a mirror that does not look at versions: {wrong}")

    async def run() -> None:
        left = trial.times(100)
        while left:
            now = [troubles for at in range(_AT_ONCE) if (troubles := (left + at) // _AT_ONCE)]
            each = [min(5, troubles) for troubles in now]
            left -= sum(each)
            await asyncio.gather(*(_round(trial, troubles) for troubles in each))

    asyncio.run(run())
    trial.note("mirrors", f"{_MIRRORS * len(VIEWS)} of {len(VIEWS)} views in each")


CLAIMS = (
    Claim("brokers", "a mirror over a broker that dies, freezes or is cut off says so, and is right"
          " again", brokers),
)  # fmt: skip
