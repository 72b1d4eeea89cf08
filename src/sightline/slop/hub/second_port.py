"""An app at one more port: a WebSocket in front of any address, in as many processes as wanted.

Who comes gets a link of its own to the app, and what either side says is passed on as it is. Links
to an app on a broker share what their process has subscribed to, so that relays share out the work
of telling many WebSockets of a change, which one process would do alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sightline.errors import LetGo, SightlineError
from sightline.slop.hub.client import Dial
from sightline.slop.transports.background import end_tasks
from sightline.slop.transports.link import Link, LinkClosed, QuickLink
from sightline.slop.transports.sockets import Users
from sightline.slop.transports.websocket import serve_websocket


@asynccontextmanager
async def serve_relay(dial: Dial, port: int, token: str | None, users: Users) -> AsyncIterator[str]:
    """Serve a dialled app at a port of loopback while the block runs. Yields its address.

    Other processes of this user may serve at the same port: each gets a share of the connections.
    """

    async def relay(link: Link) -> None:
        try:
            far = await dial()
        except SightlineError:
            return  # whoever came sees that the link ends, and tries again
        try:
            passing = [asyncio.create_task(_pass(*pair)) for pair in ((link, far), (far, link))]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(*passing)
        finally:
            await far.close()

    async with serve_websocket(relay, port=port, token=token, users=users, shares_port=True) as url:
        yield url


async def _pass(source: Link, target: Link) -> None:
    quick = target if isinstance(target, QuickLink) else None
    with contextlib.suppress(LinkClosed, LetGo):
        while (message := await source.receive()) is not None:
            if quick is None or not quick.put(message):
                await target.send([message])
