"""Addresses, as people write them, and how to get there.

ws://127.0.0.1:8765/slop      a WebSocket (`wss://` too)
https://app.example           a web site that says where its WebSocket is (`/.well-known/slop`, or
                              `<meta name="slop">` in the page); http:// on this machine
unix:/run/user/1000/app.sock  a Unix socket
stdio:python app.py           a program to start
nats://broker:4222/mail       an app on a NATS broker; nats+tls:// is encrypted
mcp:uvx mcp-server-time       an MCP server to start; mcp+https://… is one somewhere else
mail                          the id of an app that has announced itself

A web site is asked each time it is called, once for its document and, where it has none, once for
its page: no redirect, no proxy, and bounds on the size of an answer and the time it may take; what
the answer says is believed only as `discovery.wellknown` has it.
"""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import IO, Final, NamedTuple, cast
from urllib.parse import urlsplit

import sightline.slop.discovery.wellknown as wellknown
from sightline.errors import InvalidInput, TimedOut, Unauthorized, Unreachable
from sightline.slop.discovery.descriptor import DESCRIPTOR_BYTES, Descriptor, Nats, Stdio, Unix, Ws
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.client import Dial
from sightline.slop.hub.mcp import McpTarget, dial_mcp, is_mcp
from sightline.slop.transports.link import Link, why
from sightline.slop.transports.nats_url import NatsUrl, is_nats, nats_module
from sightline.slop.transports.stdio import spawn_stdio, words_of
from sightline.slop.transports.unix import connect_unix

ANSWER_S: Final = 5.0
_HEAD_BYTES: Final = 16 * 1024
_MISSING: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE})


def dial_address(
    address: str, *, token: str | None = None, discovery: Discovery | None = None
) -> Dial:
    """Return how to connect to an address. Raises InvalidInput, or Unreachable for an unknown id.

    An address that was typed is consent to start its command; one that was found is not. Without
    a token that of the app's descriptor is shown, where there is one.
    """
    scheme, _, rest = address.partition(":")
    if scheme in {"ws", "wss"}:
        shown = _announced_token(address, discovery) if token is None else token
        return lambda: _connect_websocket(address, shown)
    if scheme in {"http", "https"}:
        wellknown.document_url(address)  # raises where it is not safe
        return _dial_site(address, token, discovery)
    if scheme == "unix" and rest:
        return lambda: connect_unix(rest)
    if scheme == "stdio" and rest.strip():
        words = words_of(rest)
        return lambda: spawn_stdio(words)
    if is_nats(address):
        return _dial_broker(address, token)
    if is_mcp(address):
        return dial_mcp(McpTarget.of_address(address, token))
    if ":" in address or "/" in address or not address:
        known = "ws://…, https://…, unix:/path, nats://…, stdio:COMMAND, mcp:COMMAND or an app's id"
        raise InvalidInput(f"not an address ({known}): {address!r}")
    for descriptor in (discovery or Discovery()).look().descriptors:
        if descriptor.id == address:
            return dial_descriptor(descriptor, token=token)
    raise Unreachable(f"no app {address!r} has announced itself here")


async def _connect_websocket(url: str, token: str | None) -> Link:
    # Loaded by the first such app: a start without one need not wait for the library.
    from sightline.slop.transports.websocket import connect_websocket

    return await connect_websocket(url, token)


def _dial_broker(address: str, token: str | None) -> Dial:
    NatsUrl.read(address, token)
    connect: Callable[[str, str | None], Awaitable[Link]] = nats_module("nats_link").connect_nats
    return lambda: connect(address, token)


def _dial_site(address: str, token: str | None, discovery: Discovery | None) -> Dial:
    async def dial() -> Link:
        url = await find_websocket(address)
        shown = token
        if shown is None:
            shown = await asyncio.to_thread(_announced_token, url, discovery)
        return await _connect_websocket(url, shown)

    return dial


