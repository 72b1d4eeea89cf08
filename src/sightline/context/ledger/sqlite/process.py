"""Untrusted SQL, run in a process of its own.

Nothing it says can write, attach, load, hang or fill the memory: the process
(worker.py) only reads, and it is killed when it does not answer in time. A
session sees its own rows; dropped ones it does not see.

A query is taken apart enough to know where it ends. `one_statement` returns it without comments
and closing semicolon, so that it can stand in parentheses; the continuation of a result is then a
query over the query, and any answer, however long, can be read to its end.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from sightline._lazy import lazy_pattern
from sightline.context.ledger.retrieval import QueryLimits, QueryResult
from sightline.context.ledger.sqlite.worker import QueryAnswer, QueryRequest, write_frame
from sightline.errors import InvalidInput, QueryRefused

_START_S: Final = 30.0
_GRACE_S: Final = 0.5  # for an answer that is ready and on its way
_MAX_ID: Final = 2**63 - 1
_NUMBERED: Final = re.compile(r":\d+\Z")
# Strings, quoted names, comments, a semicolon, or a run of anything else. Openers
# without their end match alone and are refused.
_TOKEN: Final = lazy_pattern(
    r"""
      (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] )
    | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<end> ; )
    | (?P<open> ['"`\[] )
    | (?P<other> [^'"`\[;/-]+ | [/-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_BEGINS: Final = lazy_pattern(r"(?:SELECT|WITH|VALUES)\b", re.IGNORECASE)
_CELL: Final = lazy_pattern(
    r'SELECT substr\(("(?:[^"]|"")+"), (\d+)\) AS \1 FROM \((.*)\) LIMIT 1 OFFSET (\d+)', re.DOTALL
)
_ROWS: Final = lazy_pattern(r"SELECT \* FROM \((.*)\) LIMIT -1 OFFSET (\d+)", re.DOTALL)
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_answers: Final = msgspec.msgpack.Decoder(QueryAnswer)


class QueryProcess:
    """Runs queries on one ledger file, in a process that is started at the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None

    def query(self, sql: str, session_id: int | None, limits: QueryLimits) -> QueryResult:
        """Run one query over a session's rows, or over all of them if it is None.

        Raise `QueryRefused` with the reason if it may not run or hits a limit.
        """
        if session_id is not None and not -_MAX_ID <= session_id <= _MAX_ID:
            raise InvalidInput("a number of more than 64 bits names nothing in a ledger")
        statement = one_statement(sql, limits.sql_chars)
        with self._lock:
            answer = self._ask(QueryRequest(statement, session_id, limits))
        if answer.error:
            raise QueryRefused(answer.error)
        rows = tuple(tuple(row) for row in answer.rows)
        return QueryResult(tuple(answer.columns), rows, tuple(_hints(statement, answer)))

    def find(self, session_id: int, text: str, limit: int, chars: int) -> QueryResult:
        """Find messages that contain a text, the newest first; their ids and excerpts."""
        pattern = literal(text)
        return self.query(
            f"SELECT id, substr(content, max(1, instr(lower(content), lower({pattern})) - 40), "
            f"{chars:d}) FROM messages WHERE instr(lower(content), lower({pattern})) > 0 "
            f"ORDER BY id DESC LIMIT {limit:d}",
            session_id,
            QueryLimits(),
        )

    def close(self) -> None:
        """Stop the process, if there is one."""
        with self._lock:
            self._stop()

    def _ask(self, request: QueryRequest) -> QueryAnswer:
        worker = self._started()
        limits = request.limits
        deadline = time.monotonic() + limits.seconds + _GRACE_S
        try:
            assert worker.stdin is not None  # noqa: S101 - it was started with a pipe
            write_frame(worker.stdin, msgspec.msgpack.encode(request))
            body = _receive(worker, deadline)
        except TimeoutError:
            self._stop()
            reason = f"the query took longer than {limits.seconds:g} s and was stopped"
            raise QueryRefused(reason) from None
        except (OSError, EOFError):
            self._stop()
            reason = f"the query needs more than {limits.memory_mib} MiB of memory"
            raise QueryRefused(reason) from None
        return _answers.decode(body)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._worker is not None and self._worker.poll() is None:
            return self._worker
        self._stop()
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", QueryRequest.__module__, str(self._path.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._worker = worker
        try:
            _receive(worker, time.monotonic() + _START_S)
        except (OSError, EOFError, TimeoutError):
            self._stop()
            raise QueryRefused("the process that runs queries could not be started") from None
        return worker

    def _stop(self) -> None:
        if self._worker is None:
            return
        self._worker.kill()
        self._worker.wait()
        for stream in (self._worker.stdin, self._worker.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was not sent went with the process
                    stream.close()
        self._worker = None


def one_statement(sql: str, max_chars: int) -> str:
    """Return the one query in a text, bare. Raise `QueryRefused` if it is anything else."""
    if len(sql) > max_chars:
        raise QueryRefused(f"the query has {len(sql):,} characters; the limit is {max_chars:,}")
    if "\x00" in sql or any("\ud800" <= char <= "\udfff" for char in sql):
        raise QueryRefused("the query has characters that SQL cannot have")
    kept: list[str] = []
    ended = False
    for token in _TOKEN.finditer(sql):
        if token.lastgroup == "comment":
            kept.append(" ")
        elif token.lastgroup == "end":
            ended = ended or bool("".join(kept).strip())
        elif ended and token[0].strip():
            raise QueryRefused("one statement at a time, please: there is more after the ';'")
        elif token.lastgroup == "open":
            raise QueryRefused(f"the query opens a {token[0]} that nothing closes")
        else:
            kept.append(token[0])
    statement = "".join(kept).strip()
    if not _BEGINS.match(statement):
        raise QueryRefused("only a query can be run: SELECT, WITH … SELECT, or VALUES")
    return statement


def rows_after(statement: str, shown: int) -> str:
    """Write the query that goes on after the rows shown."""
    if earlier := _ROWS.fullmatch(statement):
        statement, shown = earlier[1], shown + int(earlier[2])
    return f"SELECT * FROM ({statement}) LIMIT -1 OFFSET {shown}"


def cell_after(statement: str, column: str, row: int, shown: int) -> str:
    """Write the query that goes on in one column of one row, after the characters shown."""
    start = shown + 1
    quoted = '"' + column.replace('"', '""') + '"'
    if (earlier := _CELL.fullmatch(statement)) and earlier[1] == quoted:
        statement, row, start = earlier[3], int(earlier[4]), shown + int(earlier[2])
    return f"SELECT substr({quoted}, {start}) AS {quoted} FROM ({statement}) LIMIT 1 OFFSET {row}"


def literal(text: str) -> str:
    """Quote a text for SQL that runs where nothing can be written anyway."""
    return "'" + text.replace("\0", "").replace("'", "''") + "'"


def _hints(statement: str, answer: QueryAnswer) -> list[str]:
    hints = []
    for row, index, length in answer.cut:
        column = answer.columns[index]
        shown = len(answer.rows[row][index])
        where = f"[row {row + 1}, {column}: {shown:,} of {length:,} characters shown"
        if not _names_one(answer.columns, column):
            hints.append(f"{where}; name the column with AS to read on]")
        else:
            on = _as_argument(cell_after(statement, column, row, shown))
            hints.append(f"{where}; continue with query_db(sql={on})]")
    if answer.more:
        on = _as_argument(rows_after(statement, len(answer.rows)))
        hints.append(f"[more rows; continue with query_db(sql={on})]")
    return hints


def _names_one(columns: Sequence[str], column: str) -> bool:
    """Whether SQL that selects from the query finds this column by its name.

    SQLite folds ASCII letters, and of columns that share a name it calls the later ones
    `name:1`, `name:2`, …, which may be what another one is called already.
    """
    folded = [name.encode().lower() for name in columns]
    if len(set(folded)) == len(folded):
        return True
    return folded.count(column.encode().lower()) == 1 and not _NUMBERED.search(column)


def _as_argument(sql: str) -> str:
    return msgspec.json.encode(sql).decode()


def _receive(worker: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read one frame, waiting until the deadline at most."""
    assert worker.stdout is not None  # noqa: S101 - it was started with a pipe
    head = _exactly(worker.stdout.fileno(), 4, deadline)
    return _exactly(worker.stdout.fileno(), int.from_bytes(head, "big"), deadline)


def _exactly(descriptor: int, size: int, deadline: float) -> bytes:
    received = bytearray()
    waiting = select.poll()  # select() would not take the descriptors of a program with many
    waiting.register(descriptor, select.POLLIN)
    while len(received) < size:
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        piece = os.read(descriptor, size - len(received))
        if not piece:
            raise EOFError
        received += piece
    return bytes(received)
