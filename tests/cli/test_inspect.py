"""`sightline inspect`: an export is a whole file or one line that says why not; its port."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.host.helpers import hosted, turn
from sightline.cli.inspect import listen
from sightline.cli.main import run
from sightline.errors import LedgerUnavailable
from sightline.inspector.reader import RecordReader


@pytest.fixture
async def db(tmp_path: Path) -> str:
    """A ledger with a session of one turn."""
    async with hosted(tmp_path, ["One."]) as (host, _):
        await turn(host, "hello")
    return str(tmp_path / "work.db")


def exported(db: str, target: Path | str, session: str = "1") -> int:
    return run(["inspect", "--db", db, "--export", session, "--output", str(target)])


def test_the_file_is_whole_and_nothing_else_is_left(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "pages" / "one.html"
    target.parent.mkdir()
    target.write_text("an older one")
    assert exported(db, target) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert target.read_text().endswith("</html>")
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(("before", "after"), [(None, 0o600), (0o600, 0o600), (0o644, 0o644)])
def test_a_conversation_is_readable_by_nobody_who_could_not_read_it_before(
    db: str, tmp_path: Path, before: int | None, after: int
) -> None:
    target = tmp_path / "one.html"
    if before is not None:
        target.touch()
        target.chmod(before)
    assert exported(db, target) == 0
    assert stat.S_IMODE(target.stat().st_mode) == after


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/nonexistent/x.html", "No such file or directory"),
        (f"/{'x' * 300}.html", "File name too long"),
    ],
)
def test_where_nothing_can_be_written_it_is_one_line(
    db: str, target: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(db, target) == 2
    assert capsys.readouterr().err == f"sightline: {target}: {why}\n"


def test_a_pipe_stays_one_and_gets_the_page(db: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert exported(db, pipe) == 0
    assert pipe.is_fifo()
    reader.join()
    assert read[0].endswith(b"</html>")


def test_an_export_that_fails_leaves_what_was_there(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: RecordReader, __: int) -> Iterator[str]:
        yield "<!doctype html>"
        raise LedgerUnavailable("gone")

    monkeypatch.setattr(RecordReader, "export", breaks)
    target = tmp_path / "pages" / "one.html"
    target.parent.mkdir()
    assert exported(db, target) != 0
    assert list(target.parent.iterdir()) == []
    target.write_text("an older one")
    assert exported(db, target) != 0
    assert target.read_text() == "an older one"


def test_a_number_that_no_session_can_have_is_no_accident(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(db, "-", session="9" * 20) == 2
    assert "unexpected" not in capsys.readouterr().err


async def test_small_pieces_are_sent_at_once() -> None:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[bool] = loop.create_future()

    class Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            taken = transport.get_extra_info("socket")
            accepted.set_result(bool(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            transport.close()

    with listen(0) as listening:
        async with await loop.create_server(Server, sock=listening):
            client, _ = await loop.create_connection(asyncio.Protocol, *listening.getsockname())
            assert await accepted
            client.close()
