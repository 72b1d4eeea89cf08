"""Speak to the server as its protocol does: many statements in a trip, values as it takes them.

The same as `Connection.pipeline` and `execute`. There the client library looks at each value and
at each member of a list for its type and keeps a cursor for each statement, which costs more than
all else that the client does for an append or a short question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from struct import Struct
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import errors, generators, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer

from sightline.context.ledger.rows import Values

# PostgreSQL's numbers of types (pg_type.dat), and of their arrays. Of none, it takes a value for
# what the statement wants.
ANY, BOOLEAN, BYTEA, BIGINT, TEXT, DOUBLE = 0, 16, 17, 20, 25, 701
BYTEAS, TEXTS, BIGINTS = 1001, 1009, 1016
_MOST_NAMES: Final = 256
# PostgreSQL, error codes: no statement of that name, or one that has other columns by now.
_UNKNOWN_BY_NAME: Final = ("26000", "0A000")
_AS_WORDS: Final = (BOOLEAN, BIGINT)  # the others are bytes to the protocol, too
TRUE: Final = b"\1"  # boolsend
_DONE: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
# array_recv: dimensions, whether any member is null, their type, how many, the first one's number;
# then of each its length and itself.
_HEAD: Final = Struct("!iiiii").pack
_LENGTH: Final = Struct("!i").pack
_NUMBER: Final = Struct("!q").pack
_NULL: Final = b"\xff\xff\xff\xff"


class BoundStatement(NamedTuple):
    """A statement with its values, each in words or in bytes."""

    sql: bytes
    values: Sequence[bytes | None]
    types: Sequence[int]
    formats: Sequence[int]


class ServerAnswer:
    """What a statement came to."""

    def __init__(self, connection: psycopg.Connection[Any], result: pq.abc.PGresult) -> None:
        self._connection = connection
        self._result = result

    @property
    def value(self) -> bytes | None:
        """The only value of the only row, as the server writes it."""
        return self._result.get_value(0, 0)

    def names(self) -> list[str]:
        """Name the columns."""
        return [
            (self._result.fname(number) or b"").decode() for number in range(self._result.nfields)
        ]

    def rows(self) -> list[tuple[Any, ...]]:
        """Read the rows."""
        loading = Transformer(self._connection)
        loading.set_pgresult(self._result, set_loaders=True, format=pq.Format.BINARY)
        return loading.load_rows(0, self._result.ntuples, tuple)


class LedgerConnection(psycopg.Connection[Any]):
    """A connection that sends statements together, and those that come again by their names.

    Only what begins or ends a transaction has a name: behind a pooler the server may know it not,
    or by somebody else, and then it is all sent again as it is. Alike named is alike, whoever did
    it.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._names: dict[bytes, bytes] = {}  # of statements; empty for one that came once
        self._expected: dict[bytes, BoundStatement] = {}
        self._is_direct = True

    def expect(self, one: BoundStatement) -> None:
        """Give a statement its name with the next transaction, which will `end` with it."""
        if not self._names.get(one.sql):
            self._expected[one.sql] = one

    def end(self, statements: Sequence[BoundStatement]) -> list[ServerAnswer] | None:
        """Send the last statements of a transaction; None if it has to be begun again.

        One that was expected goes by its name, which the server of a pooler may not know.
        """
        if not self._is_direct:
            return self._exchange(statements)
        try:
            return self._exchange(statements, names=self._names)
        except psycopg.Error as error:
            if error.sqlstate not in _UNKNOWN_BY_NAME:
                raise
        self._is_direct = False
        return None

    def exchange(
        self, statements: Sequence[BoundStatement], *, begins: bool = False
    ) -> list[ServerAnswer]:
        """Send statements in one round trip; what each came to. Raise what the first raised."""
        if not begins or not self._is_direct:
            return self._exchange(statements)
        new = {one.sql: one for one in statements if self._names.get(one.sql) == b""}
        new |= self._expected
        self._expected = {}
        for one in statements:
            if len(self._names) < _MOST_NAMES:
                self._names.setdefault(one.sql, b"")
        try:
            return self._exchange(statements, new, self._names)
        except psycopg.Error as error:
            if error.sqlstate not in _UNKNOWN_BY_NAME:
                raise
        self._is_direct = False
        if self.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            self.execute("ROLLBACK")
        return self._exchange(statements)

    def _exchange(
        self,
        statements: Sequence[BoundStatement],
        new: Mapping[bytes, BoundStatement] = MappingProxyType({}),
        names: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> list[ServerAnswer]:
        server = self.pgconn
        if len(statements) == 1 and not new:
            self._put(statements[0], names)
            results = self.wait(generators.execute(server))
        else:
            try:
                server.enter_pipeline_mode()
                for one in new.values():
                    self._names[one.sql] = _name(one)
                    server.send_prepare(_name(one), one.sql, one.types)
                if new:
                    server.pipeline_sync()  # a transaction begins behind it
                for one in statements:
                    self._put(one, names)
                server.pipeline_sync()
                before = len(new) + bool(new)
                results = self.wait(_results(server, before + len(statements) + 1))[before:-1]
                server.exit_pipeline_mode()
            except BaseException:
                self.close()  # nobody knows what is still on its way
                raise
        for result in results:
            if result.status not in _DONE:
                raise errors.error_from_result(result)
        return [ServerAnswer(self, result) for result in results]

    def _put(self, one: BoundStatement, names: Mapping[bytes, bytes]) -> None:
        if name := names.get(one.sql):
            self.pgconn.send_query_prepared(name, one.values, one.formats, pq.Format.BINARY)
        else:
            self.pgconn.send_query_params(*one, pq.Format.BINARY)


def _name(one: BoundStatement) -> bytes:
    return b"sightline_" + sha256(repr(one[::2]).encode()).hexdigest()[:32].encode()


def _results(server: pq.abc.PGconn, count: int) -> PQGen[list[pq.abc.PGresult]]:
    yield from generators.send(server)
    found: list[pq.abc.PGresult] = []
    for _ in range(count):
        found += yield from generators.fetch_many(server)
    return found


def bound(sql: str, values: Values) -> BoundStatement:
    """Write a statement of the ledger's, with `?` for its values."""
    written: list[bytes | None] = []
    types, formats = [], []
    data: bytes | None
    for value in values:
        match value:
            case str():
                data, kind, form = value.encode(), TEXT, pq.Format.BINARY
            case bytes():
                data, kind, form = value, BYTEA, pq.Format.BINARY
            case float():
                data, kind, form = repr(value).encode(), DOUBLE, pq.Format.TEXT
            case int():
                data, kind, form = b"%d" % value, ANY, pq.Format.TEXT
            case _:
                data, kind, form = None, ANY, pq.Format.TEXT
        written.append(data)
        types.append(kind)
        formats.append(form)
    return BoundStatement(_numbered(sql), written, types, formats)


@lru_cache(maxsize=512)
def _numbered(sql: str) -> bytes:
    first, *rest = sql.split("?")
    return (first + "".join(f"${number}{text}" for number, text in enumerate(rest, 1))).encode()


class FunctionCall:
    """A call of a function whose parameters have these types."""

    def __init__(self, name: str, types: Sequence[int]) -> None:
        marks = ", ".join(f"${number}" for number in range(1, len(types) + 1))
        self.sql = f"SELECT {name}({marks})"
        self._sent = self.sql.encode()
        self._types = types
        self._formats = [pq.Format(kind not in _AS_WORDS) for kind in types]
        self._writers = [_WRITERS[kind] for kind in types]

    @property
    def unbound(self) -> BoundStatement:
        """The call without values."""
        return BoundStatement(self._sent, (), self._types, self._formats)

    def bound(self, values: Sequence[Any]) -> BoundStatement:
        """Write the call."""
        written = [
            None if value is None else write(value)
            for value, write in zip(values, self._writers, strict=True)
        ]
        return BoundStatement(self._sent, written, self._types, self._formats)


def _word(value: int) -> bytes:
    return b"%d" % value


def _itself(value: bytes) -> bytes:
    return value


def _numbers(values: Sequence[int | None]) -> bytes:
    return _array(BIGINT, [None if value is None else _NUMBER(value) for value in values])


def _texts(values: Sequence[str | None]) -> bytes:
    return _array(TEXT, [None if value is None else value.encode() for value in values])


def _digests(values: Sequence[bytes | None]) -> bytes:
    return _array(BYTEA, values)


def _array(kind: int, values: Sequence[bytes | None]) -> bytes:
    pieces = [_head(kind, len(values), null=None in values)]
    for value in values:
        pieces += (_NULL,) if value is None else (_LENGTH(len(value)), value)
    return b"".join(pieces)


@lru_cache(maxsize=256)
def _head(kind: int, count: int, *, null: bool = False) -> bytes:
    return _HEAD(1, null, kind, count, 1)


_WRITERS: Final[Mapping[int, Callable[[Any], bytes]]] = {
    BOOLEAN: _word, BIGINT: _word, TEXT: str.encode, BYTEA: _itself,
    BIGINTS: _numbers, TEXTS: _texts, BYTEAS: _digests,
}  # fmt: skip
