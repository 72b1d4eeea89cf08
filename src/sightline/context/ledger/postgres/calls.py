"""Call a function of the server's with values written as its protocol takes them.

The same as `Connection.execute`, for the one call that every append makes: there the client library
looks at each value and at each member of a list for its type, which costs more than all else that
the client does for it. Here the types are those of the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import psycopg
from psycopg import errors, generators, pq

__all__ = ["BIGINT", "BIGINTS", "BOOLEAN", "BYTEA", "BYTEAS", "TEXT", "TEXTS", "FunctionCall"]

# PostgreSQL's numbers of types (pg_type.dat), and of their arrays.
BOOLEAN, BYTEA, BIGINT, TEXT = 16, 17, 20, 25
BYTEAS, TEXTS, BIGINTS = 1001, 1009, 1016
_MEMBERS: Final = {BYTEAS: BYTEA, TEXTS: TEXT, BIGINTS: BIGINT}
_AS_WORDS: Final = (BOOLEAN, BIGINT)  # the others are bytes to the protocol, too
# array_recv: dimensions, whether any member is null, their type, how many, the first one's number;
# then of each its length and itself.
_HEAD: Final = Struct("!iiiii").pack
_LENGTH: Final = Struct("!i").pack
_NUMBER: Final = Struct("!iq").pack
_NULL: Final = b"\xff\xff\xff\xff"


class FunctionCall:
    """A call of a function whose parameters have these types."""

    def __init__(self, name: str, types: Sequence[int]) -> None:
        marks = ", ".join(f"${number}" for number in range(1, len(types) + 1))
        self.sql = f"SELECT {name}({marks})"
        self._sent = self.sql.encode()
        self._types = types
        self._formats = [pq.Format(kind not in _AS_WORDS) for kind in types]

    def answer(self, connection: psycopg.Connection[Any], values: Sequence[Any]) -> bytes | None:
        """Make the call, in one round trip; what it returns, as the server writes it."""
        server = connection.pgconn
        written = [_written(value, kind) for value, kind in zip(values, self._types, strict=True)]
        server.send_query_params(self._sent, written, self._types, self._formats)
        [result] = connection.wait(generators.execute(server))
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise errors.error_from_result(result)
        answer: bytes | None = result.get_value(0, 0)
        return answer


def _written(value: Any, kind: int) -> bytes | None:
    if value is None:
        return None
    if kind in _MEMBERS:
        return _array(value, _MEMBERS[kind])
    return str(value).encode() if kind in _AS_WORDS else _bytes(value)


def _array(values: Sequence[Any], kind: int) -> bytes:
    pieces = [_HEAD(1, None in values, kind, len(values), 1)]
    for value in values:
        if value is None:
            pieces.append(_NULL)
        elif kind == BIGINT:
            pieces.append(_NUMBER(8, value))
        else:
            data = _bytes(value)
            pieces += (_LENGTH(len(data)), data)
    return b"".join(pieces)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
