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
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from sightline.slop.transports.door import SUBPROTOCOL, Door, Refusal, Visitor, packed
from sightline.slop.transports.health import WORDS, health_status
from sightline.slop.transports.link import Handler, LinkClosed, Outgoing, Peer, whole

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_DENIAL: Final = "websocket.http.response"
_NORMAL: Final = 1000
_POLICY_VIOLATION: Final = 1008
_SETTLE_S: Final = 0.1
_PLAIN: Final = {"Content-Type": "text/plain"}


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
        # ASGI has no pieces: behind a web server it is the server that holds a message.
        for message in map(whole, messages):
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


@dataclass(eq=False, repr=False, slots=True)
class AsgiApp:
    """An ASGI application around a handler of links."""

    _handle: Handler
    _path: str
    _door: Door
    _pages: Mapping[str, Callable[[str], bytes]]
    _is_ready: Callable[[], bool]

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
            await _answer(send, HTTPStatus.NOT_FOUND, b"not found")
        elif (status := health_status(path, is_ready=self._is_ready)) is not None:
            await _answer(send, status, WORDS[status])
        elif path not in self._pages:
            await _answer(send, HTTPStatus.NOT_FOUND, b"not found")
        elif refusal := self._door.refusal(visitor, asks_token=False):
            await _answer(send, refusal.status, refusal.reason.encode())
        else:
            [host] = visitor.values("host")
            scheme = "wss" if scope.get("scheme") == "https" else "ws"
            url = f"{scheme}://{host}{scope.get('root_path', '')}{self._path}"
            await _answer(send, HTTPStatus.OK, *packed(visitor, path, self._pages[path](url)))


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
        await _answer(send, refusal.status, refusal.reason.encode(), kind=_DENIAL)
    else:  # closing before accepting: such a server answers the handshake with 403
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})


async def _answer(
    send: Send, status: int, body: bytes, headers: Mapping[str, str] = _PLAIN,
    *, kind: str = "http.response",
) -> None:  # fmt: skip
    sent = {**headers, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
    pairs = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
    await send({"type": f"{kind}.start", "status": int(status), "headers": pairs})
    await send({"type": f"{kind}.body", "body": body})
