"""Law 13: what goes on to the vendor, and comes back, is what was given; nobody else gets in."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets

from gateway.conftest import SECRET, Start
from sightline.context.dialects.usage import Usage
from sightline.context.ledger import Ledger
from sightline.gateway.observer import Observer
from support.loopback import listening
from support.vendors.answers import Ignores, Refuses, says
from support.vendors.server import Vendor

MESSAGES = "/anthropic/v1/messages"


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request with its own body, in chunks of odd sizes."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        lines = head.lower().split(b"\r\n")
        length = next((line for line in lines if line.startswith(b"content-length:")), b":0")
        body = await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\nx-given: 1\r\ntransfer-encoding: chunked\r\n\r\n")
        rng = random.Random(len(body))
        at = 0
        while at < len(body):
            size = rng.randrange(1, 5_000)
            part = body[at : at + size]
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            at += size
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def bodies(rng: random.Random, count: int) -> list[bytes]:
    """Bodies as agents write them, and as nobody would."""
    found = []
    for _ in range(count):
        kind = rng.randrange(4)
        if kind == 0:
            found.append(rng.randbytes(rng.randrange(40_000)))
        elif kind == 1:
            said = {"role": "user", "content": "ä\u2028\ud83d\ude00" * rng.randrange(99)}
            found.append(json.dumps({"messages": [said], "tools": []}, indent=1).encode())
        elif kind == 2:
            found.append(b'{"messages": [{"role":"user","content":"cut o')
        else:
            found.append(gzip.compress(b'{"messages":[]}'))
    return found


async def test_bodies_go_on_and_come_back_as_they_were(gateway: Start) -> None:
    async with listening(_echo) as port, gateway({"anthropic": f"http://127.0.0.1:{port}"}) as run:
        for body in bodies(random.Random(1), 150):
            reply = await run.client.post(f"{run.base}{MESSAGES}", content=body)
            assert reply.status_code == 200
            assert reply.content == body
            assert reply.headers["x-given"] == "1"
            passed = await run.passed.get()
            assert passed.data == body
        await run.client.aclose()


async def test_a_body_that_comes_in_pieces_and_waits_to_be_asked_for_is_passed(
    gateway: Start,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"0123456789" * 100

    async with listening(_echo_any) as port, gateway({"openai": f"http://127.0.0.1:{port}"}) as run:
        address = f"{run.base}/openai/v1/files"
        reply = await run.client.post(address, content=pieces(), headers={"expect": "100-continue"})
        assert reply.content == b"0123456789" * 5_000


async def _echo_any(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request, whose body is chunked, with that body."""
    await reader.readuntil(b"\r\n\r\n")
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    await writer.drain()


async def test_a_length_beside_chunks_is_no_length(gateway: Start) -> None:
    async with listening(_echo) as port, gateway({"anthropic": f"http://127.0.0.1:{port}"}) as run:
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        head = f"POST /{SECRET}{MESSAGES} HTTP/1.1\r\nhost: 127.0.0.1:{run.port}\r\n"
        both = "connection: close\r\ncontent-length: 99\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(f"{head}{both}2\r\n{{}}\r\n0\r\n\r\n".encode())
        reply = await reader.read()
        writer.close()
        assert reply.startswith(b"HTTP/1.1 200 ")
        assert (await run.passed.get()).data == b"{}"


async def test_a_stream_comes_through_while_it_is_said(gateway: Start) -> None:
    more = asyncio.Event()

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: one\n\n")
        await writer.drain()
        await more.wait()
        writer.write(b"data: two\n\n")
        await writer.drain()

    async with (
        listening(slowly) as port,
        gateway({"anthropic": f"http://127.0.0.1:{port}"}) as run,
        run.client.stream("POST", f"{run.base}{MESSAGES}", content=b"") as reply,
    ):
        chunks = reply.aiter_raw()
        assert await anext(chunks) == b"data: one\n\n"
        more.set()  # the first piece was here before the second was sent
        assert await anext(chunks) == b"data: two\n\n"


