"""Put an app on the air: a WebSocket, a Unix socket, and a note where consumers look.

The note (a descriptor file) names one way in: the Unix socket, which only this user
can open, or the WebSocket where there is no other. All of it ends with the block.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import InvalidInput
from sightline.hub.descriptor import Descriptor, Transport, Unix, Ws
from sightline.hub.discovery import announced
from sightline.protocol.messages import ProviderInfo
from sightline.transports.link import Link
from sightline.transports.unix import serve_unix
from sightline.transports.websocket import serve_websocket

__all__ = ["Air", "on_air"]


@dataclass(frozen=True, slots=True)
class Air:
    """How an app is to be reached. None is "not this way"; True and port 0 choose a place."""

    port: int | None = 0
    unix: str | Path | bool = True
    discoverable: bool = True
    host: str = "127.0.0.1"
    token: str | None = None
    origins: Iterable[str] = ()
    hosts: Iterable[str] | None = None
    directory: Path | None = None


@asynccontextmanager
async def on_air(
    handle: Callable[[Link], Awaitable[None]],
    info: ProviderInfo,
    air: Air,
    *,
    version: str | None = None,
    description: str | None = None,
) -> AsyncIterator[tuple[str, ...]]:
    """Serve while the block runs; gives the addresses. Raises InvalidInput where it cannot."""
    async with AsyncExitStack() as stack:
        addresses: list[str] = []
        ways: list[Transport] = []
        if air.unix is not False:
            path = _socket_path(stack, info.id) if air.unix is True else Path(air.unix).absolute()
            addresses.append(await stack.enter_async_context(serve_unix(handle, path)))
            ways.append(Unix(str(path)))
        if air.port is not None:
            served = serve_websocket(
                handle, air.host, air.port,
                token=air.token, origins=air.origins, hosts=air.hosts,
            )  # fmt: skip
            addresses.append(await stack.enter_async_context(served))
            ways.append(Ws(addresses[-1]))
        if not ways:
            raise InvalidInput("an app needs a port or a Unix socket to be served at")
        if air.discoverable:
            descriptor = Descriptor(
                info.id, info.name, ways[0], info.capabilities, os.getpid(), version, description
            )
            stack.enter_context(announced(descriptor, air.directory))
        yield tuple(addresses)


def _socket_path(stack: AsyncExitStack, app_id: str) -> Path:
    """A place that only this user can reach, for as long as the app runs."""
    home = stack.enter_context(tempfile.TemporaryDirectory(prefix="slop-"))
    return Path(home) / f"{app_id[:40]}.sock"
