"""Pass requests on to their vendor, and replies back, byte for byte.

    http://127.0.0.1:PORT/SECRET/anthropic/v1/messages  →  https://api.anthropic.com/v1/messages

The first part of a path is a secret; without it every request but those after the gateway's
health is a 404. The second names the
upstream, which nothing in a request can choose otherwise. Bodies go on as they came and replies
come back chunk by chunk; a copy is read beside that. Keys pass and are not looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import h11
import httpx2
import msgspec
import uvicorn
import websockets
from websockets.asyncio.client import connect

from sightline.gateway.addresses import repaired_address
from sightline.gateway.bodies import Api, api_of
from sightline.gateway.observer import READ_BYTES, Passing
from sightline.slop.transports.door import is_same_secret, loopback_hosts
from sightline.slop.transports.health import WORDS, Health
from sightline.slop.transports.http_connection import PortConnection, port_server
from sightline.slop.transports.sockets import Users, refusal_of

if TYPE_CHECKING:
    from sightline.gateway.tail import LiveTail, Spliced


# RFC 9110 §7.6.1: these are between two neighbours and go no further.
HOP_BY_HOP: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
     b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"host", b"expect")
)  # fmt: skip
READABLE: Final = (b"gzip", b"deflate", b"identity")
CONNECT_S: Final = 30.0
_REASONS: Final = {403: "a web page, or another user (`--users any` allows other users)"}
NEVER_SENT: Final = (1005, 1006, 1015)  # RFC 6455 §7.4.1

# What vendors take a key from.
_KEYS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_KEY_IN_QUERY: Final = re.compile(rb"(?:^|&)key=([^&]*)")

Scope = Mapping[str, Any]
Headers = list[tuple[bytes, bytes]]


async def _see_nothing() -> None:
    """Find nothing wrong."""


class Gateway:
    """The ASGI application. `ended` gets every request for an answer, once it has ended.

    `tail` puts the state of apps into requests; without one they go on as they came. It is ready
    while `look` raises nothing.
    """

    def __init__(
        self,
        secret: str,
        port: int,
        upstreams: Mapping[str, str],
        ended: Callable[[Passing], None],
        tail: LiveTail | None = None,
        look: Callable[[], Awaitable[object]] = _see_nothing,
    ) -> None:
        self._secret = secret
        self._salt = secrets.token_bytes(16)  # of this process: no hash of a key outlives it
        self._health = Health(look)
        self._hosts = frozenset(loopback_hosts(port))
        self._upstreams = dict(upstreams)
        self._ended = ended
        self._tail = tail
        self.unread = ""  # The first path of a POST that no reader exists for.
        self._running: set[asyncio.Task[None]] = set()
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_S), follow_redirects=False
        )

    async def close(self) -> None:
        """End the requests that are on their way, and close the connections to the vendors."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._client.aclose()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Serve one connection's request."""
        if scope["type"] == "lifespan":
            return
        found = self._upstream(scope)
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send, found)
        elif isinstance(found, int):
            wants_health = found == HTTPStatus.NOT_FOUND and scope["method"] in ("GET", "HEAD")
            status = await self._health.status(scope["path"]) if wants_health else None
            word = WORDS[status].decode() if status else _REASONS.get(found, "")
            await _refuse(send, status or found, word)
        else:
            serving = asyncio.current_task()
            assert serving is not None  # noqa: S101 - we are in it
            self._running.add(serving)
            serving.add_done_callback(self._running.discard)
            await self._serve(scope, receive, send, found)

    def _upstream(self, scope: Scope) -> int | tuple[str, str]:
        """Return where a request goes, and its path there; or the status of a refusal."""
        headers = dict(scope["headers"])
        if headers.get(b"host", b"").decode("latin-1").lower() not in self._hosts:
            return 421  # RFC 9110 §15.5.20: misdirected request
        if b"origin" in headers or headers.get(b"sec-fetch-site", b"none") != b"none":
            return 403  # no page has business here
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        _, secret, name, *rest = [*raw.decode("latin-1").split("/", 3), "", ""]
        if not is_same_secret(secret, self._secret):
            return 404
        if refusal_of(scope) is not None:
            return 403
        base = self._upstreams.get(name)
        if base is None:
            return 404
        base, path = repaired_address(name, base.rstrip("/"), f"/{rest[0]}" if rest else "/")
        query = scope["query_string"].decode("latin-1")
        return base + path + (f"?{query}" if query else ""), path

    async def _serve(self, scope: Scope, receive: Any, send: Any, found: tuple[str, str]) -> None:
        url, path = found
        known = api_of(path) if scope["method"] == "POST" else None
        if known is None and scope["method"] == "POST":
            self.unread = self.unread or path
        headers = _onward(scope["headers"])
        body = _Incoming(receive)
        passing: Passing | None = None
        spliced: Spliced | None = None
        content: Any = body.rest()
        if not _has_body(scope["headers"]):
            await body.all(0)
            content = None
        elif known is not None:
            data, whole = await body.all(READ_BYTES)
            content = data if whole else body.rest(data)
            if whole and known[1]:
                plain = _plain(scope["headers"])
                passing = Passing(known[0], path, plain, data, time.monotonic(), time.time())
                self._mark(passing, scope, plain)
                if self._tail is not None:
                    spliced = await self._tail.splice(passing, url)
                    passing.tail, passing.leaves = spliced.plan.words, spliced.plan.leaves
                    content = spliced.data
                    headers = _of_length(headers, len(content))
        origin, target = _cut_target(url)
        # Else the client would resolve `..`: the path is the vendor's to read, as it came.
        extensions = {"target": target.encode("latin-1")}
        try:
            request = httpx2.Request(
                scope["method"], origin, headers=headers, content=content, extensions=extensions
            )
        except httpx2.InvalidURL as error:
            await _refuse(send, 502, f"the gateway could not reach the vendor: {_why(error)}")
            return
        answered = _Answered(send)
        work = asyncio.create_task(self._pass(request, answered, passing))
        gone = asyncio.create_task(body.gone())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        except httpx2.HTTPError as error:
            if answered.began:
                raise ConnectionError("the vendor's reply broke off") from error
            why = f"the gateway could not reach the vendor: {_why(error)}"
            if passing is not None:
                passing.status, passing.unreached = 502, why
            await _refuse(send, 502, why)
        finally:
            for task in (work, gone):
                task.cancel()
            if passing is not None:
                passing.ended = time.monotonic()
                passing.cut = not answered.whole and not passing.unreached
                if self._tail is not None and spliced is not None and _is_good(passing):
                    self._tail.answered(spliced, passing)
                self._ended(passing)
            await asyncio.gather(work, gone, return_exceptions=True)

    def _mark(self, passing: Passing, scope: Scope, headers: Mapping[str, str]) -> None:
        """Say where a request goes, over which connection, and with which key, by its hash."""
        keys = "\0".join(filter(None, map(headers.get, _KEYS))).encode("latin-1")
        keys += b"".join(_KEY_IN_QUERY.findall(scope["query_string"]))
        passing.credential = blake2b(keys, key=self._salt, digest_size=8).hexdigest()
        passing.upstream = scope["path"].split("/", 3)[2]
        passing.connection = "{}:{}".format(*scope.get("client") or ("", ""))

    async def _pass(
        self, request: httpx2.Request, answered: _Answered, passing: Passing | None
    ) -> None:
        response = await self._client.send(request, stream=True)
        try:
            back = [(k.lower(), v) for k, v in response.headers.raw if k.lower() not in HOP_BY_HOP]
            if passing is not None:
                passing.status = response.status_code
                passing.first = time.monotonic()
                passing.reply_headers = _plain(back)
            await answered.start(response.status_code, back)
            async for chunk in response.aiter_raw():
                if passing is not None:
                    passing.feed(chunk)
                await answered.send(chunk)
            await answered.end()
        finally:
            await response.aclose()

    async def _serve_socket(
        self, scope: Scope, receive: Any, send: Any, found: int | tuple[str, str]
    ) -> None:
        """Pass a WebSocket's messages on, both ways (OpenAI's Responses have such a mode)."""
        await receive()
        if isinstance(found, int):
            await _refuse(send, found, kind="websocket.http")
            return
        if self._tail is not None and api_of(found[1]) is not None:
            # RFC 9110 §15.5.22: state goes into requests, so the agent is led back to these.
            await _refuse(send, 426, "state is told in requests alone", kind="websocket.http")
            return
        url = found[0].replace("http", "ws", 1)
        plain = _plain(scope["headers"])

        def ended(passing: Passing) -> None:
            self._mark(passing, scope, plain)
            self._ended(passing)

        copy = _SocketCopy(api_of(found[1]), found[1], plain, ended)
        headers = [
            (k.decode("latin-1"), v.decode("latin-1"))
            for k, v in _onward(scope["headers"])
            if not k.startswith(b"sec-websocket-")
        ]
        subprotocols = scope.get("subprotocols") or None
        accepted = False
        try:
            async with _Connect(
                url, additional_headers=headers, subprotocols=subprotocols, max_size=None,
                user_agent_header=None, compression=None, ping_interval=None,
            ) as vendor:  # fmt: skip
                accepted = True
                await send({"type": "websocket.accept", "subprotocol": vendor.subprotocol})
                await _pump(vendor, receive, send, copy)
        except (OSError, websockets.WebSocketException) as error:
            with contextlib.suppress(Exception):
                if accepted:
                    await send({"type": "websocket.close", "code": 1014})
                elif isinstance(error, websockets.InvalidStatus):
                    await _pass_refusal(send, error.response)
                else:
                    why = f"the gateway could not reach the vendor: {_why(error)}"
                    await _refuse(send, 502, why, kind="websocket.http")
        finally:
            copy.end(cut=True)