async def test_an_agent_that_leaves_ends_the_request(gateway: Start) -> None:
    with Vendor(Ignores()) as vendor:
        async with gateway({"anthropic": vendor.url}) as run:
            asking = asyncio.create_task(run.client.post(f"{run.base}{MESSAGES}", content=b"{}"))
            await asyncio.to_thread(vendor.arrived.wait, 20)
            asking.cancel()
            assert await asyncio.to_thread(vendor.hung_up.wait, 20)
            passed = await run.passed.get()
            assert passed.cut


async def test_errors_and_unknown_ways_come_through_as_they_are(gateway: Start) -> None:
    with Vendor(Refuses("rate", retry_after="7")) as vendor:
        async with gateway({"anthropic": vendor.url}) as run:
            reply = await run.client.post(f"{run.base}{MESSAGES}", content=b"{}")
            assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
            assert reply.json()["type"] == "error"
            unknown = await run.client.get(f"{run.base}/anthropic/v1/nothing?a=%2F&b=1")
            assert unknown.status_code == 404
            assert vendor.requests[-1].path == "/v1/nothing?a=%2F&b=1"


@pytest.mark.parametrize("base", ["", "/behind"])
async def test_a_path_goes_on_as_it_came(gateway: Start, base: str) -> None:
    paths = ("/v1/../x/./y", "/../..", "//a//", "/%2e%2e/%2F", "/a|b'c\"^`{}", "/x?q=/../?&=%zz",
             "/v1/a;b=c/..;/d", "/" + "a/../" * 2_000)  # fmt: skip
    with Vendor(*[says("hello")] * len(paths)) as vendor:
        async with gateway({"anthropic": vendor.url + base}) as run:
            for path in paths:
                target = {"target": f"/{SECRET}/anthropic{path}".encode()}
                await run.client.get(run.base, extensions=target)
        assert [request.path for request in vendor.requests] == [base + path for path in paths]


async def test_a_vendor_that_cannot_be_reached_is_said_and_tried_again(gateway: Start) -> None:
    with Vendor(says("hello")) as vendor:
        gone = vendor.url
    async with gateway({"anthropic": gone}) as run:
        reply = await run.client.post(f"{run.base}{MESSAGES}", content=b"{}")
        assert reply.status_code == 502
        assert "could not reach the vendor" in reply.text
    async with gateway({"anthropic": "http://[::1"}) as run:
        reply = await run.client.post(f"{run.base}{MESSAGES}", content=b"{}")
        assert reply.status_code == 502
        assert "could not reach the vendor" in reply.text


async def test_a_reply_that_breaks_off_breaks_off_for_the_agent_too(gateway: Start) -> None:
    with Vendor(says("a b c d", cut=3)) as vendor:
        async with gateway({"anthropic": vendor.url}) as run:
            with pytest.raises(httpx2.RemoteProtocolError):
                await run.client.post(f"{run.base}{MESSAGES}", content=b"{}")
            passed = await run.passed.get()
            assert passed.cut


