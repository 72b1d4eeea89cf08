"""Every TCP port that Sightline opens on loopback, each with a request that it answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from sightline.adapters.mcp.server import AppsServer, guarded_app
from sightline.context.ledger import Ledger
from sightline.gateway import proxy
from sightline.inspector import server as pages
from sightline.inspector.door import COOKIE, PageDoor
from sightline.inspector.reader import RecordReader
from sightline.slop.app.app import App
from sightline.slop.hub import browser
from sightline.slop.hub.hub import Hub
from sightline.slop.transports.door import loopback_hosts
from sightline.slop.transports.http_connection import PortConnection, port_server
from sightline.slop.transports.sockets import Users
from support.loopback import listening

SECRET = "an-unguessable-part"
# Where a port listens, and the address that a client dials.
WAYS = {
    "IPv4": ("127.0.0.1", "127.0.0.1"),
    "IPv6": ("::1", "::1"),
    "mapped": ("127.0.0.1", "::ffff:127.0.0.1"),
}
UPGRADE = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip
_INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}'
)


@dataclass
class OpenPort:
    """A port that is open: a request with its secret, and the status of the answer.

    `stranger` is the status without the secret. `effects` has an item for each request that the
    port acted on, where that can be seen.
    """

    port: int
    status: int
    stranger: int
    path: str
    lines: tuple[str, ...] = ()
    body: str = ""
    method: str = "GET"
    effects: list[bytes] = field(default_factory=list)
    door: PageDoor | None = None

    def request(self, *, secret: str = SECRET, host: str = "") -> bytes:
        """Return the bytes of the request, with another secret or `Host`."""
        head = [
            f"{self.method} {self.path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}",
            *self.lines, *((f"Content-Length: {len(self.body)}",) if self.body else ()), "", "",
        ]  # fmt: skip
        return ("\r\n".join(head) + self.body).replace(SECRET, secret).encode()


Opener: TypeAlias = Callable[[Path, Users, str], AbstractAsyncContextManager[OpenPort]]


@asynccontextmanager
async def app_port(_: Path, users: Users, host: str) -> AsyncIterator[OpenPort]:
    """The port of `App.serving(port=…)`."""
    app = App("desk", "Desk")
    served = app.serving(
        port=0, host=host, unix=False, discoverable=False, token=SECRET, users=users
    )
    async with served as addresses:
        port = int(addresses[0].rpartition(":")[2].partition("/")[0])
        lines = (f"Authorization: Bearer {SECRET}", *UPGRADE)
        yield OpenPort(port, 101, 401, "/slop", lines)


@asynccontextmanager
async def bridge_port(directory: Path, users: Users, host: str) -> AsyncIterator[OpenPort]:
    """The port of the browser bridge, which listens on IPv4 alone outside tests."""
    bridge = browser.BrowserBridge(directory / "browser.json", port=0, users=users)
    with patch.object(browser, "_HOST", host):
        async with Hub(bridge=bridge):
            await bridge.settled()
            lines = (f"Authorization: Bearer {SECRET}", *UPGRADE)
            opened = OpenPort(bridge.port, 101, 401, "/slop-bridge", lines)
            # A bridge makes its own token.
            bridge._gate.token = SECRET
            yield opened


@asynccontextmanager
async def _running(server: Any, at: socket.socket) -> AsyncIterator[None]:
    running = asyncio.create_task(server.serve(sockets=[at]))
    while not server.started:
        await asyncio.sleep(0)
    try:
        yield
    finally:
        server.should_exit = True
        await running


def _listen(host: str) -> socket.socket:
    return socket.create_server(
        (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
    )


@asynccontextmanager
async def gateway_port(_: Path, users: Users, host: str) -> AsyncIterator[OpenPort]:
    """The gateway's port, in front of a vendor that notes each request."""
    effects: list[bytes] = []

    async def vendor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        effects.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()

    with _listen(host) as at:
        port = at.getsockname()[1]
        async with listening(vendor) as behind:
            upstreams = {"anthropic": f"http://127.0.0.1:{behind}"}
            application = proxy.Gateway(SECRET, port, upstreams, lambda _: None)
            server = proxy.server_of(application, users=users)
            async with _running(server, at):
                path = f"/{SECRET}/anthropic/v1/models"
                yield OpenPort(port, 200, 404, path, effects=effects)
            await application.close()


@asynccontextmanager
async def inspector_port(directory: Path, users: Users, host: str) -> AsyncIterator[OpenPort]:
    """The inspector's port, for a browser that has the cookie."""
    with Ledger(directory / "ports.db") as ledger, _listen(host) as at:
        port = at.getsockname()[1]
        door = PageDoor(SECRET, "room", port)
        door.expect("launch")
        server = pages.server_of(pages.inspector_app(RecordReader(ledger), door), users=users)
        async with _running(server, at):
            cookie = (f"Cookie: {COOKIE}={SECRET}",)
            yield OpenPort(port, 200, 401, "/room/api/sessions", cookie, door=door)


@asynccontextmanager
async def mcp_port(_: Path, users: Users, host: str) -> AsyncIterator[OpenPort]:
    """The port of `sightline mcp --http`."""
    async with Hub() as hub, AppsServer(hub) as apps:
        with _listen(host) as at:
            port = at.getsockname()[1]
            application = guarded_app(apps, SECRET, loopback_hosts(port))
            server = port_server(
                application, users, PortConnection, ws="none", log_level="critical"
            )
            async with _running(server, at):
                lines = (
                    f"Authorization: Bearer {SECRET}", "Content-Type: application/json",
                    "Accept: application/json, text/event-stream",
                )  # fmt: skip
                yield OpenPort(port, 200, 401, "/mcp", lines, _INITIALIZE, "POST")


PORTS: dict[str, Opener] = {
    "app": app_port,
    "bridge": bridge_port,
    "gateway": gateway_port,
    "inspector": inspector_port,
    "mcp": mcp_port,
}