def _announced_token(url: str, discovery: Discovery | None) -> str | None:
    """Find the token of an app that this user announced at this very URL."""
    for descriptor in (discovery or Discovery()).look().descriptors:
        if isinstance(descriptor.transport, Ws) and descriptor.transport.url == url:
            return descriptor.transport.token
    return None


def dial_descriptor(
    descriptor: Descriptor, *, token: str | None = None, consent: bool = False
) -> Dial:
    """Return how to connect to an app that was found; a command is run only with consent."""

    async def dial() -> Link:
        match descriptor.transport:
            case Unix(path):
                return await connect_unix(path)
            case Ws(url, known):
                return await _connect_websocket(url, known if token is None else token)
            case Nats(url=url):
                return await _dial_broker(url, token)()
            case Stdio(command):
                if not consent:
                    raise Unauthorized(
                        f"{descriptor.id}: starting {command[0]!r} takes the user's consent"
                    )
                return await spawn_stdio(command)

    return dial


class _Answer(NamedTuple):
    status: int
    is_html: bool
    body: bytes


async def find_websocket(address: str) -> str:
    """Return the WebSocket that a site names. Raises Unreachable, TimedOut.

    Raises InvalidInput where what the site says cannot be believed.
    """
    document, page = wellknown.document_url(address), wellknown.page_url(address)
    answer = await _ask(document, "application/json", DESCRIPTOR_BYTES)
    # Many a server answers with its page wherever it has nothing.
    is_missing = answer.status in _MISSING or (answer.status == HTTPStatus.OK and answer.is_html)
    if is_missing and page is not None:
        shown = await _ask(page, "text/html", wellknown.PAGE_BYTES, is_cut=True)
        if shown.status == HTTPStatus.OK and shown.is_html:
            named = wellknown.page_websocket(shown.body, page)
            if named is not None:
                return named
    if answer.status != HTTPStatus.OK:
        raise Unreachable(f"{document}: answered with status {answer.status}")
    return wellknown.websocket_url(answer.body, document)


async def _ask(url: str, accept: str, most: int, *, is_cut: bool = False) -> _Answer:
    """Ask for something of at most so many bytes; what is longer is an error unless it is cut."""
    try:
        async with asyncio.timeout(ANSWER_S):
            answer = await _get(url, accept, _HEAD_BYTES + most)
    except TimeoutError:
        raise TimedOut(f"{url}: no answer within {ANSWER_S:g} s") from None
    except OSError as error:
        raise Unreachable(f"{url}: {why(error)}") from error
    if len(answer) > _HEAD_BYTES + most and not is_cut:
        raise InvalidInput(f"{url}: a description has at most {most} bytes")
    return _read(answer, url, is_cut=is_cut)


async def _get(url: str, accept: str, most: int) -> bytes:
    """Ask for a page, and read what comes until its end or until it is too much."""
    parts = urlsplit(url)
    encrypted = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (80 if encrypted is None else 443)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=encrypted)
    try:
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        head = f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: {accept}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode("ascii"))
        answer = bytearray()
        while piece := await reader.read(_HEAD_BYTES):
            answer += piece
            if len(answer) > most:
                break
        return bytes(answer)
    finally:
        writer.transport.abort()


class _Received:
    """Bytes that have come, for a parser that reads from a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> IO[bytes]:
        return io.BytesIO(self._data)


def _read(answer: bytes, url: str, *, is_cut: bool) -> _Answer:
    try:
        response = HTTPResponse(cast(socket.socket, _Received(answer)))
        response.begin()
        try:
            body = response.read()
        except IncompleteRead as error:
            if not is_cut:
                raise
            body = error.partial
    except (HTTPException, ValueError, OSError) as error:
        raise Unreachable(f"{url}: not an answer to be read: {error}") from error
    is_html = "html" in response.getheader("Content-Type", "").partition(";")[0].lower()
    return _Answer(response.status, is_html, body)