async def test_keys_pass_and_nothing_of_them_is_kept(gateway: Start, tmp_path: Path) -> None:
    key = "AIza" + "x" * 35
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).encode()
    path = f"/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse&key={key}"
    with Vendor(says("hello")) as vendor, Ledger(tmp_path / "l.db") as ledger:
        async with gateway({"gemini": vendor.url}) as run:
            address = f"{run.base}/gemini{path}"
            await run.client.post(address, content=body, headers={"x-goog-api-key": key})
            passed = Observer(ledger).observe(await run.passed.get())
        assert vendor.requests[0].path == path
        assert vendor.requests[0].headers["x-goog-api-key"] == key
        assert passed.exchange is not None
        assert key not in repr(passed)
    assert all(key.encode() not in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/anthropic/v1/messages", {}, 404),
        (f"/{SECRET}x/anthropic/v1/messages", {}, 404),
        (f"/{SECRET}/elsewhere/v1/messages", {}, 404),
        (f"/{SECRET}/http://elsewhere/v1/messages", {}, 404),
        (f"/{SECRET}/anthropic/v1/messages", {"host": "evil.example"}, 421),
        (f"/{SECRET}/anthropic/v1/messages", {"origin": "https://evil.example"}, 403),
        (f"/{SECRET}/anthropic/v1/messages", {"sec-fetch-site": "cross-site"}, 403),
        ("", {}, 404),
    ],
)
async def test_who_does_not_know_the_secret_or_comes_from_a_page_gets_nothing(
    gateway: Start, path: str, headers: dict[str, str], status: int
) -> None:
    with Vendor(says("hello")) as vendor:
        async with gateway({"anthropic": vendor.url}) as run:
            address = f"http://127.0.0.1:{run.port}{path}"
            reply = await run.client.post(address, content=b"{}", headers=headers)
            assert reply.status_code == status
            assert "access-control-allow-origin" not in reply.headers
            assert vendor.requests == []


async def test_a_websocket_is_passed_on_both_ways(gateway: Start) -> None:
    async def reply(vendor: websockets.ServerConnection) -> None:
        async for message in vendor:
            await vendor.send(message)

    async with websockets.serve(reply, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with gateway({"openai": f"http://127.0.0.1:{port}"}) as run:
            address = f"{run.base}/openai/v1/responses".replace("http", "ws", 1)
            async with websockets.connect(address) as agent:
                for message in ("words", b"\x00bytes", "x" * 500_000):
                    await agent.send(message)
                    assert await agent.recv() == message
            with pytest.raises(websockets.WebSocketException):
                async with websockets.connect(f"ws://127.0.0.1:{run.port}/openai/v1/responses"):
                    pass


async def test_a_vendor_s_refusal_or_close_of_a_websocket_is_the_agent_s(gateway: Start) -> None:
    def refuse(vendor: websockets.ServerConnection, request: websockets.Request) -> Any:
        status = int(request.path.rpartition("/")[2])
        if status == 200:
            return None
        response = vendor.respond(HTTPStatus(status), "not so")
        response.headers["location"] = "ws://127.0.0.1:9/elsewhere"
        return response

    async def leave(vendor: websockets.ServerConnection) -> None:
        await vendor.close(int(await vendor.recv()), "enough")

    async with websockets.serve(leave, "127.0.0.1", 0, process_request=refuse) as server:
        port = server.sockets[0].getsockname()[1]
        async with gateway({"openai": f"http://127.0.0.1:{port}"}) as run:
            address = f"{run.base}/openai/v1".replace("http", "ws", 1)
            for status in (307, 401, 426):
                client = await run.client.get(
                    f"{run.base}/openai/v1/{status}", headers=UPGRADE, follow_redirects=False
                )
                assert (client.status_code, client.text) == (status, "not so")
            for code in (1001, 1008, 1011, 4000):
                async with websockets.connect(f"{address}/200") as agent:
                    await agent.send(str(code))
                    with pytest.raises(websockets.ConnectionClosed):
                        await agent.recv()
                    assert (agent.close_code, agent.close_reason) == (code, "enough")


UPGRADE = {
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


async def test_what_passed_is_read_beside_the_traffic(gateway: Start) -> None:
    used = Usage(
        input_tokens=5_000, output_tokens=9, cache_read_tokens=4_000, cache_write_tokens=900
    )
    body = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "hi"}]}
    with Vendor(says("hello you", usage=used)) as vendor:
        async with gateway({"anthropic": vendor.url}) as run:
            await run.client.post(f"{run.base}{MESSAGES}", content=json.dumps(body).encode())
            passed = Observer().observe(await run.passed.get())
    assert passed.usage is not None
    assert passed.usage.cache_read_tokens == 4_000
    assert passed.stop == "end"
    assert passed.cost_usd
