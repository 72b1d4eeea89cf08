"""An app on a web site: its address is read from `/.well-known/slop`, each time it is called.

Where a site has no such document, the page at the address may name its app itself
(`<meta name="slop">`). Each is one request, no redirect, no proxy, and bounds on its size and
the time it may take; what the answer says is believed only as `discovery.wellknown` and
`discovery.pagetag` have it.
"""

from __future__ import annotations

import asyncio
import io
import socket
import ssl
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import IO, Final, NamedTuple, cast
from urllib.parse import urlsplit

from sightline.errors import InvalidInput, TimedOut, Unreachable
from sightline.slop.discovery.descriptor import DESCRIPTOR_BYTES
from sightline.slop.discovery.pagetag import PAGE_BYTES, page_websocket
from sightline.slop.discovery.wellknown import document_url, page_url, websocket_url
from sightline.slop.transports.link import why

ANSWER_S: Final = 5.0
_HEAD_BYTES: Final = 16 * 1024
_MISSING: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE})


class _Answer(NamedTuple):
    status: int
    is_html: bool
    body: bytes


async def find_websocket(address: str) -> str:
    """Return the WebSocket that a site names. Raises Unreachable, TimedOut.

    Raises InvalidInput where what the site says cannot be believed.
    """
    document, page = document_url(address), page_url(address)
    answer = await _ask(document, "application/json", DESCRIPTOR_BYTES)
    # Many a server answers with its page wherever it has nothing.
    is_missing = answer.status in _MISSING or (answer.status == HTTPStatus.OK and answer.is_html)
    if is_missing and page is not None:
        shown = await _ask(page, "text/html", PAGE_BYTES, is_cut=True)
        if shown.status == HTTPStatus.OK and shown.is_html:
            named = page_websocket(shown.body, page)
            if named is not None:
                return named
    if answer.status != HTTPStatus.OK:
        raise Unreachable(f"{document}: answered with status {answer.status}")
    return websocket_url(answer.body, document)


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
