"""Content references: what is the app's own is read, anything else only with leave."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from sightline.errors import (
    ActionFailed,
    InvalidInput,
    SightlineError,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unreachable,
)
from sightline.slop.app.app import App
from sightline.slop.hub.client import Client
from sightline.slop.hub.content import ContentAccess, read_content
from sightline.slop.protocol.tree import ContentRef
from sightline.slop.transports.link import Link
from sightline.slop.transports.memory import memory_pair
from support.loopback import listening

LONG = "Grüße " * 60_000
BYTES = bytes(range(256)) * 1_000


def always(answer: Any) -> Callable[[], Any]:
    return lambda: answer


def whatever_is_asked(answer: Any) -> Callable[[int], Any]:
    def read(offset: int) -> Any:  # noqa: ARG001 - every reader is asked for one
        return answer

    return read


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    app = App("docs", "Docs", coalesce_s=0)
    ref = {"type": "text", "mime": "text/plain", "summary": "s"}
    for name, content in {"long": LONG, "image": BYTES, "empty": ""}.items():
        app.register(name, {"content_ref": ref})
        app.content(name)(always(content))
    answers = {"less": {"content": "", "encoding": "utf-8", "size": 9}, "odd": [1]}
    for name, answer in answers.items():
        app.register(name, {"content_ref": ref})
        app.action(name, "read_content")(whatever_is_asked(answer))
    tasks: list[asyncio.Task[None]] = []

    async def dial() -> Link:
        ours, theirs = memory_pair()
        tasks.append(asyncio.create_task(app.handle(theirs)))
        return ours

    async with Client(dial) as client:
        yield client
    await asyncio.gather(*tasks)


def ref(uri: str) -> ContentRef:
    return ContentRef("text", "text/plain", uri, "a summary")


async def test_what_the_app_serves_comes_whole(client: Client) -> None:
    assert (await read_content(client, ref("slop://content/long"))).decode() == LONG
    assert await read_content(client, ref("slop://content/image")) == BYTES
    assert await read_content(client, ref("slop://content/empty")) == b""
    with pytest.raises(TooLarge, match="1000 bytes"):
        await read_content(client, ref("slop://content/long"), ContentAccess(max_bytes=1000))
    with pytest.raises(ActionFailed, match="not_found"):
        await read_content(client, ref("slop://content/nowhere"))


async def test_an_app_that_answers_with_something_else_is_not_followed(client: Client) -> None:
    with pytest.raises(InvalidInput, match="ends at 0 of 9"):
        await read_content(client, ref("slop://content/less"))
    with pytest.raises(InvalidInput, match="piece"):
        await read_content(client, ref("slop://content/odd"))


@pytest.mark.parametrize(
    ("uri", "content"),
    [
        ("data:,A%20brief%20note", b"A brief note"),
        ("data:text/plain;charset=utf-8,%C3%A9", "é".encode()),
        ("data:image/png;base64,aGVsbG8=", b"hello"),
        ("data:;BASE64,aGVsbG8%3D", b"hello"),
        ("data:,", b""),
    ],
)
async def test_what_is_inline_is_there(client: Client, uri: str, content: bytes) -> None:
    assert await read_content(client, ref(uri)) == content


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("data:text/plain", InvalidInput),
        ("data:;base64,!!", InvalidInput),
        ("data:," + "x" * 101, TooLarge),
        ("ftp://example/x", InvalidInput),
        ("javascript:alert(1)", InvalidInput),
        ("nothing at all", InvalidInput),
        ("http://[::1", InvalidInput),
        ("http://host:port/", InvalidInput),
        ("", InvalidInput),
        ("http://127.0.0.1:1/", Unauthorized),
        ("https://cdn.example:8443/x", Unauthorized),
        ("http://cdn.example/x", Unauthorized),
        ("https://cdn.example.evil.example/x", Unauthorized),
        ("https://cdn.example@evil.example/x", Unauthorized),
        ("https://user@cdn.example/x", Unauthorized),
        ("file:///etc/passwd", Unauthorized),
        ("file://other/etc/passwd", Unauthorized),
        ("file:///no/such/file", Unauthorized),
    ],
)
async def test_nothing_else_is_had_without_leave(
    client: Client, uri: str, error: type[SightlineError]
) -> None:
    access = ContentAccess(frozenset({"https://cdn.example"}), max_bytes=100)
    with pytest.raises(error):
        await read_content(client, ref(uri), access)


async def test_a_file_is_read_below_an_allowed_directory_only(
    client: Client, tmp_path: Path
) -> None:
    allowed, secret = tmp_path / "allowed", tmp_path / "secret.txt"
    allowed.mkdir()
    secret.write_text("secret")
    (tmp_path / "allowed2").write_text("secret")
    (allowed / "a note.txt").write_text("open")
    (allowed / "link").symlink_to(secret)
    (allowed / "inner").symlink_to(allowed / "a note.txt")
    os.mkfifo(allowed / "pipe")
    access = ContentAccess(directories=(allowed,), max_bytes=100)
    assert await read_content(client, ref(f"file://{allowed}/a%20note.txt"), access) == b"open"
    assert await read_content(client, ref(f"file://localhost{allowed}/inner"), access) == b"open"
    for outside in ("link", "../secret.txt", "%2e%2e/secret.txt", "../allowed2", "missing"):
        with pytest.raises(Unauthorized):
            await read_content(client, ref(f"file://{allowed}/{outside}"), access)
    for other in ("pipe", ""):
        with pytest.raises((InvalidInput, Unreachable)):
            await read_content(client, ref(f"file://{allowed}/{other}"), access)
    (allowed / "large").write_bytes(b"x" * 101)
    with pytest.raises(TooLarge):
        await read_content(client, ref(f"file://{allowed}/large"), access)


@contextlib.asynccontextmanager
async def web(answer: bytes) -> AsyncIterator[str]:
    """A server on loopback that answers everything alike; gives its origin."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not answer:
            await reader.read()

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def test_an_allowed_origin_is_asked_and_speaks_for_no_other(client: Client) -> None:
    async with web(b"HTTP/1.0 200 OK\r\n\r\nhello") as origin:
        access = ContentAccess(frozenset({origin}), max_bytes=5)
        assert await read_content(client, ref(f"{origin}/a"), access) == b"hello"
        tight = ContentAccess(frozenset({origin}), max_bytes=4)
        with pytest.raises(TooLarge):
            await read_content(client, ref(f"{origin}/a"), tight)
        moved = f"HTTP/1.0 302 Found\r\nLocation: {origin}/secret\r\n\r\n"
    async with web(moved.encode()) as pointing:
        access = ContentAccess(frozenset({pointing}))
        with pytest.raises(Unreachable, match="302") as caught:
            await read_content(client, ref(f"{pointing}/a"), access)
        refused = caught.value.__cause__
        assert isinstance(refused, HTTPError)
        assert refused.closed, "the answer is held open"
    with pytest.raises(Unreachable):
        await read_content(client, ref(f"{pointing}/a"), access)
    async with web(b"nonsense\r\n\r\n") as garbled:
        with pytest.raises(Unreachable):
            await read_content(client, ref(garbled), ContentAccess(frozenset({garbled})))


async def test_a_server_that_never_answers_is_given_up(client: Client) -> None:
    async with web(b"") as silent:
        access = ContentAccess(frozenset({silent}), timeout_s=0.05)
        with pytest.raises((TimedOut, Unreachable)):
            await read_content(client, ref(silent), access)
