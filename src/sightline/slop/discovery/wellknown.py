"""What an app says of itself over HTTP, and what of it is believed. Pure.

    /.well-known/slop                                         a document about the app
    <meta name="slop" content="wss://board.example/slop">     in a page: the app's WebSocket
    <meta name="slop" content="postmessage">                  the page itself, in a browser

It says where the WebSocket is, and never a token: it is how a client learns where to bring one.
Whoever answers at a host and port speaks for that host and port alone: a document or a page that
points anywhere else is refused, or it could lead what is meant for one app to another, and one of
the Internet to this machine or to its neighbours.

Of a page only the head is read, in one go and without going back: a parser that mends what is
broken takes its time where somebody wants it to. Nothing in a page is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from sightline._lazy import lazy_pattern
from sightline.errors import InvalidInput
from sightline.slop.discovery.descriptor import DESCRIPTOR_BYTES, Transport, Ws
from sightline.slop.protocol.jsontext import NESTING, nests_deeper, text_from_bytes
from sightline.slop.protocol.messages import ProviderInfo
from sightline.slop.transports.door import is_loopback

WELL_KNOWN: Final = "/.well-known/slop"  # RFC 8615: well-known URIs
_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_UNSAFE: Final = re.compile(r"[^!-~]")  # RFC 3986: a URL is printable ASCII without blanks
_encoder: Final = msgspec.json.Encoder()
PAGE_BYTES: Final = 64 * 1024
_NAME: Final = "slop"
_IN_PAGE: Final = "postmessage"
_TAG_CHARS: Final = 2048
_TAG: Final = lazy_pattern(r"<(/?[a-z][a-z0-9:-]{0,31})((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE: Final = lazy_pattern(
    r"([^\s\"'>/=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?"
)
# HTML, "the head element": what can stand in it; anything else ends it. The second ones have
# text inside that is not the page's own markup, or not always.
_EMPTY: Final = frozenset({"html", "head", "base", "link", "meta"})
_FILLED: Final = frozenset({"title", "script", "style", "noscript", "template"})


class _Document(msgspec.Struct, frozen=True):
    transport: Transport


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_documents: Final = msgspec.json.Decoder(_Document)


def describe_app(info: ProviderInfo, url: str, description: str | None = None) -> bytes:
    """Write the document of an app whose WebSocket is at a URL."""
    described: dict[str, Any] = {
        "id": info.id,
        "name": info.name,
        "slop_version": info.slop_version,
        "transport": {"type": "ws", "url": url},
        "capabilities": info.capabilities,
    }
    if description is not None:
        described["description"] = description
    return _encoder.encode(described)


def document_url(address: str) -> str:
    """Say where the document of an address is. Raises InvalidInput for one that is not safe."""
    parts = web_address(address, "an address of an app")
    path = parts.path.rstrip("/").removesuffix(WELL_KNOWN)
    return f"{parts.scheme}://{parts.netloc}{path}{WELL_KNOWN}"


def web_address(address: str, kind: str) -> SplitResult:
    """Take the address of a kind of server apart. Raises InvalidInput for one that is not safe."""
    parts = _parts(address)
    if parts is None or parts.scheme not in {"http", "https"}:
        raise InvalidInput(f"not {kind}: {address[:200]!r}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise InvalidInput(f"{address[:200]}: http:// goes to this machine only, use https://")
    return parts


def page_url(address: str) -> str | None:
    """Say where the page of an address is; None if the address is that of a document."""
    parts = _parts(address)
    if parts is None or parts.path.endswith(WELL_KNOWN):
        return None
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path or '/'}{query}"


def websocket_url(document: bytes, url: str) -> str:
    """Read an app's WebSocket address from the well-known document found at a URL.

    Raises InvalidInput unless it is at the same host and port; from https it is wss.
    """
    if len(document) > DESCRIPTOR_BYTES:
        raise InvalidInput(f"{url}: a description has at most {DESCRIPTOR_BYTES} bytes")
    try:
        if nests_deeper(document, NESTING):
            raise InvalidInput(f"{url}: nested deeper than {NESTING} levels")
        transport = _documents.decode(text_from_bytes(document)).transport
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{url}: does not describe an app: {error}") from None
    if not isinstance(transport, Ws):
        raise InvalidInput(f"{url}: describes an app without a WebSocket")
    return own_websocket(transport.url, url)


def own_websocket(named: str, url: str) -> str:
    """Return the WebSocket that what is found at a URL names.

    Raises InvalidInput unless it is at the same host and port; from https it is wss.
    """
    here, there = _parts(url), _parts(named)
    if here is None or there is None or there.scheme not in {"ws", "wss"} or there.fragment:
        raise InvalidInput(f"{url}: names no WebSocket: {named[:200]!r}")
    # What ends the encryption before the app does not always tell it.
    scheme = "wss" if here.scheme == "https" else there.scheme
    if not _same_place(here, there, scheme):
        raise InvalidInput(
            f"{url}: points to another place, {named[:200]!r}; "
            "give that address itself if it is the one you mean"
        )
    query = f"?{there.query}" if there.query else ""
    return f"{scheme}://{here.netloc}{there.path or '/'}{query}"


def _parts(url: str) -> SplitResult | None:
    """Take a URL apart; None for what is none, or carries a user's name."""
    try:
        parts = urlsplit(url)  # raises where a bracket is not closed
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    is_plain = not _UNSAFE.search(url) and parts.username is None and parts.password is None
    return parts if is_plain and parts.hostname else None


