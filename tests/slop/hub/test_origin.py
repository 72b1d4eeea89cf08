"""Where an app comes from: told by its connection, whatever it calls itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.app.local import local_dial
from sightline.slop.discovery.descriptor import Descriptor, Stdio, Unix, Ws
from sightline.slop.discovery.directory import Discovery, announced
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.hub import Hub
from sightline.slop.hub.origin import Origin
from sightline.slop.transports.unix import serve_unix
from sightline.slop.transports.websocket import serve_websocket
from support.live import LiveApp

STDIO_APP = """
import asyncio
from sightline import App
from sightline.slop.transports.stdio import serve_stdio
asyncio.run(serve_stdio(App("mail", "Mail").handle))
"""


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (Origin("own", "workspace"), "our own"),
        (Origin("unix", "/run/a.sock", 1000), "unix:/run/a.sock (user 1000)"),
        (Origin("unix", "/run/a.sock"), "unix:/run/a.sock"),
        (Origin("websocket", "ws://127.0.0.1:9/slop"), "ws://127.0.0.1:9/slop"),
        (Origin("stdio", "python app.py"), "command: python app.py"),
        (Origin("memory", "mail"), "this process"),
        (Origin("stdio", "mail\n\x1b[2Kour own\u202e"), r"command: mail\n\x1b[2Kour own\u202e"),
    ],
)
def test_an_origin_is_told_in_words(origin: Origin, words: str) -> None:
    assert str(origin) == words


async def test_a_connection_tells_where_an_app_comes_from(tmp_path: Path) -> None:
    app, script = LiveApp(app_id="mail"), tmp_path / "app.py"
    script.write_text(STDIO_APP)
    command = f"{sys.executable} {script}"
    async with (
        serve_unix(app.handle, tmp_path / "a.sock") as unix,
        serve_websocket(app.handle) as ws,
        Hub() as hub,
    ):
        hub.add("unix", dial_address(unix))
        hub.add("ws", dial_address(ws))
        hub.add("stdio", dial_address(f"stdio:{command}"))
        hub.add("memory", local_dial(App("mail", "Mail")))
        hub.add("workspace", local_dial(App("workspace", "Here")), own=True)
        for own in ("unix", "ws", "stdio", "memory", "workspace"):
            await hub.client(own)
        assert hub.origin("unix") == Origin("unix", str(tmp_path / "a.sock"), os.getuid())
        assert hub.origin("ws") == Origin("websocket", ws)
        assert hub.origin("stdio") == Origin("stdio", command)
        assert hub.origin("memory") == Origin("memory", "memory")
        assert hub.origin("workspace") == Origin("own", "workspace")
        assert hub.origin("nobody") is None


@pytest.mark.parametrize(
    ("transport", "origin"),
    [
        (Unix("/no/such.sock"), Origin("unix", "/no/such.sock")),
        (Ws("ws://127.0.0.1:9/slop"), Origin("websocket", "ws://127.0.0.1:9/slop")),
        (Stdio(("mail", "two words")), Origin("stdio", "mail 'two words'")),
    ],
)
async def test_before_a_connection_the_descriptor_tells(
    transport: Unix | Ws | Stdio, origin: Origin, tmp_path: Path
) -> None:
    with announced(Descriptor("mail", "Mail", transport), tmp_path):
        async with Hub(Discovery([tmp_path]), lazy=True) as hub:
            assert hub.origin("mail") == origin


async def test_a_seat_that_is_taken_is_not_given_again() -> None:
    async with Hub() as hub:
        hub.add("workspace", local_dial(App("workspace", "Here")), own=True)
        for own in (True, False):
            with pytest.raises(InvalidInput, match=r"connected already|kept for"):
                hub.add("workspace", local_dial(App("workspace", "There")), own=own)
        assert hub.origin("workspace") == Origin("own", "workspace")
