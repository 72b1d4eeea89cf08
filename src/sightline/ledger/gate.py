"""The boundary: everything written to a ledger passes here, once.

First the rule of storable.py, so that what is stored comes back as it was; then
redaction, so that keys are not stored at all; then the size limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sightline.context.parts import Message
from sightline.context.redact import redact, redact_message
from sightline.context.storable import check_message, check_text
from sightline.errors import InvalidInput

__all__ = ["Gate", "Limits"]

_MIB: Final = 1024 * 1024
_MAX_COUNT: Final = 2**53  # what every JSON reader takes for an exact integer


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes of UTF-8; over one of them nothing is stored and `TooLarge` says so."""

    message: int = 64 * _MIB
    scratchpad: int = 64 * 1024
    state: int = 256 * 1024
    memo: int = 64 * 1024
    receipt: int = 16 * _MIB
    name: int = 256


@dataclass(frozen=True, slots=True)
class Gate:
    """What a ledger lets in. `redacting=False` stores texts as they come."""

    limits: Limits = Limits()
    redacting: bool = True

    def text(self, text: str, where: str, max_bytes: int) -> str:
        """Check and redact a text."""
        check_text(text, where)
        return check_text(redact(text) if self.redacting else text, where, max_bytes=max_bytes)

    def line(self, text: str, where: str) -> str:
        """Check and redact a name: one line, not empty."""
        if not text.strip() or not text.isprintable():
            raise InvalidInput(f"{where} is one line of printable text; not {text[:60]!r}")
        return self.text(text.strip(), where, self.limits.name)

    def message(self, message: Message) -> Message:
        """Check and redact a message."""
        check_message(message)
        return redact_message(message) if self.redacting else message

    @staticmethod
    def count(value: object, where: str) -> int:
        """Check a number of tokens, bytes or money."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_COUNT:
            raise InvalidInput(f"{where} is a whole number from 0 to 2^53; not {value!r}")
        return value
