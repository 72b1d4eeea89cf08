"""The live requirements hold for a real app over every transport, in Python and in JavaScript.

The small provider of the tests takes part once, so that a difference between the two
shows whether the app or the machine below it is at fault.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from sightline.slop.transports.link import Outgoing
from sightline.slop.transports.websocket import WebSocketLink, connect_websocket
from support import node_app, real, web
from support.live import TRANSPORTS, served
from support.wire import Wire

APPS = (*(f"app-{transport}" for transport in (*TRANSPORTS, "asgi")), "js-stdio")
PROVIDERS = ("machine-memory", *APPS)


class BinaryLink(WebSocketLink):
    """Sends what is not text in binary frames: a web server reads text before the app does."""

    async def send(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            assert isinstance(message, bytes)
            try:
                message.decode()
            except UnicodeDecodeError:
                await self._socket.send(message, text=False)
            else:
                await super().send([message])


@pytest.fixture(params=PROVIDERS)
async def wire(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Wire]:
    """A connection over each transport, its hello not yet read."""
    kind, _, transport = request.param.partition("-")
    async with contextlib.AsyncExitStack() as stack:
        if transport == "asgi":
            app = real.Mailbox().app
            at = await stack.enter_async_context(web.served(app.asgi()))
            plain = await connect_websocket(f"ws://{at}/slop")
            link = BinaryLink(plain._socket, plain.peer)
            stack.push_async_callback(app.close)
            stack.push_async_callback(link.close)
            yield Wire(link)
            return
        mailbox = None if kind == "machine" else real.Mailbox().app
        commands = {"machine": (), "app": real.command(), "js": node_app.mailbox_command()}
        dial = await stack.enter_async_context(served(transport, tmp_path, mailbox, commands[kind]))
        ours = await dial()
        stack.push_async_callback(ours.close)
        yield Wire(ours)
