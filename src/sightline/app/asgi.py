"""The app inside a web framework: plain ASGI, no framework needed.

    WebSocket  /slop               the protocol, one message per text frame
    GET        /.well-known/slop   where that is, and what the app offers

*Who gets in.* A browser sends cookies and connects to loopback from any page, so a
request must name a `Host` that is allowed (loopback unless told otherwise, which
stops rebound names) and, if it has an `Origin`, one that is allowed (none unless told
otherwise). A token travels as `Authorization: Bearer …`, or, from a page that cannot
set headers, as the subprotocol `slop.bearer.<base64url of it>` beside `slop`; never in
the query, where logs would keep it. All of it is checked before the socket is
accepted.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from sightline.errors import InvalidInput
from sightline.protocol.messages import ProviderInfo
from sightline.transports.link import Link, LinkClosed, Peer

__all__ = ["AsgiApp", "AsgiLink", "Gate"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

SUBPROTOCOL: Final = "slop"
_BEARER: Final = "slop.bearer."
_WELL_KNOWN: Final = "/.well-known/slop"
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_POLICY_VIOLATION: Final = 1008
_encoder: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Gate:
    """Who may connect. `hosts` None is every loopback name."""

    hosts: frozenset[str] | None
    origins: frozenset[str]
    token: str | None

    @classmethod
    def of(
        cls,
        hosts: Iterable[str] | None,
        origins: Iterable[str],
        token: str | None,
        *,
        has_hook: bool,
    ) -> Gate:
        """Read the settings. Raises InvalidInput where strangers would get in."""
        named = None if hosts is None else frozenset(host.lower() for host in hosts)
        if named is not None and not all(map(_is_loopback, named)) and not (token or has_hook):
            far = next(host for host in sorted(named) if not _is_loopback(host))
            reason = f"{far!r} is not loopback: give a `token` or an `authenticate` hook"
            raise InvalidInput(reason)
        return cls(named, frozenset(origins), token)

    def problem(self, peer: Peer) -> str | None:
        """Say why a peer may not connect, or None if it may."""
        host = peer.headers.get("host", "").lower()
        if not (_is_loopback(host) if self.hosts is None else _is_named(host, self.hosts)):
            return "this Host is not allowed"
        origin = peer.headers.get("origin")
        if origin is not None and origin not in self.origins:
            return "this Origin is not allowed"
        return None

    def admits(self, peer: Peer) -> bool:
        """Tell whether a peer shows the token, if there is one to show."""
        if self.token is None:
            return True
        given = (peer.token or "").encode()
        return hmac.compare_digest(given, self.token.encode())


class AsgiLink:
    """A WebSocket that an ASGI server has accepted."""

    def __init__(self, peer: Peer, receive: Receive, send: Send) -> None:
        self.peer = peer
        self._receive = receive
        self._send = send
        self._closed = False

    async def receive(self) -> bytes | None:
        """Return the next message, or None at the end."""
        if self._closed:
            return None
        message = await self._receive()
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        text = message.get("text")
        return message.get("bytes") or b"" if text is None else text.encode(errors="surrogatepass")

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""
        for message in messages:
            if self._closed:
                raise LinkClosed("the socket is closed")
            try:
                await self._send({"type": "websocket.send", "text": message.decode()})
            except (OSError, RuntimeError) as error:  # what servers raise for a peer that left
                self._closed = True
                raise LinkClosed("the socket is closed") from error

    async def close(self) -> None:
        """End the link."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._send({"type": "websocket.close", "code": 1000})
        except (OSError, RuntimeError):
            return  # it was closed by the other side meanwhile


class AsgiApp:
    """An ASGI application around a handler of links."""

    def __init__(
        self,
        handle: Callable[[Link], Awaitable[None]],
        info: ProviderInfo,
        path: str,
        gate: Gate,
        description: str | None = None,
    ) -> None:
        self._handle = handle
        self._info = info
        self._path = path
        self._gate = gate
        self._description = description

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI has it."""
        kind = scope["type"]
        if kind == "lifespan":
            await _live(receive, send)
        elif kind == "http":
            await self._describe(scope, send)
        elif kind == "websocket":
            await self._connect(scope, receive, send)

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        peer = _peer_of(scope)
        path = _path_of(scope).rstrip("/")
        refused = path != self._path.rstrip("/") or self._gate.problem(peer) is not None
        if refused or not self._gate.admits(peer):
            # Closing before accepting: the server answers the handshake with 403.
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        accept: Message = {"type": "websocket.accept"}
        if SUBPROTOCOL in scope.get("subprotocols", ()):
            accept["subprotocol"] = SUBPROTOCOL
        await send(accept)
        await self._handle(AsgiLink(peer, receive, send))

    async def _describe(self, scope: Scope, send: Send) -> None:
        peer = _peer_of(scope)
        if _path_of(scope) != _WELL_KNOWN or scope["method"] not in {"GET", "HEAD"}:
            await _answer(send, _NOT_FOUND, b"not found", "text/plain")
        elif problem := self._gate.problem(peer):
            await _answer(send, _FORBIDDEN, problem.encode(), "text/plain")
        else:
            await _answer(send, 200, _encoder.encode(self._descriptor(scope, peer)))

    def _descriptor(self, scope: Scope, peer: Peer) -> dict[str, Any]:
        scheme = "wss" if scope.get("scheme") == "https" else "ws"
        url = f"{scheme}://{peer.headers['host']}{scope.get('root_path', '')}{self._path}"
        described = {
            "id": self._info.id,
            "name": self._info.name,
            "slop_version": self._info.slop_version,
            "transport": {"type": "ws", "url": url},
            "capabilities": self._info.capabilities,
        }
        if self._description is not None:
            described["description"] = self._description
        return described


def _path_of(scope: Scope) -> str:
    """The path below where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if root else path


def _peer_of(scope: Scope) -> Peer:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        # Repeated, it is no longer any one that is allowed.
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    client = scope.get("client")
    address = f"{client[0]}:{client[1]}" if client else ""
    token = _token_of(headers, scope.get("subprotocols", ()))
    return Peer("asgi", address, token=token, headers=headers)


def _token_of(headers: MutableMapping[str, str], subprotocols: Iterable[str]) -> str | None:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and credentials:
        return credentials.strip()
    for name in subprotocols:
        if name.startswith(_BEARER):
            text = name.removeprefix(_BEARER)
            try:
                return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            except (binascii.Error, ValueError):
                return None
    return None


def _is_loopback(host: str) -> bool:
    name = _name_of(host)
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_named(host: str, hosts: frozenset[str]) -> bool:
    """An allowed host with a port allows that port, one without allows all."""
    return host in hosts or _name_of(host) in hosts


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _answer(send: Send, status: int, body: bytes, mime: str = "application/json") -> None:
    headers = [
        (b"content-type", mime.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
