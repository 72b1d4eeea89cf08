"""The boundary: everything written to a ledger passes here, once.

    gate(gate(x)) == gate(x)

1. The rule of storable.py: what would come back different is refused.
2. No tail is stored. Context blocks leave every string, and a tag that belongs to
   no block can no longer open or close one (projection/strip.py). A vendor's raw
   form cannot be edited, for it may be signed: one with a whole block in it is left
   out, so that the neutral part beside it is what is replayed.
3. No key is stored (context/redact.py). After the blocks, so that what is taken
   apart there is seen here as it will stand; a mark in place of a key is no tag.
4. The size limit, of what is left.

A retry passes here too, so an idempotency key meets the messages that it stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from sightline.context.messages.parts import Message, Raw
from sightline.context.messages.redact import redact, redact_json, redact_message
from sightline.context.messages.storable import check_json, check_message, check_text, storable
from sightline.context.messages.strings import map_json, map_strings
from sightline.context.projection.strip import close_block, has_block, strip_blocks
from sightline.errors import InvalidInput

__all__ = ["Gate", "LedgerLimits"]

_MIB: Final = 1024 * 1024
# Every printable character of ASCII but the space: what a key is made of.
_KEY_CHARACTERS: Final = "".join(map(chr, range(0x21, 0x7F)))
_MAX_COUNT: Final = 2**53  # what every JSON reader takes for an exact integer


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """Sizes in bytes of UTF-8; over one of them nothing is stored and `TooLarge` says so."""

    message: int = 64 * _MIB
    scratchpad: int = 64 * 1024
    state: int = 256 * 1024
    memo: int = 64 * 1024
    receipt: int = 16 * _MIB
    strategy_state: int = 16 * _MIB
    error: int = 64 * 1024
    name: int = 256


@dataclass(frozen=True, slots=True)
class Gate:
    """What a ledger lets in. `redacting=False` stores texts as they come."""

    limits: LedgerLimits = LedgerLimits()
    redacting: bool = True

    def text(self, text: str, where: str, max_bytes: int) -> str:
        """Check a text, take tails and keys out of it, and hold it to its size."""
        text = strip_blocks(check_text(text, where))
        return check_text(redact(text) if self.redacting else text, where, max_bytes=max_bytes)

    def json(self, value: dict[str, Any], where: str, max_bytes: int) -> str:
        """Write a JSON value whose strings passed as texts do."""
        check_json(value, where)
        value = map_json(value, strip_blocks)
        text = msgspec.json.encode(redact_json(value) if self.redacting else value).decode()
        return check_text(text, where, max_bytes=max_bytes)

    def beginning(self, text: str, *, whole: bool = False) -> str:
        """Pass the beginning of a text that is still being said, whatever it is.

        A context block that is open goes to the end, and so does a word that may still
        become a key, unless what is said is `whole`.
        """
        text = storable(text if whole else text.rstrip(_KEY_CHARACTERS))
        text = strip_blocks(close_block(text))
        return redact(text) if self.redacting else text

    def line(self, text: str, where: str) -> str:
        """Pass a name: one line, not empty."""
        if not text.strip() or not text.isprintable():
            raise InvalidInput(f"{where} is one line of printable text; not {text[:60]!r}")
        name = self.text(text.strip(), where, self.limits.name)
        if not name.isprintable():  # what stood on both sides of a block
            name = " ".join(name.split())
        if not name:
            raise InvalidInput(f"{where} is a context block and nothing else")
        return name

    def message(self, message: Message) -> Message:
        """Check a message, and take tails and keys out of it."""
        check_message(message)
        message = map_strings(message, text=strip_blocks, value=_strip_json, raw=_without_block)
        return redact_message(message) if self.redacting else message

    @staticmethod
    def count(value: object, where: str) -> int:
        """Check a number of tokens, bytes or money."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
            raise InvalidInput(f"{where} is a whole number from 0 to 2^53; not {value!r}")
        return value


def _strip_json(value: Any) -> Any:
    return map_json(value, strip_blocks)


def _without_block(raw: Raw) -> Raw | None:
    todo: list[Any] = [raw.strategy, raw.data]
    while todo:
        match todo.pop():
            case str() as text if has_block(text):
                return None
            case list() as items:
                todo += items
            case dict() as fields:
                todo += [*fields, *fields.values()]
    return raw
