"""The worker's own rules, asked directly; what only a process can show is in test_hostile_sql."""

from __future__ import annotations

import io
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import msgspec
import pytest

from context.ledger.helpers import fill
from context.ledger.hostile import HOSTILE
from sightline.context.ledger import Ledger
from sightline.context.ledger.retrieval import QueryLimits
from sightline.context.ledger.sqlite import worker
from sightline.context.ledger.sqlite.worker import (
    QueryAnswer,
    QueryRequest,
    answer,
    main,
    read_frame,
    write_frame,
)

# One call of a function that never ends can be stopped from outside only.
DIRECT = [(sql, reason) for sql, reason in HOSTILE if sql.startswith(("SELECT", "WITH"))]
DIRECT = [(sql, reason) for sql, reason in DIRECT if ";" not in sql and "instr" not in sql]
REFUSED_EARLIER = ("nothing closes", "cannot have", "characters")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("worker") / "l.db"
    with Ledger(place) as ledger:
        fill(ledger, ledger.sessions.create("s").id, 20)
    return place


@pytest.fixture(autouse=True)
def heap() -> Iterator[None]:
    """The worker limits the heap of its whole process; this one is ours."""
    yield
    apsw.hard_heap_limit(0)


LIMITS = QueryLimits(rows=5, cell_chars=10, total_chars=100, seconds=0.3, memory_mib=16)


def request(sql: str, session_id: int | None = 1, **changes: Any) -> QueryRequest:
    return QueryRequest(sql, session_id, msgspec.structs.replace(LIMITS, **changes))


def test_rows_and_cells_are_cut_and_said_to_be(path: Path) -> None:
    given = answer(path, request("SELECT id, content FROM messages ORDER BY id"))
    assert given.columns == ["id", "content"]
    assert given.rows[0] == [1, "question 1"]
    assert given.rows[1] == [2, "looking\n\nl"]
    assert given.cut[0] == (1, 1, len('looking\n\nls({"path":"/1"})'))
    assert given.more


def test_an_answer_stops_at_its_total(path: Path) -> None:
    given = answer(path, request("SELECT content FROM messages", total_chars=25))
    assert (len(given.rows), given.more) == (3, True)


def test_blobs_are_cut_like_texts(path: Path) -> None:
    given = answer(path, request("SELECT x'00112233445566778899aabb' AS b"))
    assert (given.rows, given.cut) == ([[bytes.fromhex("00112233445566778899")]], [(0, 0, 12)])


@pytest.mark.parametrize(
    ("sql", "reason"),
    [pair for pair in DIRECT if pair[1] not in REFUSED_EARLIER],
    ids=lambda value: ascii(value)[1:40],
)
def test_what_reaches_sqlite_is_refused_there_too(path: Path, sql: str, reason: str) -> None:
    given = answer(path, request(sql.replace("{out}", str(path.parent / "out"))))
    assert re.search(reason, given.error)
    assert given.rows == []


@pytest.mark.parametrize(
    "sql", ["PRAGMA query_only = OFF", "VACUUM INTO '{out}'", "ATTACH '{out}' AS o", "DROP TABLE t"]
)
def test_even_what_the_statement_check_would_stop_gets_nowhere(path: Path, sql: str) -> None:
    out = path.parent / "out"
    assert answer(path, request(sql.replace("{out}", str(out)))).error
    assert not out.exists()


def test_a_ledger_that_is_not_there_is_an_answer_too(tmp_path: Path) -> None:
    assert "no ledger at" in answer(tmp_path / "none.db", request("SELECT 1")).error


def test_text_that_is_no_text_is_an_answer_too(path: Path) -> None:
    assert "not UTF-8" in answer(path, request("SELECT CAST(x'ff' AS TEXT)")).error


def test_memory_that_runs_out_in_the_interpreter_is_an_answer_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(worker, "_collect", exhausted)
    assert "16 MiB of memory" in answer(path, request("SELECT 1")).error


def test_it_serves_frames_until_the_pipe_is_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[Any] = []
    monkeypatch.setattr(resource, "setrlimit", lambda *given: limits.append(given))
    sent, received = io.BytesIO(), io.BytesIO()
    for sql in ("SELECT 1 AS one", "SELECT 2 AS two"):
        write_frame(sent, msgspec.msgpack.encode(request(sql)))
    sent.write(b"\x00\x00\x00\x09cut")
    sent.seek(0)
    monkeypatch.setattr(sys, "argv", ["worker", str(path)])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=sent))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=received))
    main()
    received.seek(0)
    assert read_frame(received) == b"ready"
    answers = [
        msgspec.msgpack.decode(read_frame(received) or b"", type=QueryAnswer) for _ in range(2)
    ]
    assert [given.rows for given in answers] == [[[1]], [[2]]]
    assert read_frame(received) is None
    assert limits[0][0] == resource.RLIMIT_AS
