"""WebSockets: for browsers, and for programs that find each other by URL.

One message per frame. A server listens on loopback unless it has a token, and answers
only to who names it by an expected `Host` (a page whose name was pointed at this machine
is refused) and comes from an expected `Origin`, or, like any program that is not a
browser, from none. The token travels as a bearer header, or, where a browser cannot set
one, as the subprotocol `slop.bearer.` + base64url(token) beside `slop`; never in the URL,
which ends up in logs.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import http
import ipaddress
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from sightline.errors import InvalidInput, TimedOut, Unauthorized, Unreachable
from sightline.transports.link import (
    CONSUMER_BYTES,
    PROVIDER_BYTES,
    Handler,
    Handlers,
    LinkClosed,
    Peer,
    why,
)

__all__ = ["SUBPROTOCOL", "WebSocketLink", "connect_websocket", "is_loopback", "serve_websocket"]

SUBPROTOCOL: Final = Subprotocol("slop")
_BEARER: Final = "slop.bearer."
_OPEN_S: Final = 5.0
_CLOSE_S: Final = 1.0
_WRITE_BYTES: Final = 16 * 1024
# A message over the machine's limit is refused there, and the connection lives on. One that
# is this many times over it is not worth reading to its end: the connection closes (1009).
_FAR_OVER: Final = 4
_TOKENS_IN_CLEAR: Final = "a token goes over wss:// only, or to this machine"


class WebSocketLink:
    """A link over a WebSocket, whichever side opened it."""

    def __init__(self, socket: ServerConnection | ClientConnection, peer: Peer) -> None:
        self.peer = peer
        self._socket = socket

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""
        try:
            # Undecoded: bytes that are not UTF-8 are a bad message, not the end of the link.
            return await self._socket.recv(decode=False)
        except ConnectionClosed:
            return None

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""
        try:
            for message in messages:
                await self._socket.send(message, text=True)
        except ConnectionClosed as error:
            raise LinkClosed(str(error)) from error

    async def close(self) -> None:
        """End the link; a waiting `receive` on either side returns None."""
        await self._socket.close()


@contextlib.asynccontextmanager
async def serve_websocket(
    handler: Handler,
    host: str = "127.0.0.1",
    port: int = 0,
    path: str = "/slop",
    *,
    token: str | None = None,
    origins: Iterable[str] = (),
    hosts: Iterable[str] | None = None,
    max_bytes: int = PROVIDER_BYTES,
) -> AsyncIterator[str]:
    """Serve WebSockets while the block runs; gives the address, `ws://host:port/path`.

    `origins` are the pages that may connect, `hosts` the values of the `Host` header that
    are this server; by default the loopback names with the port. Raises InvalidInput for a
    host beyond loopback without a token, or one whose names cannot be known.
    """
    if not is_loopback(host):
        if not token:
            raise InvalidInput(f"{host} is open to other machines: that takes a token")
        if hosts is None:
            raise InvalidInput(f"serving {host} takes the host names that clients will use")
    door = _Door(path, token, frozenset(origins))
    handlers = Handlers(handler)

    async def accept(socket: ServerConnection) -> None:
        await handlers.run(WebSocketLink(socket, door.peer(socket)))

    try:
        server = await serve(
            accept,
            host,
            port,
            process_request=door.check,
            select_subprotocol=_select,
            # Local links gain nothing from it, and each would hold a quarter of a megabyte.
            compression=None,
            open_timeout=_OPEN_S,
            close_timeout=_CLOSE_S,
            max_size=_FAR_OVER * max_bytes,
            max_queue=1,
            write_limit=_WRITE_BYTES,
        )
    except OSError as error:
        raise InvalidInput(f"cannot serve {host}:{port}: {why(error)}") from error
    port = _port(server)
    here = _bracketed(host)
    names = [f"{name}:{port}" for name in (here, "127.0.0.1", "localhost", "[::1]")]
    door.hosts = frozenset(name.lower() for name in (names if hosts is None else hosts))
    async with server:
        yield f"ws://{here}:{port}{path}"


async def connect_websocket(
    url: str, token: str | None = None, *, max_bytes: int = CONSUMER_BYTES
) -> WebSocketLink:
    """Connect to a WebSocket. Raises Unreachable, TimedOut, or Unauthorized where it is refused."""
    try:
        parts = urlsplit(url)  # raises where a bracket is not closed
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"ws", "wss"} or not parts.hostname:
        raise InvalidInput(f"not a WebSocket URL: {url}")
    if token is not None and parts.scheme == "ws" and not is_loopback(parts.hostname):
        raise InvalidInput(f"{url}: {_TOKENS_IN_CLEAR}")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        socket = await _Connect(
            url,
            subprotocols=[SUBPROTOCOL],
            additional_headers=headers,
            compression=None,
            open_timeout=_OPEN_S,
            close_timeout=_CLOSE_S,
            max_size=max_bytes,
            max_queue=1,
            proxy=None,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        if status in {http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN}:
            raise Unauthorized(f"{url}: refused with status {status}") from error
        raise Unreachable(f"{url}: answered with status {status}") from error
    except TimeoutError as error:
        raise TimedOut(f"{url}: no answer within {_OPEN_S:g} s") from error
    except (OSError, InvalidHandshake, InvalidURI) as error:
        reason = why(error) if isinstance(error, OSError) else str(error)
        raise Unreachable(f"{url}: {reason}") from error
    return WebSocketLink(socket, Peer("ws", url))


class _Connect(connect):
    """Stays where it was sent: a redirect would carry the token to another server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Door:
    """Decides who gets in, before the handshake is answered."""

    def __init__(self, path: str, token: str | None, origins: frozenset[str]) -> None:
        self.path = path
        self.token = token
        self.origins = origins
        self.hosts: frozenset[str] = frozenset()

    def check(self, socket: ServerConnection, request: Request) -> Response | None:
        """Refuse a request by answering it; None lets it in."""
        [*hosts] = request.headers.get_all("Host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return socket.respond(http.HTTPStatus.FORBIDDEN, "not this host\n")
        if any(origin not in self.origins for origin in request.headers.get_all("Origin")):
            return socket.respond(http.HTTPStatus.FORBIDDEN, "not from this origin\n")
        if request.path.partition("?")[0] != self.path:
            return socket.respond(http.HTTPStatus.NOT_FOUND, f"the endpoint is {self.path}\n")
        if self.token is not None and not hmac.compare_digest(
            (_token(request) or "").encode(), self.token.encode()
        ):
            return socket.respond(http.HTTPStatus.UNAUTHORIZED, "a bearer token is needed\n")
        return None

    def peer(self, socket: ServerConnection) -> Peer:
        """What is known of who came in."""
        request = socket.request
        address = socket.remote_address
        where = f"{address[0]}:{address[1]}" if address else ""
        if request is None:
            return Peer("ws", where)
        headers = {name.lower(): value for name, value in request.headers.raw_items()}
        return Peer("ws", where, token=_token(request), headers=headers)


def _token(request: Request) -> str | None:
    for value in request.headers.get_all("Authorization"):
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
    for offered in request.headers.get_all("Sec-WebSocket-Protocol"):
        for name in offered.split(","):
            if name.strip().startswith(_BEARER):
                text = name.strip().removeprefix(_BEARER)
                with contextlib.suppress(ValueError):
                    padded = text + "=" * (-len(text) % 4)
                    return base64.urlsafe_b64decode(padded).decode()
    return None


def _select(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return SUBPROTOCOL if SUBPROTOCOL in offered else None


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host name or address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _port(server: Server) -> int:
    port: int = next(iter(server.sockets)).getsockname()[1]
    return port
