"""Unix sockets: who may serve, who may connect, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.errors import InvalidInput, Unreachable
from sightline.slop.transports.link import Link
from sightline.slop.transports.unix import connect_unix, serve_unix

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="takes a second user")
NOBODY = 65534


async def echo(link: Link) -> None:
    while (message := await link.receive()) is not None:
        await link.send([message])


async def test_the_socket_and_the_directory_made_for_it_are_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "new" / "app.sock"
    async with serve_unix(echo, path) as address:
        assert address == f"unix:{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


async def test_both_sides_know_who_the_other_is(tmp_path: Path) -> None:
    seen: asyncio.Queue[Link] = asyncio.Queue()

    async def handler(link: Link) -> None:
        await seen.put(link)
        await link.receive()

    async with serve_unix(handler, tmp_path / "app.sock"):
        link = await connect_unix(tmp_path / "app.sock")
        served = await seen.get()
        assert (link.peer.uid, link.peer.pid) == (os.getuid(), os.getpid())
        assert (served.peer.uid, served.peer.transport) == (os.getuid(), "unix")
        await link.close()


async def test_a_stale_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    async with serve_unix(echo, path):
        with pytest.raises(InvalidInput, match="somebody serves it already"):
            async with serve_unix(echo, path):
                raise AssertionError("two servers at one address")
        link = await connect_unix(path)
        await link.send([b"still here"])
        assert await link.receive() == b"still here"
        await link.close()


async def test_what_is_not_a_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    path.write_text("precious")
    with pytest.raises(InvalidInput, match="something else is there"):
        async with serve_unix(echo, path):
            raise AssertionError("served over a file")
    assert path.read_text() == "precious"


@pytest.mark.parametrize("mode", [0o720, 0o702], ids=["group", "everybody"])
async def test_a_directory_that_others_can_write_is_refused(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(InvalidInput, match="others can write"):
        async with serve_unix(echo, tmp_path / "app.sock"):
            raise AssertionError("served where others can write")


@AS_ROOT
async def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, NOBODY, NOBODY)
    with pytest.raises(InvalidInput, match="belongs to another user"):
        async with serve_unix(echo, tmp_path / "app.sock"):
            raise AssertionError("served from another user's directory")


@AS_ROOT
async def test_another_user_is_turned_away_even_where_the_mode_lets_him_in(tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    for directory in (tmp_path, *tmp_path.parents[:-2]):
        directory.chmod(0o755)
    code = (
        "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); sys.exit(0 if s.recv(1) == b'' else 1)"
    )
    async with serve_unix(lambda link: link.send([b"secret"]), path):
        path.chmod(0o666)
        command = [sys.executable, "-c", code, str(path)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
        assert done.returncode == 0 or b"ConnectionResetError" in done.stderr


async def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"app\.sock: No such file"):
        await connect_unix(tmp_path / "app.sock")


async def test_a_handler_that_fails_ends_its_own_link_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(link: Link) -> None:
        if await link.receive() == b"fail":
            raise RuntimeError("a bug in the app")
        await echo(link)

    async with serve_unix(handler, tmp_path / "app.sock"):
        good, bad = [await connect_unix(tmp_path / "app.sock") for _ in range(2)]
        await good.send([b"go"])
        await bad.send([b"fail"])
        assert await bad.receive() is None
        await bad.close()
        await good.send([b"alive"])
        assert await good.receive() == b"alive"
        await good.close()
    assert "a bug in the app" in caplog.text


async def test_the_end_of_the_server_is_the_end_of_its_links(tmp_path: Path) -> None:
    async with serve_unix(echo, tmp_path / "app.sock"):
        link = await connect_unix(tmp_path / "app.sock")
        await link.send([b"hi"])
        assert await link.receive() == b"hi"
    assert await link.receive() is None
    await link.close()


async def test_a_socket_that_cannot_be_made_is_an_error_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "app.sock", tmp_path / ("x" * 120)):
        with pytest.raises(InvalidInput, match="cannot serve unix:"):
            async with serve_unix(echo, path):
                raise AssertionError("served from nowhere")