def _same_place(here: SplitResult, there: SplitResult, scheme: str) -> bool:
    hosts = {here.hostname or "", there.hostname or ""}
    same_host = len(hosts) == 1 or all(map(is_loopback, hosts))
    return same_host and (here.port or _PORTS[here.scheme]) == (there.port or _PORTS[scheme])


def page_websocket(page: bytes, url: str) -> str | None:
    """Return the WebSocket that the page at a URL names as its app's; None if it names none.

    Raises InvalidInput for one that is not at the page's own host and port, and where the app
    can only be had in a browser.
    """
    named = [content.strip() for content in _contents(page[:PAGE_BYTES])]
    for content in named:
        if content.lower() != _IN_PAGE:
            return own_websocket(content, url)
    if named:
        raise InvalidInput(f"{url}: shows its app in a browser only; open it there")
    return None


def _contents(page: bytes) -> Iterator[str]:
    # An address is ASCII, and so is all that is looked for.
    text = page.decode("ascii", "replace")
    small = text.lower()
    at = 0
    while (at := small.find("<", at)) >= 0:
        if small.startswith("<!--", at):
            at = _behind(small, "-->", at)
        elif small.startswith(("<!", "<?"), at):
            at = _behind(small, ">", at)
        elif not small[at + 1 : at + 2].isalpha() and not small.startswith("</", at):
            at += 1
        elif (tag := _TAG.match(small, at, at + _TAG_CHARS)) is None:
            return
        elif tag[1] in _FILLED:
            at = _behind(small, f"</{tag[1]}", tag.end())
        elif tag[1] in _EMPTY or tag[1].removeprefix("/") in _FILLED:
            at = tag.end()
            if tag[1] == "meta":
                yield from _content(text[tag.start(2) : tag.end(2)])
        else:
            return
        if at < 0:
            return


def _behind(text: str, end: str, at: int) -> int:
    found = text.find(end, at)
    return -1 if found < 0 else found + len(end)


def _content(attributes: str) -> Iterator[str]:
    """Give the content of a tag that has our name; the first of two attributes counts."""
    import html  # its table of 2,231 names is for pages alone

    found: dict[str, str] = {}
    for one in _ATTRIBUTE.finditer(attributes):
        value = next((part for part in one.groups()[1:] if part is not None), "")
        found.setdefault(one[1].lower(), html.unescape(value))
    if found.get("name", "").strip().lower() == _NAME and found.get("content", "").strip():
        yield found["content"]
