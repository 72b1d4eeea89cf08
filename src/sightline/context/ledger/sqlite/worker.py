"""The process in which untrusted SQL runs: it can read what it is shown, and nothing else.

Started by process.py with the ledger's path, it reads requests on its standard
input and answers on its standard output. It opens the file for reading, puts a
view over each table (this session's rows, nothing dropped, no seals) and allows
reads through those views and calls of functions on a list; everything else is
refused by SQLite's authorizer before it runs. Heap, time, lengths and depths are
limited. What no limit inside SQLite can stop (one call that never comes back) is
stopped from outside: the parent kills this process.

The authorizer is told through which view a table is read, but a query's own CTE
counts as a view there and may have any name. So each view is two: the one with
the table's name reads another with a random name, which alone reads the table.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Final

import apsw
import msgspec

from sightline.context.ledger.retrieval import QueryLimits
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.connect import open_for_reading
from sightline.errors import SightlineError

_PROGRESS_OPS: Final = 500
_ADDRESS_SPACE: Final = 2 * 1024**3
_MIB: Final = 1024**2

_FUNCTIONS: Final = frozenset(
    """
    -> ->> abs avg ceil ceiling char coalesce concat concat_ws count cume_dist date datetime
    dense_rank first_value floor format glob group_concat hex if ifnull iif instr json json_array
    json_array_length json_each json_extract json_group_array json_group_object json_object
    json_quote json_tree json_type json_valid julianday lag last_value lead length like likelihood
    likely lower ltrim max min mod nth_value ntile nullif octet_length percent_rank printf quote
    rank replace round row_number rtrim sign strftime string_agg substr substring sum time timediff
    total trim typeof unicode unixepoch unlikely upper
    """.split()  # noqa: SIM905 - a text is the readable form of this list
)
_TABLE_FUNCTIONS: Final = frozenset({"json_each", "json_tree"})
_VIEWS: Final = frozenset(name for name, table in TABLES.items() if table.shown)
_LIMITS: Final = {
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 100,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    apsw.SQLITE_LIMIT_VDBE_OP: 100_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 32,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 1,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class QueryRequest(msgspec.Struct, frozen=True):
    """A query, whose rows it may see (None: every session's), and how much may come back."""

    sql: str
    session_id: int | None
    limits: QueryLimits


class QueryAnswer(msgspec.Struct, frozen=True):
    """What came of a query. `cut` has (row, column, full length) of each shortened cell."""

    columns: list[str] = []
    rows: list[list[Any]] = []
    cut: list[tuple[int, int, int]] = []
    more: bool = False
    error: str = ""


_requests: Final = msgspec.msgpack.Decoder(QueryRequest)


def answer(path: Path, request: QueryRequest) -> QueryAnswer:
    """Run one query on a connection of its own."""
    limits = request.limits
    try:
        connection, _ = open_for_reading(path)
    except SightlineError as error:
        return QueryAnswer(error=str(error))
    try:
        _fence(connection, request)
        return _collect(connection, request.sql, limits)
    except apsw.InterruptError:
        return QueryAnswer(error=f"the query took longer than {limits.seconds:g} s and was stopped")
    except (apsw.NoMemError, MemoryError):
        return QueryAnswer(error=f"the query needs more than {limits.memory_mib} MiB of memory")
    except apsw.TooBigError:
        return QueryAnswer(error="the query makes a text or blob that is too big")
    except (apsw.AuthError, _Refused) as error:
        return QueryAnswer(error=f"the query may not do that: {error}")
    except UnicodeDecodeError:
        return QueryAnswer(error="the query makes a text that is not UTF-8; hex() shows its bytes")
    except apsw.Error as error:
        return QueryAnswer(error=str(error))
    finally:
        connection.close()


class _Refused(Exception):
    """Raised by the authorizer, to say what is refused and not only that something is."""


def _fence(connection: apsw.Connection, request: QueryRequest) -> None:
    largest = connection.execute("SELECT max(largest) FROM sessions").get
    if not isinstance(largest, int):  # null, where there is no session yet
        largest = 0
    secret = token_hex(16)
    connection.execute("PRAGMA temp_store = MEMORY")
    _make_views(connection, request.session_id, secret)
    connection.drop_modules(tuple(_TABLE_FUNCTIONS))
    connection.execute("PRAGMA query_only = ON")
    for limit, value in _LIMITS.items():
        connection.limit(limit, value)
    # Nothing longer than what is stored can be made, so no single step is a great one.
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, largest + _MIB)
    apsw.hard_heap_limit(request.limits.memory_mib * _MIB + 4 * largest)
    connection.authorizer = _Authorizer(secret)
    deadline = time.monotonic() + request.limits.seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _PROGRESS_OPS)


