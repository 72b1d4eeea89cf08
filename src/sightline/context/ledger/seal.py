"""The arithmetic of the ledger's integrity: what a row's digest is made of.

    digest of a row      SHA-256 of the MessagePack array [table, column, column, …]
                         with trailing nulls left out
    digest of a message  SHA-256 of (digest of the message before it in its group, or the
                         group's salt for the first) followed by its columns as above
    chain of a group     SHA-256 of (chain of the group before it, or 32 zero bytes)
                         followed by the group's fixed columns and its last message's digest
    tally                the sum of digests as little-endian numbers, modulo 2^256

A column added by a later format stands at the end and is null in older rows, so
it leaves their digests as they are. The salt is random and goes when a group is
removed: what stays of it then reveals nothing, and the chain still closes.

There is no key in this. It finds damage and careless edits; who can write the
file and knows the format can make a ledger that verifies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec

from sightline.context.ledger.schema import TABLES

Value: TypeAlias = str | int | bytes | float | None

ZERO: Final = bytes(32)
# The columns of a group that its chain covers, in this order: those that never change.
CHAINED: Final = (
    "id",
    "session_id",
    "seq",
    "first_seq",
    "messages",
    "created_at",
    "content_digest",
)
_chained: Final = itemgetter(*CHAINED)
_MODULUS: Final = 1 << 256
_encode: Final = msgspec.msgpack.Encoder().encode


def seal(table: str, row: Mapping[str, Value]) -> bytes:
    """Seal one row of a table: its sealed columns, those that it lacks as null."""
    values = [row.get(name) for name in TABLES[table].sealed]
    return sha256(_encode((table, *_trimmed(values)))).digest()


def message_digest(before: bytes, values: Sequence[Value]) -> bytes:
    """Seal one message, after the message (or the salt) before it."""
    return sha256(before + _encode(_trimmed(values))).digest()


def broken_seals(before: bytes, rows: Sequence[Sequence[Any]], width: int) -> list[int]:
    """Find the messages whose stored digest, their last value, is not that of the first `width`.

    The loop that verify spends its time in; it says the same as `message_digest`.
    """
    broken = []
    for index, row in enumerate(rows):
        end = width
        while end and row[end - 1] is None:
            end -= 1
        stored = row[-1]
        if sha256(before + _encode(row[:end])).digest() != stored:
            broken.append(index)
        before = stored
    return broken


def group_chain(before: bytes, group: Mapping[str, Value]) -> bytes:
    """Seal a group's `CHAINED` columns, after the group before it."""
    return sha256(before + _encode(_chained(group))).digest()


def tally_move(tally: bytes, *, add: bytes = ZERO, take: bytes = ZERO) -> bytes:
    """Move a tally by one digest in, one digest out, or both."""
    total = _number(tally) + _number(add) - _number(take)
    return (total % _MODULUS).to_bytes(32, "little")


def _number(digest: bytes) -> int:
    return int.from_bytes(digest, "little")


def _trimmed(values: Sequence[Value]) -> Sequence[Value]:
    if values[-1] is not None:
        return values
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    return values[:end]
