"""Tool names and call ids that a vendor accepts, from ours, the same every time.

    legal already       →  itself
    anything else       →  what is legal of it, cut, "_" and a hash of the whole

The hash depends on nothing but the original, so the bytes of a request do not
change when tools come and go around it. `Names` keeps the way back.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Final

from sightline.context.dialects.profile import IdRule, Tools
from sightline.errors import InvalidInput

HASH_CHARS: Final = 8
# From the vendors' API references. Mistral alone wants exactly nine.
ID_PATTERNS: Final[dict[IdRule, str]] = {
    "opaque": r".+",
    "safe": r"[A-Za-z0-9_-]{1,64}",
    "dotted": r"[A-Za-z0-9_.:-]{1,64}",
    "nine": r"[A-Za-z0-9]{9}",
    "none": r".*",
}
ID_CHARS: Final[dict[IdRule, int]] = {"nine": 9}


@lru_cache(maxsize=16_384)
def _hash(text: str, length: int) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    return b32encode(digest).decode().lower()[:length]


def wire_id(ours: str, rule: IdRule) -> str:
    """Return a call id that the vendor accepts; ours, where it does."""
    if re.fullmatch(ID_PATTERNS[rule], ours, re.DOTALL):
        return ours
    return _hash(ours, ID_CHARS.get(rule, 24))


class Names:
    """The names of one request: ours to the vendor's, and back."""

    def __init__(self, names: Iterable[str], rules: Tools) -> None:
        self._rules = rules
        self._legal = re.compile(
            rf"[{rules.first}][{rules.rest}]{{0,{max(0, rules.max_name - 1)}}}"
        )
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
        return f"{kept[: self._rules.max_name - HASH_CHARS - 1]}_{_hash(name, HASH_CHARS)}"
