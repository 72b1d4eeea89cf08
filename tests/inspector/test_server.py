"""What the inspector answers over HTTP when something is not there or breaks."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent.host.helpers import hosted, turn
from sightline.context.ledger import Ledger
from sightline.errors import LedgerDamaged, Unreachable
from sightline.inspector import server
from sightline.inspector.door import COOKIE, PageDoor
from sightline.inspector.reader import RecordReader
from sightline.inspector.server import Lanes, inspector_app
from support.web import served_on


@asynccontextmanager
async def browsing(
    answers: RecordReader, lanes: Lanes | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody with the cookie, at an inspector."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        door = PageDoor("secret", "room", listening.getsockname()[1])
        async with served_on(inspector_app(answers, door, lanes=lanes), listening) as place:
            base, cookies = f"http://{place}/room", {COOKIE: "secret"}
            async with httpx2.AsyncClient(base_url=base, cookies=cookies, timeout=60) as client:
                yield client


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncIterator[RecordReader]:
    async with hosted(tmp_path, ["One."]) as (host, _):
        await turn(host, "hello")
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        yield RecordReader(ledger)


@pytest.mark.parametrize("number", ["99999999999999999999", "9" * 5000, "7"])
async def test_a_number_that_no_row_has_is_not_there(reader: RecordReader, number: str) -> None:
    async with browsing(reader) as client:
        for path in (
            f"/api/sessions/{number}/turns",
            f"/api/sessions/{number}/overview",
            f"/api/sessions/{number}/rows?of=1",
            f"/api/sessions/1/turns/{number}/1",
            f"/api/sessions/1/turns/1/1/state/{number}/nodes/0",
            f"/api/sessions/1/groups/{number}",
            f"/api/sessions/1/compare/{number}.1/1.1",
            f"/export/{number}.html",
        ):
            answer = await client.get(path)
            assert (answer.status_code, list(answer.json())) == (404, ["error"]), path[:60]


async def test_a_browser_keeps_the_pages_files_and_nothing_that_was_said(
    reader: RecordReader,
) -> None:
    async with browsing(reader) as client:
        for path in ("/", "/api/sessions", "/api/sessions/1/turns", "/static/app/none.js"):
            assert (await client.get(path)).headers["cache-control"] == "no-store", path
        kept = (await client.get("/static/app/main.js")).headers["cache-control"]
        assert {"private", "immutable"} <= set(kept.split(", "))


async def test_the_page_is_told_which_session_it_will_open(reader: RecordReader) -> None:
    async with browsing(reader) as client:
        assert '<meta name="newest-session" content="1">' in (await client.get("/")).text


async def test_who_opens_an_address_without_being_let_in_reads_what_to_do(
    reader: RecordReader,
) -> None:
    async with browsing(reader) as client:
        client.cookies.clear()
        page = await client.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert "open the address that `sightline inspect` printed" in page.text
        answer = await client.get("/api/sessions")
        assert (answer.status_code, list(answer.json())) == (401, ["error"])


class Damaged(RecordReader):
    """Answers from a ledger that is damaged for a while."""

    def __init__(self) -> None:
        self.looks = 0

    def revision(self) -> int:
        self.looks += 1
        if self.looks in (2, 3):
            raise LedgerDamaged(["work.db: malformed"])
        return 7

    def news(self, _: int) -> dict[str, Any]:
        return {"turns": "one"}


async def test_a_ledger_that_cannot_be_read_is_news_once_and_so_is_that_it_can_be_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "POLL_S", 0)
    async with browsing(Damaged()) as client, client.stream("GET", "/api/events") as news:
        lines = (line async for line in news.aiter_lines() if line)
        told = [await anext(lines) for _ in range(6)]
    changed = ["event: changed", 'data: {"revision":7,"turns":"one"}']
    assert told == [*changed, "event: trouble", 'data: "work.db: malformed"', *changed]
    assert caplog.records == []


@pytest.mark.parametrize("numbers", ["", "x", "1,,2", "1" * 5000, ",".join(["1"] * 500), "-1"])
async def test_rows_are_asked_for_by_a_few_numbers(reader: RecordReader, numbers: str) -> None:
    async with browsing(reader) as client:
        answer = await client.get(f"/api/sessions/1/rows?of={numbers}")
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
        assert (await client.get("/api/sessions/1/rows?of=1,9")).json()["rows"][0]["turn"] == 1


async def test_a_number_in_a_body_is_one_of_a_row(reader: RecordReader) -> None:
    async with browsing(reader) as client:
        answer = await client.post(
            "/api/query",
            json={"sql": "SELECT 1", "session": 10**30},
            headers={"Origin": str(client.base_url).removesuffix("/room/")},
        )
        assert "session" in answer.json()["error"]


async def test_an_export_that_cannot_be_started_says_so(
    reader: RecordReader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    async with browsing(reader) as client:
        answer = await client.get("/export/1.html")
    assert answer.status_code == 503
    assert "cannot be started" in answer.json()["error"]
    assert caplog.records == []


async def test_an_export_that_fails_before_its_first_byte_says_so(
    reader: RecordReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with browsing(reader) as client:
        answer = await client.get("/export/1.html")
    assert answer.status_code == 503
    assert "session 1 failed" in answer.json()["error"]
    assert "attachment" not in answer.headers.get("content-disposition", "")


class Breaking(RecordReader):
    """Answers of which an export breaks off."""

    def __init__(self) -> None:
        self.closed = False

    async def exported(self, _: int) -> AsyncGenerator[bytes, None]:
        try:
            yield b"<!doctype html>"
            yield b"<p>so far"
            raise Unreachable("the export broke")
        finally:
            self.closed = True


async def test_an_export_that_breaks_off_is_no_whole_page_and_one_line_of_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = Breaking()
    caplog.set_level(logging.WARNING)
    async with browsing(answers) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get("/export/1.html")
    assert answers.closed
    ours = [record for record in caplog.records if record.name.startswith("sightline")]
    assert [record.getMessage() for record in ours] == ["the export broke"]
    assert not any(record.exc_info for record in caplog.records)
