"""query_db: what a model sees, and how it reads on."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from context.ledger.helpers import file_of, fill, group_ids
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.retrieval import QueryLimits, QueryResult
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.process import one_statement
from sightline.context.messages.parts import Message, ToolResult
from sightline.context.messages.replay import truncate
from sightline.errors import QueryRefused

SMALL = QueryLimits(rows=3, cell_chars=40, total_chars=10_000)

pytestmark = pytest.mark.of_a_file  # where another engine runs queries, too


def sql_of(hint: str) -> str:
    """The query inside a hint, as a model would copy it."""
    found = re.search(r"query_db\(sql=(\".*\")\)", hint)
    assert found, hint
    sql = json.loads(found[1])
    assert isinstance(sql, str)
    return sql


def read_on(ledger: Ledger, session_id: int, sql: str, limits: QueryLimits) -> str:
    """Follow the hints of a one-cell answer to its end."""
    text = ""
    while True:
        result = ledger.query(sql, session_id=session_id, limits=limits)
        text += str(result.rows[0][0])
        if not result.hints:
            return text
        (hint,) = result.hints
        sql = sql_of(hint)


def test_the_seeds_example_finds_what_it_should(ledger: Ledger, session: Session) -> None:
    ledger.append(session.id, [Message.of("user", "the refactor plan: split it")], strategy="s")
    fill(ledger, session.id, 2)
    result = ledger.query(
        "SELECT role, content FROM messages\n"
        "WHERE status != 'dropped' AND content LIKE '%refactor plan%'\n"
        "ORDER BY id DESC LIMIT 5;",
        session_id=session.id,
    )
    assert result.columns == ("role", "content")
    assert result.rows == (("user", "the refactor plan: split it"),)
    assert result.text() == '{"role":"user","content":"the refactor plan: split it"}'


def test_a_session_sees_its_own_rows_and_all_memos(ledger: Ledger, session: Session) -> None:
    other = ledger.sessions.create("other")
    fill(ledger, session.id, 2)
    fill(ledger, other.id, 3)
    ledger.memos.save("m", ["t"])
    counts = {}
    for table in ("sessions", "groups", "messages", "session_state", "llm_memos"):
        sql = f"SELECT count(*) FROM {table}"
        counts[table] = [
            ledger.query(sql, session_id=scope).rows[0][0] for scope in (session.id, other.id, None)
        ]
    assert counts == {
        "sessions": [1, 1, 2],
        "groups": [2, 3, 5],
        "messages": [8, 12, 20],
        "session_state": [2, 3, 5],
        "llm_memos": [1, 1, 1],
    }


def test_what_was_dropped_is_not_seen_in_any_table(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 3)
    ledger.groups.drop(session.id, group_ids(ledger, session.id)[2])
    for scope in (session.id, None):
        for table, left in (("messages", 8), ("groups", 2), ("session_state", 2)):
            result = ledger.query(f"SELECT count(*) FROM {table}", session_id=scope)
            assert result.rows == ((left,),)


def test_a_truncated_results_hint_leads_to_all_of_it(ledger: Ledger, session: Session) -> None:
    content = "".join(f"line {n} 日本語\n" for n in range(2000))
    messages = [Message.of("user", "q"), Message("tool", (ToolResult("c", content),))]
    ledger.append(session.id, messages, strategy="s")
    shown = truncate(ledger.window(session.id))[1].message.tool_results[0].content
    hint = re.search(r'query_db\(sql="(.*)"\)', shown)
    assert hint
    assert read_on(ledger, session.id, hint[1], QueryLimits()) == content


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT content FROM messages WHERE id = 1",
        "SELECT content FROM messages WHERE id = 1 -- the first one",
        'SELECT content AS "it\'s a ""name""" FROM messages /* ; */ WHERE id = 1 ; ',
        "SELECT substr(content, 1) FROM messages WHERE id = 1",
        "WITH m AS (SELECT * FROM messages) SELECT content FROM m WHERE id = 1",
        "SELECT group_concat(content, '') FROM messages WHERE role = 'user'",
        "VALUES ((SELECT content FROM messages WHERE id = 1))",
    ],
)
def test_any_long_answer_can_be_read_to_its_end(ledger: Ledger, session: Session, sql: str) -> None:
    content = "0123456789" * 17
    ledger.append(session.id, [Message.of("user", content)], strategy="s")
    assert read_on(ledger, session.id, sql, SMALL) == content


def test_many_rows_come_page_by_page(ledger: Ledger, session: Session) -> None:
    fill(ledger, session.id, 2)
    sql, seen = "SELECT id FROM messages ORDER BY id DESC", []
    while sql:
        result = ledger.query(sql, session_id=session.id, limits=SMALL)
        seen += [row[0] for row in result.rows]
        sql = sql_of(result.hints[0]) if result.hints else ""
    assert seen == [8, 7, 6, 5, 4, 3, 2, 1]


def test_an_answer_is_short_as_a_whole(ledger: Ledger, session: Session) -> None:
    ledger.append(session.id, [Message.of("user", "x" * 3000) for _ in range(40)], strategy="s")
    result = ledger.query("SELECT content FROM messages", session_id=session.id)
    assert len(result.text()) < 20_000
    assert "more rows" in result.hints[-1]


