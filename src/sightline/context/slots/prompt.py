"""The assembled value that a dialect encodes.

    tools · messages[:boundary] │ messages[boundary:]
    ───────── prefix ────────── │ ────── tail ──────

`prefix_bytes` is the canonical form of what must not change between requests;
its digest is in the receipt.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import takewhile
from typing import Any, Final

import msgspec

from sightline._keywords import NamesKeywords
from sightline.context.messages.parts import Message
from sightline.context.slots.receipt import Receipt
from sightline.context.slots.units import Beginning, Beginnings
from sightline.errors import InvalidInput


class Prompt(msgspec.Struct, frozen=True, metaclass=NamesKeywords):
    """What one request says. `boundary` is the number of messages in the stable prefix."""

    messages: tuple[Message, ...]
    boundary: int
    receipt: Receipt
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def prefix(self) -> tuple[Message, ...]:
        """The messages before the boundary."""
        return self.messages[: self.boundary]

    @property
    def tail(self) -> tuple[Message, ...]:
        """The volatile messages, rebuilt for every request."""
        return self.messages[self.boundary :]

    def encode(self) -> bytes:
        """Write it as JSON, receipt included."""
        return msgspec.json.encode(self, enc_hook=list)

    @classmethod
    def decode(cls, data: bytes) -> Prompt:
        """Read what `encode` wrote; raise `InvalidInput` for anything else."""
        try:
            return _prompts.decode(data)
        except msgspec.DecodeError as error:
            raise InvalidInput(f"not a prompt: {error}") from error

    def prefix_bytes(self) -> bytes:
        """Serialize tools and prefix; a later prompt with the same stable slots begins so."""
        return serialize(self.tools, self.prefix)


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_prompts: Final = msgspec.json.Decoder(Prompt)


def serialize(tools: Sequence[dict[str, Any]], messages: Sequence[Message]) -> bytes:
    """Write tools and messages one per line, in order; more messages only add lines."""
    return _write([list(tools)]) + _write(messages)


_write: Final = msgspec.json.Encoder(order="sorted").encode_lines
# The newest messages may be cut shorter next time; what stands before them is hashed once.
_NEWEST: Final = 16
_HASHED: Final[Beginnings[Any]] = Beginnings()


def digest_of(tools: Sequence[dict[str, Any]], messages: Sequence[Message]) -> str:
    """Return the SHA-256 of the serialized form."""
    texts = sum(1 for _ in takewhile(lambda message: message.role == "system", messages))
    # Instructions are made anew for every prompt, so they are known by what they say.
    head, spoken = serialize(tools, messages[:texts]), list(messages[texts:])
    held, same = _HASHED.take(head, spoken)
    if held is None or same < len(held.messages):
        held, same = Beginning(sha256(head)), 0
    older = spoken[same:-_NEWEST]
    held.value.update(_write(older))
    held.replace_from(same, older, held.value)
    whole = held.value.copy()
    whole.update(_write(spoken[same + len(older) :]))
    _HASHED.put(head, held)
    digest: str = whole.hexdigest()
    return digest
