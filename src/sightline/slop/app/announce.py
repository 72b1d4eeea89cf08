"""Serve an app to other programs: a Unix socket, a WebSocket or a broker, and a descriptor file.

The Unix socket is for this user alone. A port on loopback is for every user of the machine, so
who comes there shows a token, which is made where none is given, unless the app's author says in
so many words that it is open, perhaps because the app asks itself who comes (`authenticate`).
Who asks the port for `/.well-known/slop` is told where the WebSocket is, and no token.
Who comes by a broker was let in by the broker.

The descriptor file (mode 0600) names one way in: the Unix socket, or the WebSocket and
its token where there is no other. All of it ends with the block.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import msgspec

import sightline.telemetry as telemetry
from sightline.errors import InvalidInput
from sightline.slop.app.javascript import SCRIPT, javascript
from sightline.slop.discovery.descriptor import Descriptor, Transport, Unix, Ws
from sightline.slop.discovery.directory import announced
from sightline.slop.discovery.wellknown import WELL_KNOWN, describe_app
from sightline.slop.protocol.messages import ProviderInfo
from sightline.slop.transports.link import Link
from sightline.slop.transports.nats_url import nats_module
from sightline.slop.transports.unix import serve_unix

_TOKEN_BYTES: Final = 32
_log: Final = telemetry.logger(__name__)


class Air(msgspec.Struct, frozen=True):
    """How an app is to be reached. None is "not this way"; True and port 0 choose one."""

    port: int | None = None
    unix: str | Path | bool = True
    discoverable: bool = True
    host: str = "127.0.0.1"
    token: str | None = None
    origins: Iterable[str] = ()
    hosts: Iterable[str] | None = None
    directory: Path | None = None
    open: bool = False
    nats: str | None = None

    def port_token(self) -> str | None:
        """The token that the port asks for; None if it is open."""
        if self.open and self.token is not None:
            raise InvalidInput("a port that is open asks for no token: choose one of the two")
        if self.open or self.token is not None:
            return self.token
        return secrets.token_urlsafe(_TOKEN_BYTES)


class Addresses(tuple[str, ...]):
    """Where an app is served, the Unix socket first.

    `token` is what its port asks for, if any; `announced_as` is the id by which it is found,
    which has a number behind it where another app has the id already; None if it is not.
    """

    token: str | None
    announced_as: str | None

    def __new__(
        cls, addresses: Iterable[str], token: str | None, announced_as: str | None = None
    ) -> Addresses:
        """Put addresses, the token and the id together."""
        self = super().__new__(cls, addresses)
        self.token = token
        self.announced_as = announced_as
        return self

    def notice(self, name: str) -> str:
        """Write for the person who started the app where it is, and the command that shows it."""
        shown = "" if self.token is None else f" (token: {self.token})"
        where = self.announced_as or self[0]
        needs = self.announced_as is None and self[0].startswith("ws") and self.token is not None
        see = f"{'SIGHTLINE_TOKEN=… ' if needs else ''}sightline watch {where}"
        return f"{name} is at {', '.join(self)}{shown}\nsee it with: {see}\n"


@asynccontextmanager
async def on_air(
    handle: Callable[[Link], Awaitable[None]],
    info: ProviderInfo,
    air: Air,
    *,
    is_ready: Callable[[], bool] = lambda: True,
    version: str | None = None,
    description: str | None = None,
) -> AsyncIterator[Addresses]:
    """Serve while the block runs; gives the addresses. Raises InvalidInput where it cannot."""
    async with AsyncExitStack() as stack:
        addresses: list[str] = []
        token: str | None = None
        ways: list[Transport] = []
        if air.unix is not False:
            path = _socket_path(stack, info.id) if air.unix is True else Path(air.unix).absolute()
            addresses.append(await stack.enter_async_context(serve_unix(handle, path)))
            ways.append(Unix(str(path)))
        if air.port is not None:
            # Loaded by whoever asks for a port: the agent's own apps have none.
            from sightline.slop.transports.websocket import serve_websocket

            token = air.port_token()
            served = serve_websocket(
                handle, air.host, air.port,
                token=token, origins=air.origins, hosts=air.hosts,
                pages={
                    WELL_KNOWN: lambda url: describe_app(info, url, description),
                    SCRIPT: lambda _: javascript("sightline"),
                },
                is_ready=is_ready,
            )  # fmt: skip
            addresses.append(await stack.enter_async_context(served))
            ways.append(Ws(addresses[-1], token))
        if air.nats is not None:
            on_broker = nats_module("nats_app").serve_nats(handle, info, air.nats)
            addresses.append(await stack.enter_async_context(on_broker))
        if not addresses:
            raise InvalidInput("an app needs a port, a Unix socket or a broker to be served at")
        announced_as: str | None = None
        if air.discoverable and ways:
            descriptor = Descriptor(
                info.id, info.name, ways[0], info.capabilities, os.getpid(), version, description
            )
            try:
                announced_as = stack.enter_context(announced(descriptor, air.directory)).stem
            except InvalidInput as error:
                if air.directory is not None:
                    raise
                # Whoever has the address can still come: other users' directories stop nothing.
                _log.warning("%s is not announced: %s", info.id, error)
        yield Addresses(addresses, token, announced_as)


@contextmanager
def told_to_end() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM sets, so that the process can tidy up before it ends.

    A second time ends it at once. A program that takes the signal itself keeps it, and so does
    one whose loop runs in a thread that signals do not come to.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )

    def end() -> None:
        loop.remove_signal_handler(signal.SIGTERM)
        ended.set()

    if is_ours:
        loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield ended
    finally:
        if is_ours:
            loop.remove_signal_handler(signal.SIGTERM)


def _socket_path(stack: AsyncExitStack, app_id: str) -> Path:
    """A socket path that only this user can reach, for as long as the app runs."""
    home = stack.enter_context(tempfile.TemporaryDirectory(prefix="slop-"))
    return Path(home) / f"{app_id[:40]}.sock"
