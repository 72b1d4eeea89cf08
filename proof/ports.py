"""Another user of the machine at every port of loopback, with the whole secret of each.

Each port is opened for real. Another user connects by IPv4, by IPv6 and by an address that IPv6
maps, reads the answer, or closes or resets the connection as soon as the request is sent. Only
root can be two users: elsewhere the claim checks that the port's own user gets in.
"""

from __future__ import annotations

import asyncio
import os

from proof.claim import Claim, Trial
from support.ports import PORTS, WAYS, OpenPort
from support.stranger import NOBODY, knock_as

IS_ROOT = os.getuid() == 0


def tried(trial: Trial) -> None:
    """Try each port in each way, and as a control with `users="any"`."""
    seen = asyncio.run(_ports(trial))
    if IS_ROOT:
        trial.control(seen == len(PORTS) * len(WAYS), f'with users="any": {seen} got in')
    else:
        trial.note("another user", "not tried: takes root")


async def _ports(trial: Trial) -> int:
    """Return how often another user got in where other users are allowed."""
    admitted = 0
    for way in WAYS:
        admitted += sum(await asyncio.gather(*(_port(trial, name, way) for name in PORTS)))
    return admitted


async def _port(trial: Trial, name: str, way: str) -> bool:
    listens, dials = WAYS[way]

    async def knock(uid: int, at: OpenPort) -> str:
        return await asyncio.to_thread(knock_as, uid, dials, at.port, at.request())

    async with PORTS[name](trial.directory(name), "own", listens) as at:
        for number in range(trial.times(20) if IS_ROOT else 0):
            answer = await knock(NOBODY, at)
            trial.check(" 403 " in answer, f"{name} by {way}: {answer!r:.80}")
            # The loop stands still meanwhile: nobody holds the other end when it is accepted.
            resets = bool(number % 2)
            knock_as(NOBODY, dials, at.port, at.request(), reads=False, resets=resets)
        answer = await knock(os.getuid(), at)
        is_served = f" {at.status} " in answer and len(at.effects) == (name == "gateway")
        trial.check(is_served, f"{name} by {way}, own user: {len(at.effects)} {answer!r:.80}")
    if not IS_ROOT:
        return False
    async with PORTS[name](trial.directory(name), "any", listens) as at:
        return f" {at.status} " in await knock(NOBODY, at)


CLAIMS = (
    Claim("ports", "another user of the machine with the secret of a port: rejected at every port",
          tried),
)  # fmt: skip
