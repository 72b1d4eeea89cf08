"""Tools, call ids and files as a vendor accepts them, from ours, the same every time.

    a name or id that is legal already   →  itself
    anything else                        →  what is legal of it, cut, "_" and a hash of the whole

The hash depends on nothing but the original, so the bytes of a request do not
change when tools come and go around it. `Names` keeps the way back.

Tool definitions come in the two spellings that are around:

    {"name", "description"?, "parameters"?}           ours
    {"type": "function", "function": {"name", …}}     OpenAI's, which many speak

A file is inline data, an address that the vendor can fetch, or words about it. What an API
cannot take is never dropped in silence: the model reads that there was a file, and the
request has a note.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from sightline.context.dialects.profile import IdRule, Tools
from sightline.context.messages.parts import File
from sightline.errors import InvalidInput

# RFC 2397.
DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(.*)", re.DOTALL)


class Inline(NamedTuple):
    """A file's content in base64, and its media type."""

    mime: str
    data: str


def inline(file: File) -> Inline | None:
    """Return the content of a `data:` address; None for any other."""
    match = DATA_URI.fullmatch(file.uri)
    return Inline(match[1] or file.mime, match[2]) if match else None


def is_web(file: File) -> bool:
    """Whether a file has a web address, which a vendor could fetch."""
    return file.uri.startswith(("https://", "http://"))


def placeholder(file: File) -> str:
    """Write the words that stand for a file which an API does not take."""
    where = "" if file.uri.startswith("data:") else f" at {file.uri}"
    return f"[file {file.name or 'without a name'} ({file.mime}){where}, not shown]"


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool by name, with the JSON Schema of its arguments (an object)."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def read_tools(definitions: Iterable[Mapping[str, Any]]) -> list[ToolDefinition]:
    """Read definitions in order; raise `InvalidInput` with the place of a bad one."""
    return [_read(number, given) for number, given in enumerate(definitions)]


def _read(number: int, given: Mapping[str, Any]) -> ToolDefinition:
    inner = given.get("function", given)
    if not isinstance(inner, Mapping):
        raise InvalidInput(f"tools[{number}]: its function is not an object")
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"tools[{number}]: a tool needs a name")
    description = inner.get("description", "")
    if not isinstance(description, str):
        raise InvalidInput(f"tools[{number}] ({name}): its description is not text")
    parameters = inner.get("parameters") or inner.get("input_schema") or {}
    if not isinstance(parameters, Mapping):
        raise InvalidInput(f"tools[{number}] ({name}): its parameters are not a JSON Schema")
    # Several vendors refuse a schema that does not say it is an object with properties.
    return ToolDefinition(name, description, {"type": "object", "properties": {}, **parameters})


HASH_CHARS: Final = 8
# From the vendors' API references. Mistral alone wants exactly nine.
ID_PATTERNS: Final[dict[IdRule, str]] = {
    "opaque": r".+",
    "safe": r"[A-Za-z0-9_-]{1,64}",
    "dotted": r"[A-Za-z0-9_.:-]{1,64}",
    "nine": r"[A-Za-z0-9]{9}",
    "none": r".*",
}


@lru_cache(maxsize=16_384)
def _hash(text: str, length: int) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    return b32encode(digest).decode().lower()[:length]


def wire_id(ours: str, rule: IdRule) -> str:
    """Return a call id that the vendor accepts; ours, where it does."""
    if re.fullmatch(ID_PATTERNS[rule], ours, re.DOTALL):
        return ours
    return _hash(ours, 9 if rule == "nine" else 24)


def legal_names(rules: Tools) -> re.Pattern[str]:
    """Return what a vendor accepts as a tool's name. Raises InvalidInput if none can be made."""
    least = HASH_CHARS + 2
    if 0 < rules.max_name < least:
        raise InvalidInput(f"tools.max_name: a name takes {least} characters, or 0 for no limit")
    more = f"{{0,{rules.max_name - 1}}}" if rules.max_name else "*"
    try:
        for alone in (f"[{rules.first}]", f"[^{rules.rest}]"):
            re.compile(alone)
        return re.compile(f"[{rules.first}][{rules.rest}]{more}")
    except (re.error, OverflowError) as error:
        raise InvalidInput(f"tools: no rule of names: {error}") from None


class Names:
    """The names of one request: ours to the vendor's, and back."""

    def __init__(self, names: Iterable[str], rules: Tools) -> None:
        self._rules = rules
        self._legal = legal_names(rules)
        offered = list(names)
        for name, count in Counter(offered).items():
            if count > 1:
                raise InvalidInput(f"the tool {name!r} is there {count} times")
        folded = Counter(name.casefold() for name in offered)
        self._wire = {
            name: self._mapped(name, force=folded[name.casefold()] > 1) for name in offered
        }

    def wire(self, ours: str) -> str:
        """Return the vendor's name of a tool, offered now or called long ago."""
        return self._wire.get(ours) or self._mapped(ours)

    @property
    def changed(self) -> dict[str, str]:
        """The vendor's name → ours, where they differ."""
        return {wire: ours for ours, wire in self._wire.items() if wire != ours}

    def _mapped(self, name: str, *, force: bool = False) -> str:
        """Hash a name that is illegal, or that differs from another only by case."""
        if not force and self._legal.fullmatch(name):
            return name
        kept = re.sub(rf"[^{self._rules.rest}]", "_", name)
        if not re.match(rf"[{self._rules.first}]", kept):
            kept = f"_{kept}"
        if self._rules.max_name:
            kept = kept[: self._rules.max_name - HASH_CHARS - 1]
        return f"{kept}_{_hash(name, HASH_CHARS)}"
