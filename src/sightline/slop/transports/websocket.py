"""WebSockets: for browsers, and for programs that find each other by URL.

One message per frame; a long one is fragmented (RFC 6455 §5.4), and handed out whole by every
client. A server listens on loopback unless it has a token, and lets in whom its `door` lets in,
before the handshake is answered.

A server's first message waits until the client has been heard. Sent at once, it may reach the
client in the same piece as the answer to its handshake, and one that looks for messages only
after it has learnt that it is connected (`await`, in node's `ws`) never sees it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, TypeAlias, cast
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus, ProtocolError, WebSocketException
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Event, Side, State
from websockets.typing import Subprotocol

import sightline.slop.transports.door as doors
import sightline.slop.transports.link as links
from sightline.errors import InvalidInput, LetGo, TimedOut, Unauthorized, Unreachable
from sightline.slop.transports.health import WORDS, health_status
from sightline.slop.transports.sockets import Users, user_refusal

# Decides about a request: its path, what it says, and the addresses of our end and of the other.
Judge: TypeAlias = Callable[
    [str, doors.Visitor, tuple[str, int], tuple[str, int]], Awaitable[doors.Refusal | None]
]

# Serves a link until it ends.
Served: TypeAlias = Callable[["WebSocketLink"], Awaitable[None]]

_SLOP: Final = Subprotocol(doors.SUBPROTOCOL)
_LABEL: Final = Subprotocol(doors.LABEL)
_OPEN_S: Final = 5.0
_CLOSE_S: Final = 1.0
# Who does not answer a ping is spoken to all the same, after this.
_HEARD_S: Final = 1.0
# RFC 6455 §5.5: the payload of a control frame has at most 125 bytes, two of them for the code.
_REASON_BYTES: Final = 123
_READ_BYTES: Final = 8 * 1024
# A message over the machine's limit is refused there, and the connection lives on. One that
# is this many times over it is not worth reading to its end: the connection closes (1009).
_FAR_OVER: Final = 4
# Both sides may ask every 20 s whether the other is there, and answer.
_CONTROLS: Final = 100
_CONTROLS_S: Final = 60.0
# The library reports whoever connects and says nothing, with a traceback.
_unheard: Final = logging.getLogger(f"{__name__}.library")
_unheard.setLevel(logging.CRITICAL)
_TOKENS_IN_CLEAR: Final = "a token goes over wss:// only, or to this machine"


class WebSocketLink:
    """A link over a WebSocket, whichever side opened it."""

    def __init__(self, socket: ServerConnection | ClientConnection, peer: links.Peer) -> None:
        self.peer = peer
        self._socket = socket
        # Frames are taken apart as they are read, thousands in one go if they are tiny.
        transport = socket.transport
        if hasattr(transport, "max_size"):
            transport.max_size = _READ_BYTES
        # The library answers pings by itself, and hands out messages only.
        self._process_event = socket.process_event
        socket.process_event = self._count  # type: ignore[method-assign]
        self._controls_left, self._counted = float(_CONTROLS), time.monotonic()
        self._flood: LetGo | None = None
        self._heard: asyncio.Event | None = None
        # A server's frames are not masked (RFC 6455 §5.1), and nothing else is done to them here.
        protocol = socket.protocol
        self._is_plain = protocol.side is Side.SERVER and not protocol.extensions

    async def hear(self) -> None:
        """Wait for a sign of the client: a message, or an answer to a ping (RFC 6455 §5.5.2)."""
        self._heard = asyncio.Event()
        with contextlib.suppress(ConnectionClosed, TimeoutError):
            await self._socket.ping()
            async with asyncio.timeout(_HEARD_S):
                await self._heard.wait()
        self._heard = None

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end. Raises LetGo for a flood of pings."""
        try:
            # Undecoded: bytes that are not UTF-8 are a bad message, not the end of the link.
            return await self._socket.recv(decode=False)
        except ConnectionClosed:
            if self._flood is not None:
                raise self._flood from None
            return None

    def _count(self, event: Event) -> None:
        """Take what came; end the connection of who sends too many pings or pongs."""
        if self._heard is not None:
            self._heard.set()
        if isinstance(event, Frame) and event.opcode in {Opcode.PING, Opcode.PONG}:
            now = time.monotonic()
            earned = (now - self._counted) * _CONTROLS / _CONTROLS_S
            self._controls_left = min(float(_CONTROLS), self._controls_left + earned) - 1
            self._counted = now
            if self._controls_left < 0:
                self._flood = LetGo(
                    f"let go: it sent more than {_CONTROLS} pings in {_CONTROLS_S:g} s"
                )
                self._socket.transport.abort()
        self._process_event(event)

    async def send(self, messages: Sequence[links.Outgoing]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""
        try:
            for message in messages:
                await self._socket.send(message, text=True)
        except (ConnectionClosed, ProtocolError) as error:  # the second after a message in part
            raise links.LinkClosed(str(error)) from error

    def put(self, message: bytes) -> bool:
        """Send a message now if nothing waits before it; else do not, and say False."""
        socket = self._socket
        if not self._is_plain or socket.protocol.state is not State.OPEN:
            return False
        transport = socket.transport
        # A message that is sent in pieces holds the place of the next.
        if socket.send_in_progress or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(_head(len(message)) + message)
        return True

    async def wait_closed(self) -> None:
        """Wait until the link is over, whoever ended it."""
        await self._socket.wait_closed()

    async def close(self, reason: str = "") -> None:
        """End the link; who does not take the reason soon does not get it."""
        # RFC 6455 §7.4.1: 1008 where a policy is broken, 1000 at a normal end.
        code = CloseCode.POLICY_VIOLATION if reason else CloseCode.NORMAL_CLOSURE
        shortened = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        try:
            # The library waits for a reader without end before it begins to count.
            async with asyncio.timeout(2 * _CLOSE_S):
                await self._socket.close(code, shortened)
        except TimeoutError:
            self._socket.transport.abort()


@contextlib.asynccontextmanager
async def serve_websocket(
    handler: links.Handler,
    host: str = "127.0.0.1",
    port: int = 0,
    path: str = "/slop",
    *,
    token: str | None = None,
    origins: Iterable[str] = (),
    hosts: Iterable[str] | None = None,
    users: Users = "own",
    max_bytes: int = links.PROVIDER_BYTES,
    pages: Mapping[str, Callable[[str], bytes]] | None = None,
    is_ready: Callable[[], bool] = lambda: True,
    shares_port: bool = False,
) -> AsyncIterator[str]:
    """Serve WebSockets while the block runs; gives the address, `ws://host:port/path`.

    `origins` are the pages that may connect, `hosts` the values of the `Host` header that
    are this server; by default the loopback names with the port. `pages` are answered as JSON,
    or as a script by their ending, without a token, each made from the URL of the WebSocket as
    the visitor names its host. `is_ready` is what `/readyz` tells (`transports.health`). Servers
    of one user that all say `shares_port` may have one port, each with a share of who comes.
    On loopback only this user and root may connect, unless `users` is "any".
    Raises InvalidInput for a host beyond loopback without a token, or one whose names cannot
    be known.
    """
    if users not in {"own", "any"}:
        raise InvalidInput(f"`users` is 'own' or 'any', not {users!r}")
    checks_user = users != "any" and doors.is_loopback(host)
    # Whoever listens beyond loopback needs a token, whatever the names are.
    door = doors.Door.of([host, *(hosts or ())], origins, token)
    if hosts is None and not doors.is_loopback(host):
        raise InvalidInput(f"serving {host} takes the host names that clients will use")

    def check(socket: ServerConnection, request: Request) -> Response | None:
        visitor, requested = _visitor(request), request.path.partition("?")[0]
        if (status := health_status(requested, is_ready=is_ready)) is not None:
            return _answer(socket, status, WORDS[status], {})
        page = (pages or {}).get(requested)
        refusal = door.refusal(visitor, asks_token=page is None)
        if refusal is None and checks_user:
            refusal = user_refusal(socket.transport, has_token=token is not None)
        if refusal is not None:
            return socket.respond(refusal.status, f"{refusal.reason}\n")
        if page is not None:
            [named] = visitor.values("host")
            body = page(f"ws://{named}{path}")
            return _answer(socket, HTTPStatus.OK, *doors.packed(visitor, requested, body))
        if requested != path:
            return socket.respond(HTTPStatus.NOT_FOUND, f"the endpoint is {path}\n")
        return None

    at = {path: handler}
    async with _serving(at, check, host, port, max_bytes, shares_port=shares_port) as port:
        here = f"[{host}]" if ":" in host else host
        names = [f"{here}:{port}", *doors.loopback_hosts(port)]
        door = doors.Door.of(names if hosts is None else hosts, origins, token)
        yield f"ws://{here}:{port}{path}"


@contextlib.asynccontextmanager
async def serve_judged(
    handlers: Mapping[str, Served], judge: Judge, host: str, port: int, *, max_bytes: int
) -> AsyncIterator[int]:
    """Serve WebSockets at several paths to whom `judge` lets in, while the block runs.

    Gives the port. Raises InvalidInput where it cannot be had.
    """

    async def check(socket: ServerConnection, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        here, there = socket.local_address, socket.remote_address
        refusal = await judge(path, _visitor(request), here[:2], there[:2])
        if refusal is None and path not in handlers:
            refusal = doors.Refusal(HTTPStatus.NOT_FOUND, "there is nothing here")
        if refusal is not None:
            return socket.respond(refusal.status, f"{refusal.reason}\n")
        return None

    async with _serving(handlers, check, host, port, max_bytes) as found:
        yield found


@contextlib.asynccontextmanager
async def _serving(
    handlers: Mapping[str, Served],
    check: Callable[[ServerConnection, Request], Awaitable[Response | None] | Response | None],
    host: str,
    port: int,
    max_bytes: int,
    *,
    shares_port: bool = False,
) -> AsyncIterator[int]:
    sockets: set[ServerConnection] = set()

    async def accept(socket: ServerConnection) -> None:
        path = "" if socket.request is None else socket.request.path.partition("?")[0]
        link = WebSocketLink(socket, _peer(socket))
        sockets.add(socket)
        try:
            await link.hear()
            await links.serve_link(cast(links.Handler, handlers[path]), link)
        finally:
            sockets.discard(socket)

    try:
        server = await serve(
            accept,
            host,
            port,
            process_request=check,
            select_subprotocol=_select,
            # Local links gain nothing from it, and each would hold a quarter of a megabyte.
            compression=None,
            open_timeout=_OPEN_S,
            close_timeout=_CLOSE_S,
            max_size=_FAR_OVER * max_bytes,
            max_queue=1,
            write_limit=links.WRITE_BYTES,
            logger=_unheard,
            reuse_port=shares_port or None,
        )
    except OSError as error:
        raise InvalidInput(f"cannot serve {host}:{port}: {links.why(error)}") from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * _CLOSE_S):
                await server.wait_closed()
        for socket in sockets:
            socket.transport.abort()
        await server.wait_closed()


async def connect_websocket(
    url: str, token: str | None = None, *, max_bytes: int = links.CONSUMER_BYTES
) -> WebSocketLink:
    """Connect to a WebSocket. Raises Unreachable, TimedOut, or Unauthorized where it is refused."""
    try:
        parts = urlsplit(url)  # raises where a bracket is not closed
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"ws", "wss"} or not parts.hostname:
        raise InvalidInput(f"not a WebSocket URL: {url}")
    if token is not None and parts.scheme == "ws" and not doors.is_loopback(parts.hostname):
        raise InvalidInput(f"{url}: {_TOKENS_IN_CLEAR}")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        socket = await _Connect(
            url,
            subprotocols=[_SLOP],
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
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise Unauthorized(f"{url}: refused with status {status}") from error
        raise Unreachable(f"{url}: answered with status {status}") from error
    except TimeoutError as error:
        raise TimedOut(f"{url}: no answer within {_OPEN_S:g} s") from error
    except (OSError, WebSocketException) as error:
        reason = links.why(error) if isinstance(error, OSError) else str(error)
        raise Unreachable(f"{url}: {reason}") from error
    return WebSocketLink(socket, links.Peer("ws", url))


class _Connect(connect):
    """Stays where it was sent: a redirect would carry the token to another server."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _head(size: int) -> bytes:
    """What stands before the text of a message in one frame of a server's (RFC 6455 §5.2)."""
    if size < 126:
        return bytes((0x81, size))
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2)
    return b"\x81\x7f" + size.to_bytes(8)


def _answer(
    socket: ServerConnection, status: HTTPStatus, body: bytes, headers: Mapping[str, str]
) -> Response:
    response = socket.respond(status, "")
    response.body = body
    sent = {"Content-Length": str(len(body)), "Cache-Control": "no-store", **headers}
    for name, value in sent.items():
        response.headers.pop(name, None)
        response.headers[name] = value
    return response


def _visitor(request: Request) -> doors.Visitor:
    return doors.Visitor.of(request.headers.raw_items())


def _peer(socket: ServerConnection) -> links.Peer:
    """Who connected. What else the handshake said is let go: the socket would hold it."""
    visitor = doors.Visitor(())
    if socket.request is not None:
        visitor = _visitor(socket.request)
        socket.request.headers.clear()
    socket.response = None
    return visitor.peer("ws", socket.remote_address)


def _select(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    # RFC 6455 §4.2.2: one of the subprotocols that the client offers, or none.
    return next((name for name in (_SLOP, _LABEL) if name in offered), None)
