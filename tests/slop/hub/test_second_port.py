"""An app at one more port: the same conversation, shared out between relays."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from sightline.errors import Unauthorized
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.hub.second_port import serve_relay
from sightline.slop.transports.link import Link
from support import nats
from support.on_broker import on_broker, until


@pytest.mark.skipif(bool(nats.lacks()), reason=nats.lacks())
async def test_relays_at_one_port_share_out_the_consumers_of_an_app_on_a_broker() -> None:
    dialled = [0, 0]

    async with on_broker(seed=1) as world, contextlib.AsyncExitStack() as stack:
        dial = dial_address(world.address)

        async def counted(at: int) -> Link:
            dialled[at] += 1
            return await dial()

        first = serve_relay(lambda: counted(0), 0, "secret", "own")
        address = await stack.enter_async_context(first)
        port = int(address.rpartition(":")[2].partition("/")[0])
        await stack.enter_async_context(serve_relay(lambda: counted(1), port, "secret", "own"))
        clients = [Client(dial_address(address, token="secret")) for _ in range(40)]
        watches = [client.subscribe() for client in clients]
        for client in clients:
            await stack.enter_async_context(client)
        await asyncio.gather(*(watch.first(30) for watch in watches))
        assert min(dialled) > 0
        outcome = await clients[0].invoke("/", "count")
        assert outcome.data == {"n": 1}
        await until(lambda: all(watch.tree == world.app.tree for watch in watches))
        await world.trouble("killed")
        await until(lambda: all(w.is_current and w.tree == world.app.tree for w in watches))
        async with Client(dial_address(address, token="guess"), reconnect=False) as stranger:
            with pytest.raises(Unauthorized):
                await stranger.ready()
