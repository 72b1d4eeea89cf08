"""An app that is served can be found, and is gone when it stops."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sightline.errors import ActionError, InvalidInput, Unauthorized
from sightline.slop.app.app import App
from sightline.slop.discovery.descriptor import Descriptor, Unix, Ws
from sightline.slop.discovery.directory import Discovery, announced
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client as HubClient
from sightline.slop.hub.hub import Hub
from sightline.slop.transports.link import Peer
from sightline.slop.transports.unix import connect_unix
from sightline.slop.transports.websocket import connect_websocket
from sightline.testing import Client


def counter() -> App:
    app = App("counter", "Counter", coalesce_s=0, version="1.2", description="Counts")
    state = {"n": 0}
    app.node("count")(lambda: {"props": dict(state)})

    @app.action("count", "up")
    def up() -> int:
        state["n"] += 1
        return state["n"]

    return app


async def test_it_is_there_on_both_sockets_and_noted_where_consumers_look(tmp_path: Path) -> None:
    app = counter()
    async with app.serving(port=0, directory=tmp_path) as served:
        unix, ws = served
        descriptor = Descriptor.read((tmp_path / "counter.json").read_bytes())
        assert isinstance(descriptor.transport, Unix)
        assert (descriptor.version, descriptor.description) == ("1.2", "Counts")
        assert descriptor.pid == os.getpid()
        assert f"unix:{descriptor.transport.path}" == unix
        one = Client(await connect_unix(descriptor.transport.path))
        other = Client(await connect_websocket(ws, served.token))
        for client in (one, other):
            await client.ready()
        assert await one.invoke("/count", "up") == 1
        await other.until(lambda: other.tree.at("/count").properties == {"n": 1})
        for client in (one, other):
            await client.close()
    assert not (tmp_path / "counter.json").exists()
    assert not Path(descriptor.transport.path).exists()


async def test_each_way_can_be_left_out(tmp_path: Path) -> None:
    async with counter().serving(unix=False, port=0, directory=tmp_path) as addresses:
        descriptor = Descriptor.read((tmp_path / "counter.json").read_bytes())
        assert isinstance(descriptor.transport, Ws)
        assert addresses == (descriptor.transport.url,)
    own = tmp_path / "run" / "own.sock"
    async with counter().serving(unix=own, discoverable=False) as addresses:
        assert addresses == (f"unix:{own}",)
        assert own.is_socket()
    with pytest.raises(InvalidInput, match="needs a port, a Unix socket or a broker"):
        async with counter().serving(unix=False):
            pytest.fail("served nowhere")
    with pytest.raises(InvalidInput, match="takes a token"):
        async with counter().serving(port=0, host="0.0.0.0", open=True):  # noqa: S104 - the point
            pytest.fail("served to all")


async def invoked(url: str, token: str | None) -> object:
    client = Client(await connect_websocket(url, token))
    await client.ready()
    try:
        return await client.invoke("/count", "up")
    finally:
        await client.close()


async def test_no_port_is_opened_unasked(tmp_path: Path) -> None:
    async with counter().serving(directory=tmp_path) as addresses:
        assert [address.partition(":")[0] for address in addresses] == ["unix"]
        assert addresses.token is None


async def test_a_port_asks_for_a_token_that_only_its_user_can_read(tmp_path: Path) -> None:
    async with counter().serving(port=0, unix=False, directory=tmp_path) as served:
        [url] = served
        note = tmp_path / "counter.json"
        assert stat.S_IMODE(note.stat().st_mode) == 0o600
        found = Descriptor.read(note.read_bytes())
        assert found.transport == Ws(url, served.token)
        assert served.token is not None
        assert len(served.token) >= 32
        assert served.token not in repr(found)
        for wrong in (None, "", "x", served.token[:-1], served.token + "x"):
            with pytest.raises(Unauthorized, match="401"):
                await invoked(url, wrong)
        assert await invoked(url, served.token) == 1
        async with Hub(Discovery([tmp_path])) as hub:  # a consumer of the user's needs no more
            assert (await hub.invoke("counter", "/count", "up")).data == 2
    async with counter().serving(port=0, unix=False, directory=tmp_path) as again:
        assert again.token != served.token


async def test_a_token_of_ones_own_is_taken_and_an_open_port_has_none() -> None:
    async with counter().serving(port=0, token="mine", discoverable=False) as served:
        assert served.token == "mine"
        assert await invoked(served[1], "mine") == 1
    async with counter().serving(port=0, open=True, discoverable=False) as served:
        assert served.token is None
        assert await invoked(served[1], None) == 1
    with pytest.raises(InvalidInput, match="choose one"):
        async with counter().serving(port=0, open=True, token="mine"):
            pytest.fail("open, and asks for a token")


async def test_an_open_port_leaves_it_to_the_app_to_ask_who_comes() -> None:
    app = counter()

    @app.authenticate
    def who(peer: Peer) -> str:
        if peer.token != "ana":
            raise ActionError("unauthorized", "who are you?")
        return "ana"

    async with app.serving(port=0, unix=False, open=True, discoverable=False) as served:
        assert await invoked(served[0], "ana") == 1
        async with HubClient(dial_address(served[0]), reconnect=False) as stranger:
            with pytest.raises(Unauthorized, match="who are you"):
                await stranger.ready()


async def test_an_app_that_nobody_can_find_is_served_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLOP_PROVIDERS", f"{tmp_path}/file/a:{tmp_path}/file/b")
    async with counter().serving() as [unix], HubClient(dial_address(unix)) as client:
        assert (await client.invoke("/count", "up")).data == 1
    assert "counter is not announced" in caplog.text
    with pytest.raises(InvalidInput, match="Not a directory"):
        async with counter().serving(directory=tmp_path / "file"):
            pytest.fail("announced in a file")


@asynccontextmanager
async def started(code: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program of an author's; it ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *arguments, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
async def test_serve_says_where_it_is_and_how_to_see_it_until_it_is_ended(
    ending: signal.Signals, tmp_path: Path
) -> None:
    code = (
        "import pathlib, sys\n"
        "from sightline import App\n"
        "App('counter', 'Counter').serve(port=0, unix=False, directory=pathlib.Path(sys.argv[1]))\n"
        "print('tidied', file=sys.stderr)"
    )
    async with asyncio.timeout(60), started(code, str(tmp_path)) as process:
        assert process.stderr is not None
        while b"Counter is at" not in (line := await process.stderr.readline()):
            assert line, "it ended before it was served"
        found = Descriptor.read((tmp_path / "counter.json").read_bytes()).transport
        assert isinstance(found, Ws)
        assert line.decode() == f"Counter is at {found.url} (token: {found.token})\n"
        assert await process.stderr.readline() == b"see it with: sightline watch counter\n"
        process.send_signal(ending)
        _, said = await process.communicate()
        assert process.returncode == 0
        assert said == b"tidied\n"
        assert list(tmp_path.iterdir()) == []


async def test_an_app_without_a_stderr_is_served_all_the_same(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from sightline import App\n"
        "sys.stderr = None\n"
        "App('counter').serve(directory=pathlib.Path(sys.argv[1]))"
    )
    async with asyncio.timeout(60), started(code, str(tmp_path)) as process:
        while not (tmp_path / "counter.json").exists():
            assert process.returncode is None, "it ended before it was served"
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_a_program_that_takes_the_signal_itself_keeps_it(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys\n"
        "from sightline import App\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
        "App('counter').serve(directory=pathlib.Path(sys.argv[1]))"
    )
    async with asyncio.timeout(60), started(code, str(tmp_path)) as process:
        assert process.stderr is not None
        while b"see it with" not in (line := await process.stderr.readline()):
            assert line, "it ended before it was served"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 7


async def test_what_is_told_leads_to_the_app_however_it_is_served(tmp_path: Path) -> None:
    async with counter().serving(directory=tmp_path) as first:
        assert first.notice("Counter").endswith("sightline watch counter\n")
    async with counter().serving(discoverable=False) as hidden:
        assert hidden.notice("Counter").endswith(f"sightline watch {hidden[0]}\n")
    async with counter().serving(port=0, unix=False, discoverable=False) as far:
        assert far.notice("Counter").endswith(f"SIGHTLINE_TOKEN=… sightline watch {far[0]}\n")
    running = Descriptor("counter", "Other", Unix("/other.sock"), pid=os.getppid())
    with announced(running, tmp_path):
        async with counter().serving(directory=tmp_path) as second:
            assert second.announced_as == "counter-2"
            assert second.notice("Counter").endswith("sightline watch counter-2\n")


async def test_an_app_serves_the_program_that_started_it() -> None:
    code = "from sightline import App\nApp('counter', props={'n': 3}).serve_stdio()"
    command = shlex.join([sys.executable, "-c", code])
    async with asyncio.timeout(60), HubClient(dial_address(f"stdio:{command}")) as client:
        assert (await client.query("/")).properties == {"label": "counter", "n": 3}
