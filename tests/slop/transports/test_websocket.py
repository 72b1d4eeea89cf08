"""WebSockets: who is let in, by which name, from which page, with which token."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from pathlib import Path

import pytest
from playwright._impl._driver import compute_driver_executable
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Origin, Subprotocol

from sightline.errors import InvalidInput, LetGo, TimedOut, Unauthorized, Unreachable
from sightline.slop.transports import websocket
from sightline.slop.transports.link import Link
from sightline.slop.transports.websocket import connect_websocket, serve_websocket
from support.loopback import listening

PAGE = "http://localhost:3000"


async def echo(link: Link) -> None:
    while (message := await link.receive()) is not None:
        await link.send([message])


async def status_of(url: str, **options: object) -> int:
    """The status of a handshake that is refused; 101 if it is not."""
    try:
        async with connect(url, proxy=None, **options):  # type: ignore[arg-type] # test input
            return 101
    except InvalidStatus as error:
        return error.response.status_code


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 101),
        (PAGE, 101),
        ("http://localhost:3001", 403),
        ("https://localhost:3000", 403),
        ("http://evil.example", 403),
        ("http://localhost:3000.evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
async def test_only_listed_pages_may_connect(origin: str | None, status: int) -> None:
    async with serve_websocket(echo, origins=[PAGE]) as url:
        sent = None if origin is None else Origin(origin)
        assert await status_of(url, origin=sent) == status


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_frame_begins_as_the_library_has_it(size: int) -> None:
    text = b"x" * size
    framed = Frame(Opcode.TEXT, text).serialize(mask=False, extensions=[])
    assert websocket._head(size) + text == framed


@pytest.mark.parametrize("path", ["//[", "/other", "/slop/", "//evil.example/slop"])
async def test_any_other_path_is_not_found(path: str) -> None:
    async with serve_websocket(echo) as url:
        host, _, port = url.removeprefix("ws://").removesuffix("/slop").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = (
            f"GET {path} HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket",
            "Connection: Upgrade", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}", "", "",
        )  # fmt: skip
        writer.write("\r\n".join(lines).encode())
        assert (await reader.readline()).split()[1] == b"404"
        writer.close()
        await writer.wait_closed()


LATE = """
const { ws: WebSocket } = require(process.argv[2]);
(async () => {
  for (let n = 0; n < 10; n++) {
    const socket = new WebSocket(process.argv[1]);
    await new Promise((done, fail) => { socket.once("open", done); socket.once("error", fail); });
    await new Promise((done) => { socket.once("message", done); socket.once("close", done); })
      .then((what) => console.log(String(what)));
    socket.terminate();
  }
})();
"""


async def test_a_client_that_looks_for_messages_once_it_is_connected_misses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Node's `ws`, as the browser tests' driver brings it, and node itself."""
    monkeypatch.setattr(websocket, "_HEARD_S", 60.0)  # a busy machine may be late
    node, *_ = compute_driver_executable()
    bundle = Path(node).parent / "package" / "lib" / "utilsBundle.js"

    async def greet(link: Link) -> None:
        await link.send([b"hello"])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await link.receive()

    async with serve_websocket(greet) as url:
        program = await asyncio.create_subprocess_exec(
            node, "-e", LATE, url, str(bundle), stdout=asyncio.subprocess.PIPE
        )
        heard, _ = await program.communicate()
    assert heard.split() == [b"hello"] * 10


async def test_who_answers_no_ping_is_spoken_to_all_the_same() -> None:
    async def greet(link: Link) -> None:
        await link.send([b"hello"])

    async with serve_websocket(greet) as url:
        host, _, port = url.removeprefix("ws://").removesuffix("/slop").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        lines = (
            "GET /slop HTTP/1.1", f"Host: {host}:{port}", "Upgrade: websocket",
            "Connection: Upgrade", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}", "", "",
        )  # fmt: skip
        writer.write("\r\n".join(lines).encode())
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(2) == b"\x89\x04", "a ping with four bytes"
        await reader.readexactly(4)
        assert await reader.readexactly(7) == b"\x81\x05hello"
        writer.close()
        await writer.wait_closed()


async def test_an_address_that_is_no_url_is_refused() -> None:
    for url in ("ws://[", "ws://", "http://localhost/slop"):
        with pytest.raises(InvalidInput, match="not a WebSocket URL"):
            await connect_websocket(url)


