"""Windows and prices of vendors' own models, from the list that `prices.json` ships.

`python -m proof.prices` writes the file from genai-prices, with that package's rules for names of
models. A test compares the two. `endpoints` overrides single values.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

FIELDS: Final = (
    "window_tokens", "prices.input", "prices.output", "prices.cache_read", "prices.cache_write",
    "prices.cache_write_long", "prices.long_tokens", "prices.long_factor",
    "prices.long_output_factor",
)  # fmt: skip
# Some routers write the date of a model without dashes: gpt-5.2-20251211.
_COMPACT_DATE: Final = re.compile(r"-(20\d\d)(\d\d)(\d\d)$")
# Bedrock adds a version, and Vertex separates the date by an @.
_VERSION: Final = re.compile(r"-v\d+(?::\d+)?$")
Rule = tuple[Any, ...]
# Bedrock and other routers put regions and vendors before a model's own name.
_ROUTED: Final = re.compile(r"(?:[a-z]{2,6}(?:-gov)?\.)?[a-z0-9-]+\.(?=[a-z])")


class PriceList(msgspec.Struct, frozen=True):
    """The shipped list: of each vendor its name, the rule for its models, and their rows."""

    source: str
    as_of: str
    vendors: tuple[tuple[str, Rule | None, tuple[tuple[Any, ...], ...]], ...]


# Created once, at import: msgspec crashes if two threads are the first to read a type.
_decoder: Final = msgspec.json.Decoder(PriceList)


@cache
def price_list() -> PriceList:
    """Read the shipped list, once for each process."""
    data = pkgutil.get_data(__package__, "prices.json") or b""
    return _decoder.decode(data)


@cache
def listed_values(model: str) -> dict[str, Any] | None:
    """Return the fields of a model by their dotted names, or None if the list has no price."""
    for name in _spellings(model.lower()):
        for _, owns, rows in price_list().vendors:
            if owns is not None and not is_match(owns, name):
                continue
            row = next((row for row in rows if is_match(row[0], name)), None)
            if row is not None:
                values = dict(zip(FIELDS, row[1:], strict=True))
                return None if values["prices.input"] is None else values
    return None


def is_match(rule: Rule, name: str) -> bool:
    """Return True if a rule fits a model's name in lower case."""
    sign, *rest = rule
    if sign in ("or", "and"):
        found = (is_match(tuple(one), name) for one in rest)
        return any(found) if sign == "or" else all(found)
    text = rest[0]
    if sign == "~":
        return re.search(text, name) is not None
    if sign == "in":
        return text in name
    if sign == "=":
        return bool(name == text)
    return name.startswith(text) if sign == "^" else name.endswith(text)


def _spellings(model: str) -> Iterator[str]:
    """Yield a name, then the same without routing prefix (`openai/…`, `us.anthropic.…`)."""
    bare = model.rsplit("/", 1)[-1]
    dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", bare)
    routed = _ROUTED.sub("", bare, count=1)
    yield from dict.fromkeys((model, bare, routed, dashed))
    yield _VERSION.sub("", routed).replace("@", "-")