class _Connect(connect):
    """A connection that goes where it was sent: a vendor's redirect is the agent's to follow."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


def server_of(application: Gateway, *, users: Users = "own") -> uvicorn.Server:
    """Return a server that adds nothing to a reply and logs no request."""
    # No pings of our own: the agent and its vendor decide how long they wait for each other.
    return port_server(
        application, users, _AgentConnection, log_level="critical", date_header=False,
        lifespan="off", ws="websockets-sansio", ws_max_size=2**31 - 1, ws_ping_interval=None,
    )  # fmt: skip


class _AgentConnection(PortConnection):
    """A connection whose request body may take as long as its vendor takes to read it."""

    incomplete = frozenset({h11.IDLE})


class _Incoming:
    """The body of a request as it comes, and whether whoever sent it is still there."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._over = asyncio.Event()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._over.set()
            raise ConnectionError("the agent left")
        if not message.get("more_body", False):
            self._over.set()
        data: bytes = message.get("body", b"")
        return data

    async def all(self, most: int) -> tuple[bytes, bool]:
        """Read the body, or so much of it; tell whether it is whole."""
        parts: list[bytes] = []
        size = 0
        while not self._over.is_set() and size <= most:
            parts.append(await self._next())
            size += len(parts[-1])
        return b"".join(parts), self._over.is_set()

    async def rest(self, first: bytes = b"") -> AsyncIterator[bytes]:
        """Yield what is to come, behind what has."""
        if first:
            yield first
        while not self._over.is_set():
            yield await self._next()

    async def gone(self) -> None:
        """Wait until whoever sent the request has left."""
        await self._over.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


