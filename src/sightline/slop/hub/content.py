"""What stands behind a content reference, for a host that decides where content may come from.

    slop://content/PATH   the app itself: the `read_content` action of its node, piece by piece
    data:…                the reference itself
    http: https: file:    only from an origin or a directory that the host has allowed

An app writes its references, so a reference is a wish of the app's: without the host's
leave it could have any page fetched from inside the user's network, and any file read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote, unquote_to_bytes, urlsplit

import msgspec

from sightline.errors import InvalidInput, TimedOut, TooLarge, Unauthorized, Unreachable
from sightline.slop.hub.client import Client
from sightline.slop.protocol.tree import ContentRef
from sightline.slop.transports.link import why
from sightline.slop.transports.owned import open_regular

_SLOP: Final = "slop://content/"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class ContentAccess(msgspec.Struct, frozen=True):
    """Where a host lets content come from, besides the app itself, and how much of it.

    Origins are written as browsers do (`https://cdn.example`, with a port if it is not the
    scheme's own) and compared exactly; a file must lie below one of the directories, links
    followed.
    """

    origins: frozenset[str] = frozenset()
    directories: tuple[Path, ...] = ()
    max_bytes: int = 16 * 1024 * 1024
    timeout_s: float = 30.0


async def read_content(
    client: Client, ref: ContentRef, access: ContentAccess | None = None
) -> bytes:
    """Read all of a content, text as UTF-8.

    Raises Unauthorized where the host has not allowed its source, TooLarge, InvalidInput for
    a reference that means nothing, ActionFailed or Unreachable where it cannot be had.
    """
    access = access or ContentAccess()
    path = path_in_app(ref)
    if path is not None:
        return await _from_app(client, path, access)
    try:
        parts = urlsplit(ref.uri)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"not a content reference: {error}") from error
    match parts.scheme:
        case "data":
            return _inline(ref.uri, access)
        case "http" | "https":
            _check_origin(parts, port, access)
            return await _in_thread(lambda: _fetched(ref.uri, access), access)
        case "file":
            return await _in_thread(lambda: _from_file(parts, access), access)
    raise InvalidInput(f"content cannot be had from {parts.scheme or 'nowhere'!r}")


async def read_text(client: Client, ref: ContentRef, access: ContentAccess | None = None) -> str:
    """Read a content that is a text. Raises InvalidInput where it is none, else as above."""
    content = await read_content(client, ref, access)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{ref.mime}, {len(content):,} bytes, is not a text") from None


def path_in_app(ref: ContentRef) -> str | None:
    """Say which node of the app is asked for the content; None if the app is not asked."""
    return "/" + ref.uri.removeprefix(_SLOP) if ref.uri.startswith(_SLOP) else None


async def _from_app(client: Client, path: str, access: ContentAccess) -> bytes:
    content = bytearray()
    offset, size = 0, 1
    while offset < size:
        outcome = await client.invoke(path, "read_content", {"offset": offset})
        piece, units, size = _piece(outcome.data)
        content += piece
        if len(content) > access.max_bytes:
            raise TooLarge(f"{path}: the content has more than {access.max_bytes} bytes")
        if not units and offset < size:
            raise InvalidInput(f"{path}: the content ends at {offset} of {size}")
        offset += units
    return bytes(content)


def _piece(data: Any) -> tuple[bytes, int, int]:
    """Take an answer apart: the bytes, how many units they are, how many there are in all."""
    match data:
        case {"content": str() as text, "encoding": "utf-8", "size": int() as size}:
            return text.encode(errors="replace"), len(text), size
        case {"content": str() as text, "encoding": "base64", "size": int() as size}:
            piece = _unpacked(text)
            return piece, len(piece), size
    raise InvalidInput("read_content did not answer with a piece of content")


def _inline(uri: str, access: ContentAccess) -> bytes:
    # RFC 2397: data:[type][;base64],content
    head, comma, body = uri.partition(",")
    if not comma:
        raise InvalidInput("a data: reference has its content after a comma")
    content = unquote_to_bytes(body)
    if head.lower().endswith(";base64"):
        content = _unpacked(content)
    if len(content) > access.max_bytes:
        raise TooLarge(f"the content has more than {access.max_bytes} bytes")
    return content


def _unpacked(text: str | bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"the content is not base64: {error}") from error


def _check_origin(parts: SplitResult, port: int | None, access: ContentAccess) -> None:
    host = (parts.hostname or "").lower()
    named = f"[{host}]" if ":" in host else host
    shown = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    origin = f"{parts.scheme}://{named}{shown}"
    if parts.username is not None or origin not in access.origins:
        raise Unauthorized(f"content from {origin} is not allowed here")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An allowed origin does not speak for the one that it points to."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _fetched(uri: str, access: ContentAccess) -> bytes:
    opener = urllib.request.build_opener(_NoRedirect(), urllib.request.ProxyHandler({}))
    try:
        with opener.open(uri, timeout=access.timeout_s) as answer:
            return _bounded(answer.read, uri, access)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):  # which holds the answer open
            error.close()
        raise Unreachable(f"{uri}: {error}") from error


def _from_file(parts: SplitResult, access: ContentAccess) -> bytes:
    # RFC 8089 §2: the host of a local file is empty, or localhost.
    if parts.netloc not in {"", "localhost"}:
        raise Unauthorized("a file of another machine is not read")
    try:
        path = Path(unquote(parts.path)).resolve(strict=True)
    except (OSError, ValueError):
        # Whether a file is there is not told of a place that may not be read.
        raise Unauthorized(f"{parts.path}: not in a directory that is allowed here") from None
    if not any(path.is_relative_to(directory.resolve()) for directory in access.directories):
        raise Unauthorized(f"{parts.path}: not in a directory that is allowed here")
    try:
        # Resolved, so a link here was put there since.
        with open_regular(path) as (opened, _):
            return _bounded(opened.read, parts.path, access)
    except OSError as error:
        kind = InvalidInput if error.errno == errno.ENXIO else Unreachable
        raise kind(f"{parts.path}: {why(error)}") from error


def _bounded(read: Callable[[int], bytes], name: str, access: ContentAccess) -> bytes:
    content = read(access.max_bytes + 1)
    if len(content) > access.max_bytes:
        raise TooLarge(f"{name}: the content has more than {access.max_bytes} bytes")
    return content


async def _in_thread(work: Callable[[], bytes], access: ContentAccess) -> bytes:
    try:
        async with asyncio.timeout(access.timeout_s):
            return await asyncio.to_thread(work)
    except TimeoutError:
        raise TimedOut(f"no content within {access.timeout_s:g} s") from None