async def test_no_page_may_connect_by_default() -> None:
    async with serve_websocket(echo) as url:
        own = url.replace("ws://", "http://").removesuffix("/slop")
        assert await status_of(url, origin=Origin(own)) == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", b"101"),
        ("LOCALHOST:{port}", b"101"),
        ("[::1]:{port}", b"101"),
        ("evil.example:{port}", b"403"),
        ("localhost.evil.example:{port}", b"403"),
        ("localhost:1", b"403"),
        ("localhost", b"403"),
        ("", b"403"),
    ],
)
async def test_only_own_names_are_answered_to(host: str, status: bytes) -> None:
    async with serve_websocket(echo) as url:
        port = url.split(":")[2].split("/")[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", int(port))
        request = (
            f"GET /slop HTTP/1.1\r\nHost: {host.format(port=port)}\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n"
        )
        writer.write(request.encode())
        assert (await reader.readline()).split()[1] == status
        writer.close()


async def test_another_path_is_not_there() -> None:
    async with serve_websocket(echo, path="/live") as url:
        assert url.endswith("/live")
        assert await status_of(url.replace("/live", "/slop")) == 404
        with pytest.raises(Unreachable, match="404"):
            await connect_websocket(url.replace("/live", "/slop"))


def bearer(token: str) -> list[Subprotocol]:
    text = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
    return [Subprotocol("slop"), Subprotocol(f"slop.bearer.{text}")]


async def test_a_token_comes_by_header_or_subprotocol_and_never_by_the_url() -> None:
    async with serve_websocket(echo, token="s3cret") as url:
        link = await connect_websocket(url, "s3cret")
        await link.send([b"in"])
        assert await link.receive() == b"in"
        await link.close()
        async with connect(url, subprotocols=bearer("s3cret"), proxy=None) as socket:
            assert socket.subprotocol == "slop"
        assert await status_of(url) == 401
        assert await status_of(f"{url}?token=s3cret&access_token=s3cret") == 401
        assert await status_of(url, subprotocols=bearer("s3cre")) == 401
        assert await status_of(url, subprotocols=[Subprotocol("slop.bearer.%%%")]) == 401
        assert await status_of(url, additional_headers={"Authorization": "Basic s3cret"}) == 401
        with pytest.raises(Unauthorized):
            await connect_websocket(url, "wrong")


async def test_the_app_learns_what_the_transport_knows() -> None:
    peers = []

    async def note(link: Link) -> None:
        peers.append(link.peer)

    async with serve_websocket(note) as url:
        link = await connect_websocket(url, "who I am")
        assert await link.receive() is None
    assert peers[0].token == "who I am"
    assert peers[0].headers["host"] == url.split("/")[2]


async def test_other_machines_need_a_token_and_a_name() -> None:
    for options in ({}, {"token": ""}, {"token": "t"}):
        with pytest.raises(InvalidInput):
            async with serve_websocket(echo, "0.0.0.0", **options):  # type: ignore[arg-type] # noqa: S104 - refused
                raise AssertionError("open to all")
    async with serve_websocket(echo, "0.0.0.0", token="t", hosts=["box.example"]) as url:  # noqa: S104 - with both
        local = url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - replaced
        assert await status_of(local) == 403


async def test_a_token_is_not_sent_in_clear_to_another_machine() -> None:
    with pytest.raises(InvalidInput, match="wss"):
        await connect_websocket("ws://192.0.2.1/slop", "s3cret")


@pytest.mark.parametrize("url", ["http://localhost/", "ws:///slop", "localhost:80", ""])
async def test_what_is_no_url_is_said_to_be_none(url: str) -> None:
    with pytest.raises(InvalidInput, match="not a WebSocket URL"):
        await connect_websocket(url)


async def test_a_message_far_over_the_limit_ends_the_connection() -> None:
    async with serve_websocket(echo, max_bytes=1000) as url:
        async with connect(url, proxy=None) as socket:
            await socket.send("x" * 3000)
            assert len(await socket.recv()) == 3000
            await socket.send("x" * 5000)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


async def test_who_connects_and_says_nothing_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve_websocket(echo) as url:
        host, _, port = url.removeprefix("ws://").partition("/")[0].partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        await writer.wait_closed()
        assert await status_of(url) == 101
    assert caplog.records == []


async def test_nobody_there_is_unreachable() -> None:
    async with serve_websocket(echo) as url:
        pass
    with pytest.raises(Unreachable, match=url):
        await connect_websocket(url)


async def test_a_port_that_is_taken_is_said_to_be() -> None:
    async with serve_websocket(echo) as url:
        port = int(url.split(":")[2].split("/")[0])
        with pytest.raises(InvalidInput, match="in use"):
            async with serve_websocket(echo, port=port):
                raise AssertionError("two servers on one port")


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "_OPEN_S", 0.05)

    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()  # to the end of the connection

    async with listening(listen) as port:
        with pytest.raises(TimedOut):
            await connect_websocket(f"ws://127.0.0.1:{port}/slop")


async def test_a_redirect_is_not_followed() -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: ws://192.0.2.1/slop\r\n\r\n")

    async with listening(redirect) as port:
        with pytest.raises(Unreachable, match="302"):
            await connect_websocket(f"ws://127.0.0.1:{port}/slop", "s3cret")


async def test_a_consumer_that_floods_with_pings_is_let_go() -> None:
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def echoed(link: Link) -> None:
        with pytest.raises(LetGo) as error:
            await echo(link)
        ended.set_result(str(error.value))

    async with serve_websocket(echoed) as url, connect(url, proxy=None) as socket:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.ping()
                await asyncio.sleep(0)
        reason = await ended
    assert reason.startswith("let go: it sent more than 100 pings")


async def test_an_app_that_floods_with_pings_is_let_go() -> None:
    async def flood(socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.ping()
                await asyncio.sleep(0)

    async with serve(flood, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = await connect_websocket(f"ws://127.0.0.1:{port}/slop")
        with pytest.raises(LetGo, match="pings"):
            await link.receive()
        await link.close()


async def test_some_pings_are_answered() -> None:
    async with serve_websocket(echo) as url, connect(url, proxy=None) as socket:
        for _ in range(20):
            await (await socket.ping())
        await socket.send("still here")
        assert await socket.recv() == "still here"