class _Answered:
    """The reply on its way to the agent."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.began = self.whole = False

    async def start(self, status: int, headers: Headers) -> None:
        self.began = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})
        self.whole = True


def _onward(headers: Headers) -> Headers:
    """Return the headers that go on; of the codings only those that we can read a copy of."""
    connection = {
        name.strip().lower()
        for key, value in headers
        if key == b"connection"
        for name in value.split(b",")
    }
    if any(key == b"transfer-encoding" for key, _ in headers):
        connection.add(b"content-length")  # RFC 9112 §6.3: it is overridden, and goes no further
    found: Headers = []
    for key, value in headers:
        if key in HOP_BY_HOP or key in connection:
            continue
        if key == b"accept-encoding":
            offered = [c.strip() for c in value.split(b",")]
            value = (
                b", ".join(c for c in offered if c.partition(b";")[0] in READABLE) or b"identity"
            )
        found.append((key, value))
    return found


def _cut_target(url: str) -> tuple[str, str]:
    """Cut an address into its origin and what a request asks it for (RFC 9112 §3.2.1)."""
    scheme, _, rest = url.partition("://")
    host, slash, target = rest.partition("/")
    return f"{scheme}://{host}", slash + target


def _of_length(headers: Headers, length: int) -> Headers:
    """Say how long a body is that is not as it came."""
    size = b"%d" % length
    return [(key, size if key == b"content-length" else value) for key, value in headers]


def _is_good(passing: Passing) -> bool:
    return not passing.cut and 0 < passing.status < 400


def _plain(headers: Headers) -> dict[str, str]:
    return {key.decode("latin-1"): value.decode("latin-1") for key, value in headers}


def _has_body(headers: Headers) -> bool:
    """Whether a request says that it has a body (RFC 9112 §6.3)."""
    return any(key in (b"content-length", b"transfer-encoding") for key, _ in headers)


class _Message(msgspec.Struct):
    """What a WebSocket's message says that it is."""

    type: str = ""
    status: int = 200


