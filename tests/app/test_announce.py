"""An app that is served can be found, and is gone when it stops."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from sightline.app.app import App
from sightline.errors import InvalidInput
from sightline.hub.descriptor import Descriptor, Unix, Ws
from sightline.testing import Client
from sightline.transports.unix import connect_unix
from sightline.transports.websocket import connect_websocket


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
    async with app.serving(directory=tmp_path) as (unix, ws):
        descriptor = Descriptor.read((tmp_path / "counter.json").read_bytes())
        assert isinstance(descriptor.transport, Unix)
        assert (descriptor.version, descriptor.description) == ("1.2", "Counts")
        assert descriptor.pid == os.getpid()
        assert f"unix:{descriptor.transport.path}" == unix
        one = Client(await connect_unix(descriptor.transport.path))
        other = Client(await connect_websocket(ws))
        for client in (one, other):
            await client.ready()
        assert await one.invoke("/count", "up") == 1
        await other.until(lambda: other.tree.at("/count").properties == {"n": 1})
        for client in (one, other):
            await client.close()
    assert not (tmp_path / "counter.json").exists()
    assert not Path(descriptor.transport.path).exists()


async def test_each_way_can_be_left_out(tmp_path: Path) -> None:
    async with counter().serving(unix=False, directory=tmp_path) as addresses:
        descriptor = Descriptor.read((tmp_path / "counter.json").read_bytes())
        assert isinstance(descriptor.transport, Ws)
        assert addresses == (descriptor.transport.url,)
    own = tmp_path / "run" / "own.sock"
    async with counter().serving(port=None, unix=own, discoverable=False) as addresses:
        assert addresses == (f"unix:{own}",)
        assert own.is_socket()
    with pytest.raises(InvalidInput, match="needs a port or a Unix socket"):
        async with counter().serving(port=None, unix=False):
            pytest.fail("served nowhere")
    with pytest.raises(InvalidInput, match="takes a token"):
        async with counter().serving(host="0.0.0.0"):  # noqa: S104 - the point
            pytest.fail("served to all")


async def test_serve_runs_until_interrupted(tmp_path: Path) -> None:
    code = (
        "import logging, pathlib, sys; logging.basicConfig(level=logging.INFO)\n"
        "from sightline import App\n"
        "App('counter', 'Counter').serve(directory=pathlib.Path(sys.argv[1]))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    while b"Counter is at" not in (line := await process.stderr.readline()):
        assert line, "it ended before it was served"
    assert (tmp_path / "counter.json").exists()
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert process.returncode == 0
    assert not (tmp_path / "counter.json").exists()
