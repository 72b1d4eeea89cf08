"""Transports and discovery: the framing, and the floor of security."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from sightline.errors import InvalidInput, Unauthorized
from sightline.slop.app.app import App
from sightline.slop.discovery.descriptor import Descriptor, Stdio, Unix
from sightline.slop.discovery.directory import Discovery, announced, standard_directories
from sightline.slop.hub.address import dial_descriptor
from sightline.slop.transports.stdio import spawn_stdio
from sightline.slop.transports.unix import serve_unix
from sightline.slop.transports.websocket import serve_websocket
from support.live import LiveApp, command
from support.real import Mailbox
from support.web import served
from support.wire import PATIENCE_S

MAIL = Descriptor("mail", "Mail", Unix("/run/mail.sock"), pid=os.getpid())


@pytest.mark.proves("transport.frame")
async def test_a_websocket_carries_one_message_per_text_frame() -> None:
    async with serve_websocket(LiveApp().handle) as url:
        assert url.endswith("/slop")
        async with connect(url, proxy=None) as socket:
            frame = await socket.recv()
            assert isinstance(frame, str)
            assert json.loads(frame)["type"] == "hello"


@pytest.mark.proves("transport.lines", "security.socket-mode")
async def test_a_unix_socket_carries_lines_for_its_user_only(tmp_path: Path) -> None:
    path = tmp_path / "made" / "app.sock"
    async with serve_unix(LiveApp().handle, path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        reader, writer = await asyncio.open_unix_connection(str(path))
        assert json.loads(await reader.readline())["type"] == "hello"
        writer.write(
            b'{"type":"query","id":"a","depth":0}\n\n{"type":"query","id":"b","depth":0}\n'
        )
        assert [json.loads(await reader.readline())["id"] for _ in "ab"] == ["a", "b"]
        writer.close()
        await writer.wait_closed()


@pytest.mark.proves("transport.asgi", "transport.frame", "security.origin")
async def test_an_asgi_mount_says_where_it_is_and_serves_there() -> None:
    async with served(Mailbox().app.asgi()) as at:
        answer = await asyncio.to_thread(_get, f"http://{at}/.well-known/slop")
        described = json.loads(answer)
        assert described["transport"] == {"type": "ws", "url": f"ws://{at}/slop"}
        assert "state" in described["capabilities"]
        async with connect(described["transport"]["url"], proxy=None) as socket:
            assert json.loads(await socket.recv())["type"] == "hello"
        with pytest.raises(InvalidStatus):
            async with connect(f"ws://{at}/slop", origin=Origin("https://evil.example")):
                raise AssertionError("let in")


@pytest.mark.proves("transport.well-known")
async def test_a_port_says_where_its_websocket_is_and_no_token() -> None:
    async with App("mail", "Mail").serving(port=0, unix=False, discoverable=False) as served_at:
        [url] = served_at
        site = url.replace("ws://", "http://").removesuffix("/slop")
        answer = await asyncio.to_thread(_get, f"{site}/.well-known/slop")
        assert json.loads(answer)["transport"] == {"type": "ws", "url": url}
        assert str(served_at.token).encode() not in answer


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
        body: bytes = answer.read()
    return body


@pytest.mark.proves("discovery.fields", "capability.state")
async def test_an_app_on_the_air_describes_itself(tmp_path: Path) -> None:
    app = App("mail", "Mail", version="2", description="letters")
    place = tmp_path / "mail.sock"
    async with app.serving(port=None, unix=place, directory=tmp_path / "here"):
        [written] = (tmp_path / "here").iterdir()
        said = json.loads(written.read_bytes())
        assert written.name == "mail.json"
        assert said.pop("capabilities")[0] == "state"
        assert said == {
            "id": "mail", "name": "Mail", "version": "2", "slop_version": "0.1",
            "transport": {"type": "unix", "path": str(place)},
            "pid": os.getpid(), "description": "letters",
        }  # fmt: skip
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.proves("transport.stdio-fds", "transport.lines")
async def test_stdio_falls_back_to_the_standard_streams() -> None:
    link = await spawn_stdio(command("--stdio"))
    hello = await link.receive()
    assert hello is not None
    assert json.loads(hello)["type"] == "hello"
    await link.close()


@pytest.mark.proves("transport.stdio-fds")
async def test_stdio_prefers_the_descriptors_that_its_parent_gives() -> None:
    out_read, out_write = os.pipe()
    in_read, in_write = os.pipe()
    line = " ".join(command("--stdio"))
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", f"exec {line} 3>&{out_write} 4<&{in_read}",
        pass_fds=(out_write, in_read),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    os.close(out_write)
    os.close(in_read)
    with os.fdopen(out_read, "rb") as answers, os.fdopen(in_write, "wb") as requests:
        hello = json.loads(await asyncio.to_thread(answers.readline))
        assert hello["type"] == "hello"
        requests.write(b'{"type":"query","id":"q","depth":0}\n')
        requests.flush()
        assert json.loads(await asyncio.to_thread(answers.readline))["id"] == "q"
    assert process.stdout is not None
    assert await process.stdout.read() == b"this must not reach the peer\n"
    assert await process.wait() == 0


@pytest.mark.proves("security.token")
@pytest.mark.parametrize("mounted", [False, True])
async def test_a_token_is_shown_by_header_or_subprotocol(mounted: bool) -> None:
    app = Mailbox().app
    async with contextlib.AsyncExitStack() as stack:
        if mounted:
            at = await stack.enter_async_context(served(app.asgi(token="s3cret")))
            url = f"ws://{at}/slop"
        else:
            url = await stack.enter_async_context(serve_websocket(app.handle, token="s3cret"))
        header = {"Authorization": "Bearer s3cret"}
        offered = [Subprotocol("slop"), Subprotocol("slop.bearer.czNjcmV0")]
        shown: tuple[dict[str, Any], ...] = (
            {"additional_headers": header},
            {"subprotocols": offered},
        )
        for options in shown:
            async with connect(url, proxy=None, **options) as socket:
                assert json.loads(await socket.recv())["type"] == "hello"
        for wrong in (url, f"{url}?token=s3cret"):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(wrong, proxy=None):
                    raise AssertionError("let in")
            assert refused.value.response.status_code == 401


@pytest.mark.proves("discovery.watched")
async def test_consumers_learn_of_apps_that_come_and_go(tmp_path: Path) -> None:
    watching = Discovery([tmp_path], poll_s=0.02).watch()
    async with asyncio.timeout(PATIENCE_S):
        assert (await anext(watching)).descriptors == ()
        with announced(MAIL, tmp_path):
            assert (await anext(watching)).descriptors == (MAIL,)
        assert (await anext(watching)).descriptors == ()


@pytest.mark.proves("security.loopback")
async def test_only_loopback_is_served_without_a_token() -> None:
    async with serve_websocket(LiveApp().handle) as url:
        assert url.startswith("ws://127.0.0.1:")
    with pytest.raises(InvalidInput, match="token"):
        async with serve_websocket(LiveApp().handle, "0.0.0.0"):  # noqa: S104 - refused
            raise AssertionError("open to all")


@pytest.mark.proves("security.origin")
async def test_pages_and_names_that_are_not_listed_are_refused() -> None:
    async with serve_websocket(LiveApp().handle) as url:
        for options in ({"origin": Origin("https://evil.example")}, {"host": "127.0.0.1"}):
            named = url if "origin" in options else url.replace("127.0.0.1", "evil.example")
            with pytest.raises(InvalidStatus) as refused:
                async with connect(named, proxy=None, **options):
                    raise AssertionError("let in")
            assert refused.value.response.status_code == 403


@pytest.mark.proves("discovery.atomic", "discovery.stale", "discovery.both")
async def test_descriptors_come_and_go_with_their_apps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOP_PROVIDERS", f"{tmp_path}/lasting:{tmp_path}/ephemeral")
    lasting, ephemeral = standard_directories()
    calendar = Descriptor("calendar", "Calendar", Unix("/run/calendar.sock"))
    gone = subprocess.Popen(["true"])
    gone.wait()
    with announced(MAIL), announced(calendar, lasting):
        assert [item.name for item in ephemeral.iterdir()] == ["mail.json"]
        found = Discovery().look()
        assert [item.id for item in found.descriptors] == ["calendar", "mail"]
        stale = Descriptor("old", "Old", Unix("/run/old.sock"), pid=gone.pid)
        with announced(stale):
            [ignored] = Discovery().look().ignored
            assert "is gone" in ignored.reason
    assert list(ephemeral.iterdir()) == list(lasting.iterdir()) == []


@pytest.mark.proves("security.ownership")
def test_what_others_could_have_written_is_ignored(tmp_path: Path) -> None:
    with announced(MAIL, tmp_path) as path:
        path.chmod(0o622)
        assert Discovery([tmp_path]).look().descriptors == ()
        path.chmod(0o600)
        tmp_path.chmod(0o777)
        assert Discovery([tmp_path]).look().descriptors == ()
        tmp_path.chmod(0o1777)
        assert Discovery([tmp_path]).look().descriptors == (MAIL,)
        if os.getuid() == 0:
            os.chown(path, 65534, 65534)
            assert Discovery([tmp_path]).look().descriptors == ()
            os.chown(path, 0, 0)


@pytest.mark.proves("security.consent")
async def test_nothing_is_spawned_without_consent(tmp_path: Path) -> None:
    tool = Descriptor("tool", "Tool", Stdio(("touch", str(tmp_path / "ran"))))
    with pytest.raises(Unauthorized):
        await dial_descriptor(tool)()
    assert list(tmp_path.iterdir()) == []
