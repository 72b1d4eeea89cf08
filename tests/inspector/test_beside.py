"""An export that another process makes: the same page, or an error; never half a page."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import hosted, turn
from sightline.agent.models.scripted import ScriptedModel
from sightline.context.ledger import Ledger
from sightline.errors import NotFound, Unreachable
from sightline.inspector.pages import exported_beside
from sightline.inspector.reader import RecordReader
from support.live import LiveApp


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A ledger with a session of one turn."""
    async with hosted(tmp_path, ScriptedModel(["Ünïque."]), app=LiveApp()) as (host, _):
        await turn(host, "hello")
    return tmp_path / "work.db"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that were started."""
    real, processes = asyncio.create_subprocess_exec, []

    async def noted(*given: Any, **more: Any) -> Process:
        processes.append(await real(*given, **more))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return processes


async def test_the_page_is_the_one_that_this_process_would_write(path: Path) -> None:
    with Ledger(path, mode="read") as ledger:
        reader = RecordReader(ledger)
        chunks = [chunk async for chunk in reader.exported(1)]
        assert b"".join(chunks).decode() == "".join(reader.export(1))


async def test_a_session_that_is_not_there_is_refused_before_anything_starts(
    path: Path, started: list[Process]
) -> None:
    with Ledger(path, mode="read") as ledger, pytest.raises(NotFound, match="7"):
        RecordReader(ledger).exported(7)
    assert started == []


async def test_nothing_is_imported_from_the_directory_it_was_started_in(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sightline.py").write_text("raise SystemExit('a stranger ran')")
    monkeypatch.chdir(tmp_path)
    assert [chunk async for chunk in exported_beside(str(path), 1)]


async def test_a_page_without_an_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="session 1"):
        async for _ in exported_beside(str(tmp_path / "none.db"), 1):
            pass


async def test_the_process_ends_when_nobody_reads_any_more(
    path: Path, started: list[Process]
) -> None:
    pages = exported_beside(str(path), 1)
    await anext(pages)
    await pages.aclose()
    assert [process.returncode is not None for process in started] == [True]


async def test_an_export_ends_its_process_when_most_of_10_mb_is_unread(
    tmp_path: Path, started: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is `head` here: a hundred times it starts faster than Python once."""
    program = tmp_path / "head"
    program.write_text("#!/bin/sh\nexec head -c 10000000 /dev/zero\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    async with asyncio.timeout(60):
        for _ in range(100):
            pages = exported_beside("none.db", 1)
            assert await anext(pages)
            output: Any = started[-1].stdout
            while not output._paused:  # asyncio reads on until its buffer is full
                await asyncio.sleep(0)
            await pages.aclose()
    assert [process.returncode for process in started] == [-signal.SIGKILL] * 100