def test_columns_of_the_same_name_are_kept_apart(ledger: Ledger, session: Session) -> None:
    ledger.append(session.id, [Message.of("user", "x" * 100)], strategy="s")
    result = ledger.query(
        "SELECT content, content FROM messages", session_id=session.id, limits=SMALL
    )
    assert "name the column with AS" in result.hints[0]
    assert list(json.loads(result.lines()[0])) == ["content:1", "content:2"]


@pytest.mark.parametrize(
    "columns",
    [
        "id AS a, content AS A",
        "content AS A, id AS a",
        "'x' AS \"content\", content AS Content",
        'id AS a, id AS A, content AS "a:1"',
    ],
)
def test_a_column_that_its_name_does_not_lead_to_has_no_query_that_goes_on(
    ledger: Ledger, session: Session, columns: str
) -> None:
    ledger.append(session.id, [Message.of("user", "x" * 100)], strategy="s")
    sql = f"SELECT {columns} FROM messages"
    result = ledger.query(sql, session_id=session.id, limits=SMALL)
    assert [hint for hint in result.hints if "query_db" in hint] == []
    assert "name the column with AS" in result.hints[0]


@pytest.mark.parametrize(
    "columns",
    [
        "content AS ä, id AS Ä",
        "id AS a, id AS A, content AS b",
        'content AS "a:1", id AS a',
    ],
)
def test_a_column_that_only_looks_like_another_is_read_to_its_end(
    ledger: Ledger, session: Session, columns: str
) -> None:
    text = "".join(f"{n:03}|" for n in range(40))
    ledger.append(session.id, [Message.of("user", text)], strategy="s")
    result = ledger.query(f"SELECT {columns} FROM messages", session_id=session.id, limits=SMALL)
    read = next(cell for cell in result.rows[0] if isinstance(cell, str))
    while result.hints:
        result = ledger.query(sql_of(result.hints[0]), session_id=session.id, limits=SMALL)
        read += str(result.rows[0][0])
    assert read == text


def test_every_kind_of_value_can_be_written_down() -> None:
    row = (1, 2.5, None, "a\x1b", b"\x00\xff", float("inf"))
    result = QueryResult(("i", "f", "n", "t", "b", "x"), (row,))
    assert json.loads(result.text()) == {
        "i": 1, "f": 2.5, "n": None, "t": "a\x1b", "b": "x'00ff'", "x": None,
    }  # fmt: skip
    assert QueryResult(("a",), ()).text() == "(no rows)"


def test_text_that_is_not_utf8_gets_a_clear_error(ledger: Ledger, session: Session) -> None:
    with pytest.raises(QueryRefused, match="not UTF-8"):
        ledger.query("SELECT CAST(x'ff' AS TEXT)", session_id=session.id)


def test_a_query_sees_what_was_just_stored(ledger: Ledger, session: Session) -> None:
    for expected in (4, 8, 12):
        fill(ledger, session.id, 1)
        result = ledger.query("SELECT count(*) FROM messages", session_id=session.id)
        assert result.rows == ((expected,),)


def test_describe_names_every_table_and_column_that_can_be_read(
    ledger: Ledger, session: Session
) -> None:
    text = ledger.describe()
    for name, table in TABLES.items():
        if not table.shown:
            assert f"\n{name}:" not in text
            continue
        columns = ledger.query(f"SELECT * FROM {name}", session_id=session.id).columns
        for column in columns:
            assert f"\n  {column} " in text
    assert "ORDER BY id DESC" in text


@pytest.mark.parametrize(
    ("sql", "bare"),
    [
        ("SELECT 1;", "SELECT 1"),
        (" \n select ';' ; -- done\n", "select ';'"),
        ("/* a */ SELECT/**/1", "SELECT 1"),
        ("SELECT '--', \"/*\", `;`, [;]", "SELECT '--', \"/*\", `;`, [;]"),
        ("SELECT 'it''s'", "SELECT 'it''s'"),
        ("SELECT 1 - -1 / 2 /* open", "SELECT 1 - -1 / 2"),
        (";;SELECT 1", "SELECT 1"),
    ],
)
def test_a_statement_is_laid_bare(sql: str, bare: str) -> None:
    assert one_statement(sql, 1000) == bare


def test_a_worker_that_cannot_start_is_an_error_of_ours(
    ledger: Ledger, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(QueryRefused, match="could not be started"):
        ledger.query("SELECT 1", session_id=session.id)


def test_a_worker_that_dies_is_replaced(ledger: Ledger, session: Session) -> None:
    ledger.query("SELECT 1", session_id=session.id)
    worker = file_of(ledger)._process._worker
    assert worker is not None
    worker.kill()
    worker.wait()
    assert ledger.query("SELECT 1", session_id=session.id).rows == ((1,),)


def test_closing_the_ledger_ends_the_worker(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.query("SELECT 1", session_id=None)
        worker = file_of(ledger)._process._worker
    assert isinstance(worker, subprocess.Popen)
    assert worker.returncode is not None


def test_queries_run_in_a_program_that_has_many_files_open(
    ledger: Ledger, session: Session, tmp_path: Path
) -> None:
    """Descriptors beyond 1,024 are ordinary in a server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("this machine allows no more than 2,048 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    opened = []
    try:
        with (tmp_path / "file").open("w") as file:
            opened = [os.dup(file.fileno()) for _ in range(1100)]
            assert ledger.query("SELECT 1", session_id=session.id).rows == ((1,),)
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