def _make_views(connection: apsw.Connection, session_id: int | None, secret: str) -> None:
    """Shadow each table by a view of the same name that shows what may be seen."""
    for table in _VIEWS:
        # True for every row. A view that reads no column but the row id is merged into the
        # query around it, and the authorizer would take count(*) for a read past the view.
        rules = ["created_at >= ''"]
        if session_id is not None and table != "llm_memos":
            column = "id" if table == "sessions" else "session_id"
            rules.append(f"{column} = {session_id:d}")
        if table == "messages":
            rules.append("dropped = 0")
        if table == "groups":
            rules.append("status = 'live'")
        if table == "session_state":
            rules.append("group_id IN (SELECT id FROM main.groups WHERE status = 'live')")
        columns = ", ".join(TABLES[table].readable)
        connection.execute(
            f"CREATE TEMP VIEW {table}_{secret} AS SELECT {columns} FROM main.{table} "
            f"WHERE {' AND '.join(rules)};"
            f"CREATE TEMP VIEW {table} AS SELECT * FROM {table}_{secret}"
        )


class _Authorizer:
    """Says yes to reading through the views and to harmless functions, no to all else."""

    def __init__(self, secret: str) -> None:
        self._inner = {f"{table}_{secret}" for table in _VIEWS}

    def __call__(
        self, action: int, first: str | None, second: str | None, base: str | None, by: str | None
    ) -> int:
        match action:
            case apsw.SQLITE_SELECT | apsw.SQLITE_RECURSIVE:
                return apsw.SQLITE_OK
            case apsw.SQLITE_FUNCTION:
                if (second or "").lower() in _FUNCTIONS:
                    return apsw.SQLITE_OK
                raise _Refused(f"the function {second}() is not available")
            case apsw.SQLITE_READ:
                if self._readable(first or "", base, by):
                    return apsw.SQLITE_OK
                there = ", ".join(sorted(_VIEWS))
                raise _Refused(f"{base or 'temp'}.{first} cannot be read; there are {there}")
            case _:
                name = str(apsw.mapping_authorizer_function[action]).removeprefix("SQLITE_")
                raise _Refused(f"{name.replace('_', ' ').lower()} is not allowed, only reading")

    def _readable(self, table: str, base: str | None, by: str | None) -> bool:
        if base == "temp":
            return table in _VIEWS or table in self._inner
        if base is None:  # a CTE of the query's own, of which no column is read
            return not table.lower().startswith("pragma_")
        return by in self._inner or table in _TABLE_FUNCTIONS


def _collect(connection: apsw.Connection, sql: str, limits: QueryLimits) -> QueryAnswer:
    cursor = connection.execute(sql)
    columns: list[str] = []
    rows: list[list[Any]] = []
    cut: list[tuple[int, int, int]] = []
    room = limits.total_chars
    for row in cursor:
        columns = columns or [column[0] for column in cursor.get_description()]
        if len(rows) == limits.rows or (rows and room <= 0):
            return QueryAnswer(columns, rows, cut, more=True)
        shown = []
        for index, cell in enumerate(row):
            short = cell
            if isinstance(cell, str | bytes) and len(cell) > limits.cell_chars:
                short = cell[: limits.cell_chars]
                cut.append((len(rows), index, len(cell)))
            shown.append(short)
            room -= len(short) if isinstance(short, str | bytes) else 8
        rows.append(shown)
    return QueryAnswer(columns, rows, cut)


def read_frame(stream: IO[bytes]) -> bytes | None:
    """Read one length-prefixed frame, or None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    body = stream.read(int.from_bytes(head, "big"))
    return body if len(body) == int.from_bytes(head, "big") else None


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Write one length-prefixed frame."""
    stream.write(len(body).to_bytes(4, "big") + body)
    stream.flush()


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > _ADDRESS_SPACE:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, hard))
    path = Path(sys.argv[1])
    write_frame(sys.stdout.buffer, b"ready")
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        request = _requests.decode(frame)
        write_frame(sys.stdout.buffer, msgspec.msgpack.encode(answer(path, request)))


if __name__ == "__main__":
    main()
