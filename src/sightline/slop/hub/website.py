"""An app on a web site: its address is read from `/.well-known/slop`, each time it is called.

One request, no redirect, no proxy, and bounds on its size and on the time it may take; what the
answer says is believed only as `discovery.wellknown` has it.
"""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
from http.client import HTTPException, HTTPResponse
from typing import IO, Final, cast
from urllib.parse import urlsplit

from sightline.errors import InvalidInput, TimedOut, Unreachable
from sightline.slop.discovery.descriptor import DESCRIPTOR_BYTES
from sightline.slop.discovery.wellknown import websocket_url
from sightline.slop.transports.link import why

__all__ = ["find_websocket"]

ANSWER_S: Final = 5.0
_HEAD_BYTES: Final = 16 * 1024
_OK: Final = 200


async def find_websocket(document: str) -> str:
    """Return the WebSocket that a site's description names. Raises Unreachable, TimedOut.

    Raises InvalidInput where the description cannot be believed.
    """
    try:
        async with asyncio.timeout(ANSWER_S):
            answer = await _get(document)
    except TimeoutError:
        raise TimedOut(f"{document}: no answer within {ANSWER_S:g} s") from None
    except OSError as error:
        raise Unreachable(f"{document}: {why(error)}") from error
    if len(answer) > _HEAD_BYTES + DESCRIPTOR_BYTES:
        raise InvalidInput(f"{document}: a description has at most {DESCRIPTOR_BYTES} bytes")
    return websocket_url(_body(answer, document), document)


async def _get(url: str) -> bytes:
    """Ask for a page, and read what comes until its end or until it is too much."""
    parts = urlsplit(url)
    encrypted = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (80 if encrypted is None else 443)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=encrypted)
    try:
        head = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: application/json\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode("ascii"))
        answer = bytearray()
        while piece := await reader.read(_HEAD_BYTES):
            answer += piece
            if len(answer) > _HEAD_BYTES + DESCRIPTOR_BYTES:
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


def _body(answer: bytes, document: str) -> bytes:
    try:
        response = HTTPResponse(cast(socket.socket, _Received(answer)))
        response.begin()
        body = response.read()
    except (HTTPException, ValueError, OSError) as error:
        raise Unreachable(f"{document}: not an answer to be read: {error}") from error
    if response.status != _OK:
        raise Unreachable(f"{document}: answered with status {response.status}")
    return body
