"""The app inside a web framework: plain ASGI, no framework needed.

    WebSocket  /slop               the protocol, one message per text frame
    GET        /.well-known/slop   where that is, and what the app offers
               …/sightline.js      the provider for pages that are served beside it
    GET        /healthz, /readyz   whether it lives, and has room for one more

Whom its `door` does not let in is refused before the socket is accepted. The description
is given without a token: it is how a client learns where to bring one.

The first message waits a moment, for the reason that `transports.websocket` gives. ASGI has
no ping by which the client could be heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from sightline.slop.app.javascript import SCRIPT, javascript
from sightline.slop.discovery.wellknown import WELL_KNOWN, describe_app
from sightline.slop.protocol.messages import ProviderInfo
from sightline.slop.transports.door import SUBPROTOCOL, Door, Refusal, Visitor
from sightline.slop.transports.health import WORDS, health_status
from sightline.slop.transports.link import Link, LinkClosed, Outgoing, Peer
from sightline.slop.transports.packed import packed

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_DENIAL: Final = "websocket.http.response"
_NORMAL: Final = 1000
_POLICY_VIOLATION: Final = 1008
_SETTLE_S: Final = 0.1


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

    async def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages; return when they are taken. Raises LinkClosed."""
        for outgoing in messages:
            # ASGI has no pieces: behind a web server it is the server that holds a message.
            message = outgoing if isinstance(outgoing, bytes) else b"".join(outgoing)
            if self._closed:
                raise LinkClosed("the socket is closed")
            try:
                await self._send({"type": "websocket.send", "text": message.decode()})
            except (OSError, RuntimeError) as error:  # what servers raise for a peer that left
                self._closed = True
                raise LinkClosed("the socket is closed") from error

    async def close(self, reason: str = "") -> None:
        """End the link."""
        if self._closed:
            return
        self._closed = True
        try:
            code = _POLICY_VIOLATION if reason else _NORMAL
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except (OSError, RuntimeError):
            return  # it was closed by the other side meanwhile


class AsgiApp:
    """An ASGI application around a handler of links."""

    def __init__(
        self,
        handle: Callable[[Link], Awaitable[None]],
        info: ProviderInfo,
        path: str,
        door: Door,
        description: str | None = None,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._handle = handle
        self._info = info
        self._path = path
        self._door = door
        self._description = description
        self._is_ready = is_ready

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
        visitor = _visitor(scope)
        refusal = self._door.refusal(visitor)
        if refusal is None and _path_of(scope).rstrip("/") != self._path.rstrip("/"):
            refusal = Refusal(HTTPStatus.NOT_FOUND, f"the endpoint is {self._path}")
        if refusal is not None:
            await _deny(scope, send, refusal)
            return
        accept: Message = {"type": "websocket.accept"}
        if SUBPROTOCOL in visitor.subprotocols:
            accept["subprotocol"] = SUBPROTOCOL
        await send(accept)
        await asyncio.sleep(_SETTLE_S)
        await self._handle(AsgiLink(visitor.peer("asgi", scope.get("client")), receive, send))

    async def _describe(self, scope: Scope, send: Send) -> None:
        visitor, path = _visitor(scope), _path_of(scope)
        if scope["method"] not in {"GET", "HEAD"}:
            await _answer(send, HTTPStatus.NOT_FOUND, b"not found", "text/plain")
        elif (status := health_status(path, is_ready=self._is_ready)) is not None:
            await _answer(send, status, WORDS[status], "text/plain")
        elif path not in {WELL_KNOWN, SCRIPT}:
            await _answer(send, HTTPStatus.NOT_FOUND, b"not found", "text/plain")
        elif refusal := self._door.refusal(visitor, asks_token=False):
            await _answer(send, refusal.status, refusal.reason.encode(), "text/plain")
        elif path == SCRIPT:
            body, more = packed(visitor, javascript("sightline"))
            await _answer(send, HTTPStatus.OK, body, "text/javascript", more=more.items())
        else:
            [host] = visitor.values("host")
            scheme = "wss" if scope.get("scheme") == "https" else "ws"
            url = f"{scheme}://{host}{scope.get('root_path', '')}{self._path}"
            described = describe_app(self._info, url, self._description)
            await _answer(send, HTTPStatus.OK, described)


def _path_of(scope: Scope) -> str:
    """The path below where the application is mounted."""
    # ASGI, HTTP and WebSocket scope: `path` may begin with `root_path`.
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if root else path


def _visitor(scope: Scope) -> Visitor:
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    return Visitor.of(pairs)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _deny(scope: Scope, send: Send, refusal: Refusal) -> None:
    if _DENIAL in (scope.get("extensions") or {}):
        body = refusal.reason.encode()
        await _answer(send, refusal.status, body, "text/plain", kind=_DENIAL)
    else:  # closing before accepting: such a server answers the handshake with 403
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})


async def _answer(
    send: Send, status: int, body: bytes, mime: str = "application/json",
    *, kind: str = "http.response", more: Iterable[tuple[str, str]] = (),
) -> None:  # fmt: skip
    headers = [
        *((name.lower().encode(), value.encode()) for name, value in more),
        (b"content-type", mime.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": f"{kind}.start", "status": int(status), "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
