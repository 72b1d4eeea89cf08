"""Addresses, as people write them, and how to get there.

ws://127.0.0.1:8765/slop      a WebSocket (`wss://` too)
https://app.example           a web site that says where its WebSocket is (`/.well-known/slop`, or
                              `<meta name="slop">` in the page); http:// on this machine
unix:/run/user/1000/app.sock  a Unix socket
stdio:python app.py           a program to start
nats://broker:4222/mail       an app on a NATS broker; nats+tls:// is encrypted
mcp:uvx mcp-server-time       an MCP server to start; mcp+https://… is one somewhere else
mail                          the id of an app that has announced itself
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sightline.errors import InvalidInput, Unauthorized, Unreachable
from sightline.slop.discovery.descriptor import Descriptor, Nats, Stdio, Unix, Ws
from sightline.slop.discovery.directory import Discovery
from sightline.slop.discovery.wellknown import document_url
from sightline.slop.hub.client import Dial
from sightline.slop.hub.mcp import McpTarget, dial_mcp, is_mcp
from sightline.slop.hub.website import find_websocket
from sightline.slop.transports.link import Link
from sightline.slop.transports.nats_url import NatsUrl, is_nats, nats_module
from sightline.slop.transports.stdio import spawn_stdio, words_of
from sightline.slop.transports.unix import connect_unix


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
        document_url(address)  # raises where it is not safe
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
