"""A browser's extension as it is deployed, and the bridge that it knows, frame by frame."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from sightline.slop.app.app import App
from sightline.slop.transports.memory import MemoryLink, memory_pair

EXTENSION = "chrome-extension://abcdefghijklmnopabcdefghijklmnop"


class Extension:
    """Announces pages, and passes on what is said to them and by them; each call gets a hello.

    It knows no channels unless it is a `new` one; then each is a connection of its own to the page.
    Else a page is open for everybody, or for nobody.
    """

    def __init__(self, socket: ClientConnection, *, new: bool = False) -> None:
        self.socket = socket
        self.heard: list[dict[str, Any]] = []
        self.pages: dict[str, App] = {}
        self._new = new
        self._open: set[str] = set()
        self._links: dict[tuple[str, str], MemoryLink] = {}
        self._hellos: dict[tuple[str, str], bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def announce(self, key: str, app: App, **provider: Any) -> None:
        """Say that a page is there."""
        self.pages[key] = app
        described = {"id": key, "name": "Page", "transport": "postmessage", **provider}
        await self.send("provider-available", key, tabId=7, provider=described)

    async def withdraw(self, key: str, **more: Any) -> None:
        """Say that a page is not there any more."""
        self._links = {at: link for at, link in self._links.items() if at[0] != key}
        await self.send("provider-unavailable", key, tabId=7, **more)

    async def send(self, kind: str, key: str, **more: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, "providerKey": key, **more}))

    async def run(self) -> None:
        """Do what the bridge says."""
        with contextlib.suppress(ConnectionClosed):
            async for text in self.socket:
                frame = json.loads(text)
                self.heard.append(frame)
                app = self.pages.get(frame["providerKey"])
                if frame["type"] == "relay-open":
                    self._open.add(frame["providerKey"])
                elif frame["type"] == "relay-close" and not self._new:
                    self._open.discard(frame["providerKey"])
                elif app is not None and frame["type"] == "slop-relay":
                    await self._pass_on(app, frame)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass_on(self, app: App, frame: dict[str, Any]) -> None:
        key = frame["providerKey"], frame.get("channel", "") if self._new else ""
        message = frame["message"]
        if key not in self._links:
            if message["type"] != "connect":
                return
            page, self._links[key] = memory_pair()
            self._start(app.handle(page))
            self._start(self._pass_back(*key))
        elif message["type"] != "connect":
            await self._links[key].send([json.dumps(message).encode()])
        elif key in self._hellos:
            await self._answer(*key, self._hellos[key])

    async def _pass_back(self, key: str, channel: str) -> None:
        link = self._links[key, channel]
        with contextlib.suppress(ConnectionClosed):
            while (message := await link.receive()) is not None:
                self._hellos.setdefault((key, channel), message)
                await self._answer(key, channel, message)

    async def _answer(self, key: str, channel: str, message: bytes) -> None:
        more = {"channel": channel} if channel else {}
        if key in self._open:
            await self.send("slop-relay", key, message=json.loads(message), **more)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@asynccontextmanager
async def extension(
    port: int, origin: str = EXTENSION, *, new: bool = False, **options: Any
) -> AsyncIterator[Extension]:
    """Connect an extension to a bridge."""
    url = f"ws://127.0.0.1:{port}/slop-bridge"
    async with connect(url, origin=Origin(origin), proxy=None, **options) as socket:
        made = Extension(socket, new=new)
        running = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await made.end()


@asynccontextmanager
async def deployed_bridge(port: int = 0) -> AsyncIterator[int]:
    """Serve as the deployed bridge does: everything to everybody, known tabs to whoever comes."""
    sockets: set[ServerConnection] = set()
    tabs: dict[str, str] = {}

    async def handle(socket: ServerConnection) -> None:
        sockets.add(socket)
        for announced in tabs.values():
            await socket.send(announced)
        try:
            async for text in socket:
                frame = json.loads(text)
                if frame["type"] == "provider-available":
                    tabs[frame["providerKey"]] = str(text)
                elif frame["type"] == "provider-unavailable":
                    tabs.pop(frame["providerKey"], None)
                broadcast(sockets, text)
        except ConnectionClosed:
            pass
        finally:
            sockets.discard(socket)

    async with serve(handle, "127.0.0.1", port) as server:
        yield next(iter(server.sockets)).getsockname()[1]
