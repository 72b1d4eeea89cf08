"""`<meta name="slop">`: what a page says of its app, and what of it is believed. Pure.

    <meta name="slop" content="wss://board.example/slop">     the app's WebSocket
    <meta name="slop" content="postmessage">                  the page itself, in a browser

Whoever wrote the page speaks for its own host and port alone, as with `/.well-known/slop`: a page
cannot lead us to another machine, nor one of the Internet to this one or to its neighbours.

Only the head is read, in one go and without going back: a parser that mends what is broken takes
its time where somebody wants it to. Nothing in a page is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sightline._lazy import lazy_pattern
from sightline.errors import InvalidInput
from sightline.slop.discovery.wellknown import own_websocket

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