_messages: Final = msgspec.json.Decoder(_Message)
# OpenAI, "Responses": with one of these a reply is over.
_LAST: Final = frozenset(f"response.{end}" for end in ("completed", "failed", "incomplete"))


@dataclass(slots=True)
class _SocketCopy:
    """What is copied of a WebSocket: OpenAI's Responses are asked for by a message, one at a time.

    The events of a reply are those of a stream, and copied as one.
    """

    known: tuple[Api, bool] | None
    path: str
    headers: Mapping[str, str]
    ended: Callable[[Passing], None]
    _passing: Passing | None = None

    def from_agent(self, text: str) -> None:
        """Look at what the agent sent."""
        if self.known is None or _read(text).type != "response.create":
            return
        self.end(cut=True)
        now, day = time.monotonic(), time.time()
        self._passing = Passing(self.known[0], self.path, self.headers, text.encode(), now, day)

    def from_vendor(self, text: str) -> None:
        """Look at what the vendor sent."""
        passing = self._passing
        if passing is None:
            return
        message = _read(text)
        if not passing.status:
            passing.first = time.monotonic()
            passing.status = message.status
            passing.reply_headers = {"content-type": "text/event-stream"}
        refused = passing.status >= 400
        passing.feed(text.encode() if refused else f"data: {text}\n\n".encode())
        if refused or message.type in _LAST or message.type == "error":
            self.end(cut=False)

    def end(self, *, cut: bool) -> None:
        """Say that a request has ended, if one was on its way."""
        passing, self._passing = self._passing, None
        if passing is not None:
            passing.ended = time.monotonic()
            passing.cut = cut
            self.ended(passing)


def _read(text: str) -> _Message:
    try:
        return _messages.decode(text)
    except msgspec.MsgspecError:
        return _Message()


async def _pump(vendor: Any, receive: Any, send: Any, copy: _SocketCopy) -> None:
    async def onward() -> None:
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            if text is None:
                await vendor.send(message["bytes"])
            else:
                copy.from_agent(text)
                await vendor.send(text)
        code = message.get("code", 1000)
        await vendor.close(1000 if code in NEVER_SENT else code, message.get("reason") or "")

    async def back() -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for data in vendor:
                key = "text" if isinstance(data, str) else "bytes"
                await send({"type": "websocket.send", key: data})
                if isinstance(data, str):
                    copy.from_vendor(data)
        code, reason = vendor.close_code, vendor.close_reason
        if code not in NEVER_SENT:
            await send({"type": "websocket.close", "code": code, "reason": reason})

    tasks = [asyncio.ensure_future(onward()), asyncio.ensure_future(back())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _refuse(send: Any, status: int, why: str = "", kind: str = "http") -> None:
    body = why.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),  # a stranger could send a body without end
    ]
    await send({"type": f"{kind}.response.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body})


async def _pass_refusal(send: Any, response: Any) -> None:
    """Answer a WebSocket's handshake as the vendor did."""
    headers = [(k.lower().encode(), v.encode("latin-1")) for k, v in response.headers.raw_items()]
    kept = [(k, v) for k, v in headers if k not in HOP_BY_HOP and k != b"content-length"]
    status = response.status_code
    await send({"type": "websocket.http.response.start", "status": status, "headers": kept})
    await send({"type": "websocket.http.response.body", "body": bytes(response.body or b"")})


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
