"""Who gets in: one table, for the door itself and for both servers that have it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.transports.door import Door, Visitor, is_loopback
from sightline.slop.transports.link import Link
from sightline.slop.transports.websocket import serve_websocket
from support.web import served

PAGE = "http://localhost:3000"
TOKEN = "s3cret ключ"
HOSTS = ("localhost", "App.example:81")


def subprotocol(token: str) -> str:
    return "slop.bearer." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


NAMED = ("Host", "localhost")
SHOWN = ("Sec-WebSocket-Protocol", f"slop, {subprotocol(TOKEN)}")
GUEST = (NAMED, SHOWN)

# What a request says, and the status of the answer; 101 is "come in".
TABLE: list[tuple[Sequence[tuple[str, str]], int]] = [
    (GUEST, 101),
    ((("hOST", "LOCALHOST"), SHOWN), 101),
    ((("Host", "app.example:81"), SHOWN), 101),
    # names
    ((("Host", "localhost:1"), SHOWN), 403),
    ((("Host", "app.example"), SHOWN), 403),
    ((("Host", "127.0.0.1"), SHOWN), 403),
    ((("Host", "localhost.evil.example"), SHOWN), 403),
    ((("Host", "evil.example"), ("X-Forwarded-Host", "localhost"), SHOWN), 403),
    ((("Host", ""), SHOWN), 403),
    # pages
    ((*GUEST, ("Origin", PAGE)), 101),
    ((*GUEST, ("Origin", "http://localhost:3001")), 403),
    ((*GUEST, ("Origin", "https://localhost:3000")), 403),
    ((*GUEST, ("Origin", f"{PAGE}.evil.example")), 403),
    ((*GUEST, ("Origin", PAGE.upper())), 403),
    ((*GUEST, ("Origin", "null")), 403),
    ((*GUEST, ("Origin", "")), 403),
    # tokens
    ((NAMED,), 401),
    ((NAMED, ("Authorization", "Bearer wrong")), 401),
    ((NAMED, ("Authorization", "Bearer")), 401),
    ((NAMED, ("Authorization", "Basic s3cret")), 401),
    ((NAMED, ("Cookie", f"token={subprotocol(TOKEN)}")), 401),
    ((NAMED, ("Sec-WebSocket-Protocol", subprotocol(TOKEN[:-1]))), 401),
    ((NAMED, ("Sec-WebSocket-Protocol", "slop.bearer.")), 401),
    ((NAMED, ("Sec-WebSocket-Protocol", "slop.bearer._w")), 401),
    # an illegal name is said before a missing token
    ((("Host", "evil.example"),), 403),
]


@asynccontextmanager
async def websocket() -> AsyncIterator[str]:
    async def wait(link: Link) -> None:
        await link.receive()

    async with serve_websocket(wait, token=TOKEN, origins=[PAGE], hosts=HOSTS) as url:
        yield url.split("/")[2]


@asynccontextmanager
async def mounted() -> AsyncIterator[str]:
    app = App("a", "A")
    async with served(app.asgi(token=TOKEN, origins=[PAGE], hosts=HOSTS)) as at:
        yield at


async def status_of(at: str, path: str, headers: Sequence[tuple[str, str]]) -> int:
    host, _, port = at.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [
        f"GET {path} HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        *(f"{name}: {value}" for name, value in headers),
    ]  # fmt: skip
    writer.write("\r\n".join([*lines, "", ""]).encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


@pytest.mark.parametrize("server", [websocket, mounted])
async def test_both_servers_answer_by_the_table(server: object) -> None:
    async with server() as at:  # type: ignore[operator] # one of two functions
        for headers, status in TABLE:
            assert await status_of(at, "/slop", headers) == status, headers
        assert await status_of(at, f"/slop?token={TOKEN[:6]}", (NAMED,)) == 401
        assert await status_of(at, "/elsewhere", GUEST) == 404


@pytest.mark.parametrize(("headers", "status"), TABLE)
def test_the_door_answers_by_the_table(headers: Sequence[tuple[str, str]], status: int) -> None:
    refusal = Door.of(HOSTS, [PAGE], TOKEN).refusal(Visitor.of(headers))
    assert (101 if refusal is None else refusal.status) == status


def test_what_is_repeated_is_no_longer_one_that_is_allowed() -> None:
    door = Door.of(["localhost"], [PAGE], None)
    assert door.refusal(Visitor.of([NAMED, NAMED])) is not None
    pages = [("Origin", PAGE), ("Origin", "https://evil.example")]
    assert door.refusal(Visitor.of([NAMED, *pages])) is not None


def test_a_header_shows_a_token_too() -> None:
    door = Door.of(HOSTS, [], "plain")
    for shown in ("Bearer plain", "bearer  plain ", "BEARER plain"):
        assert door.refusal(Visitor.of([NAMED, ("Authorization", shown)])) is None
    assert door.refusal(Visitor.of([NAMED]), asks_token=False) is None


def test_an_app_is_told_every_header() -> None:
    peer = Visitor.of([("Via", "a"), ("VIA", "b"), *GUEST]).peer("ws", ("127.0.0.1", 80))
    assert (peer.transport, peer.address, peer.token) == ("ws", "127.0.0.1:80", TOKEN)
    assert peer.headers["via"] == "a, b"


@pytest.mark.parametrize(
    ("hosts", "token", "has_hook", "fits"),
    [
        (None, None, False, True),
        (["localhost:80", "[::1]:80", "127.0.0.9"], None, False, True),
        (["localhost", "app.example"], None, False, False),
        (["app.example"], "t", False, True),
        (["app.example"], None, True, True),
        (["0.0.0.0"], None, False, False),  # noqa: S104 - refused
        (None, "", False, False),
        (["app.example"], "", True, False),
    ],
)
def test_names_beyond_loopback_take_a_token_or_a_hook(
    hosts: list[str] | None, token: str | None, has_hook: bool, fits: bool
) -> None:
    if fits:
        Door.of(hosts, [], token, has_hook=has_hook)
    else:
        with pytest.raises(InvalidInput, match="token"):
            Door.of(hosts, [], token, has_hook=has_hook)


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("localhost", True), ("LocalHost:80", True), ("127.0.0.1", True), ("127.9.9.9:1", True),
        ("::1", True), ("[::1]", True), ("[::1]:80", True),
        ("::ffff:127.0.0.1", True), ("[::ffff:127.0.0.1]:80", True), ("::ffff:192.0.2.1", False),
        ("", False), ("192.0.2.1", False), ("localhost.", False), ("localhost:", False),
        ("localhost:x", False), ("localhost:80:80", False), ("[::1].evil.example", False),
        ("[::1]80", False), ("127.0.0.1.evil.example", False), ("2130706433", False),
        ("[localhost", False), ("[localhost]", False), ("10.0.0.1", False), ("localhost:٣", False),
    ],
)  # fmt: skip
def test_loopback_is_told_from_what_looks_like_it(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer
