"""Connections that send half a request, read nothing, or are too many, against a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sightline.inspector.server import ConnectionLimits, server_of

PATIENT_S = 30.0  # for what must come; nothing waits for it to pass
# For what is asked to be heard, before who asked is let go: a busy machine may need more.
HEARD_S = (0.05, 1.0, 10.0)
LARGE = b"x" * (64 * 1024 * 1024)
ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Site:
    """An application that answers at once, hugely, or when it is told to."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.asked = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/news":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"new", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if scope["path"] == "/slow":
            self.asked.set()
            await self.may_answer.wait()
        try:
            if scope["method"] == "POST":
                while (await receive()).get("more_body"):
                    pass
            body = LARGE if scope["path"] == "/large" else b"here"
            length = str(len(body)).encode()
            headers = [(b"content-length", length)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        finally:
            self.ended.set()


@asynccontextmanager
async def serving(limits: ConnectionLimits) -> AsyncIterator[tuple[Site, int]]:
    site = Site()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = server_of(site, limits)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:
            await asyncio.sleep(0)
        try:
            yield site, listening.getsockname()[1]
        finally:
            site.may_answer.set()
            server.should_exit = True
            await running


async def gone(reader: asyncio.StreamReader) -> bytes:
    """Read until the server hangs up."""
    try:
        async with asyncio.timeout(PATIENT_S):
            return await reader.read()
    except ConnectionError:
        return b""


async def answered(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENT_S):
        return await reader.readuntil(b"here")


@pytest.mark.parametrize(
    "half",
    [
        b"",
        b"GET",
        b"GET / HTTP/1.1\r\nHost: x\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        ASK + b"GET / HTTP/1.1\r\nHost",
    ],
)
async def test_half_a_request_is_not_waited_for(half: bytes) -> None:
    for request_s in HEARD_S:
        async with serving(ConnectionLimits(request_s=request_s)) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(half)
            said = await gone(reader)
            writer.close()
        if b" 200 " in said or not half.startswith(ASK):
            return
    pytest.fail("what was asked was not answered")


async def test_bytes_that_drip_in_do_not_buy_time() -> None:
    async with serving(ConnectionLimits(request_s=0.05)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n")
        over = asyncio.create_task(gone(reader))
        while not over.done():
            writer.write(b"X-More: 1\r\n")
            await asyncio.wait({over}, timeout=0.01)
        assert over.result() == b""
        writer.close()


async def test_who_reads_nothing_of_an_answer_is_let_go() -> None:
    async with serving(ConnectionLimits(write_s=0.05)) as (site, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(PATIENT_S):
            await site.ended.wait()
        writer.transport.abort()


async def test_an_answer_that_takes_long_is_waited_for() -> None:
    for request_s in HEARD_S:
        async with serving(ConnectionLimits(request_s=request_s)) as (site, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            idle, other = await asyncio.open_connection("127.0.0.1", port)
            await gone(idle)  # the time for requests has passed
            is_heard = site.asked.is_set()
            site.may_answer.set()
            if is_heard:
                assert b" 200 " in await answered(reader)
            writer.close()
            other.close()
        if is_heard:
            return
    pytest.fail("what was asked was not heard")


async def test_a_crowd_that_says_nothing_makes_room_for_who_asks() -> None:
    async with serving(ConnectionLimits(request_s=PATIENT_S, connections=8)) as (site, port):
        busy, asking = await asyncio.open_connection("127.0.0.1", port)
        asking.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.asked.wait()
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK)
        assert b" 200 " in await answered(reader)
        for oldest, _ in crowd[:30]:
            assert await gone(oldest) == b""
        site.may_answer.set()
        assert b" 200 " in await answered(busy), "who is being answered is never sent away"
        for _, one in [(busy, asking), (reader, writer), *crowd]:
            one.close()


async def test_nothing_is_upgraded_out_of_the_limits() -> None:
    async with serving(ConnectionLimits(request_s=PATIENT_S)) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert b" 101 " not in await answered(reader)
        writer.close()


@pytest.mark.parametrize("path", [b"/", b"/large", b"/slow", b"/news"])
async def test_of_a_body_that_is_none_nothing_is_said(
    path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    head = b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(ConnectionLimits()) as (site, port):
        for method, pause in ((b"POST ", False), (b"PUT ", False), (b"PUT ", True)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(method + path + head)
            if pause and path != b"/slow":
                await reader.read(1)
            writer.write(b"no length\r\n")
            await gone(reader)
            writer.close()
        site.may_answer.set()
    assert caplog.records == []


async def test_a_stream_without_an_end_ends_with_the_server_and_nothing_is_said_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(ConnectionLimits()) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ASK.replace(b"/", b"/news", 1))
        assert b"new" in await reader.readuntil(b"new")
    await gone(reader)
    writer.close()
    assert caplog.records == []
