"""Law 13: what goes on to the vendor, and comes back, is what was given; nobody else gets in."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import random
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import websockets
from benchmarks.faults import Layout, session

from gateway.conftest import SECRET, Running, Start
from gateway.test_observer import WIRE
from sightline.context.dialects.events import Usage
from sightline.context.ledger import Ledger
from sightline.gateway.observer import Observer
from sightline.gateway.report import line_of
from support.loopback import listening
from support.share import WHOLE
from support.vendors.answers import Ignores, Refuses, says
from support.vendors.apis import APIS as WIRES
from support.vendors.server import Vendor

MESSAGES = "/anthropic/v1/messages"


class Echo:
    """A vendor that notes every body, and answers each with another, in pieces of odd sizes."""

    def __init__(self, replies: Mapping[bytes, bytes] | None = None) -> None:
        self.replies = replies or {}
        self.bodies: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"content-length: *(\d+)", head.lower())
                body = await reader.readexactly(int(found[1]) if found else 0)
                self.bodies.append(body)
                writer.write(reply_of(self.replies.get(body, body), random.Random(len(body))))
                await writer.drain()


def reply_of(data: bytes, rng: random.Random) -> bytes:
    """A reply on the wire, chunked."""
    parts = [b"HTTP/1.1 200 OK\r\nx-given: 1\r\ntransfer-encoding: chunked\r\n\r\n"]
    at = 0
    while at < len(data):
        size = rng.randrange(1, 5_000)
        part = data[at : at + size]
        parts.append(b"%x\r\n%s\r\n" % (len(part), part))
        at += size
    return b"".join([*parts, b"0\r\n\r\n"])


Case = tuple[str, bytes, bytes]  # a path, what is sent there, and what comes back


def recorded(rng: random.Random) -> Iterator[Case]:
    """Requests as agents make them one after the other, and streams as vendors answer."""
    ways: dict[Layout, str] = {
        "anthropic": "/anthropic/v1/messages",
        "openai-responses": "/openai/v1/responses",
    }
    for layout, path in ways.items():
        stream = b"".join(WIRES[WIRE[layout]].frames(says("well " * rng.randrange(1, 200))))
        for body in session(rng, layout, 8):
            data = json.dumps(body, indent=rng.choice([None, 2])).encode()
            yield path, data, stream
            yield path, gzip.compress(data), gzip.compress(stream)
            yield path, data[: rng.randrange(len(data))], stream[: rng.randrange(len(stream))]


def fuzzed(rng: random.Random) -> Iterator[Case]:
    """What nobody would send, to any path."""
    spelled = json.dumps({"messages": [{"role": "user", "content": "\u2028\ud83d"}]}).encode()
    for path in ("/anthropic/v1/messages", "/openai/v1/chat/completions", "/openai/v1/files"):
        noise = rng.randbytes(rng.randrange(20_000))
        yield path, noise, rng.randbytes(rng.randrange(20_000))
        at = rng.randrange(len(spelled))
        yield path, spelled[:at] + noise[:9] + spelled[at:], b"data: " + noise + b"\n\n"
        yield path, b'{"input": [' + b"[" * rng.randrange(3_000), b"event: \x00\r\n\r\n" + noise


def cases(rng: random.Random, count: int) -> list[Case]:
    found: list[Case] = []
    while len(found) < count:
        found += [*recorded(rng), *fuzzed(rng)]
    return found[:count]


@pytest.mark.timeout(1200 if WHOLE else 120)
async def test_bodies_go_on_and_come_back_as_they_were(gateway: Start) -> None:
    tried = cases(random.Random(1), 10_000 if WHOLE else 150)
    echo = Echo({body: reply for _, body, reply in tried})
    left = iter(tried)

    async def agent(run: Running) -> None:
        for path, body, _ in left:
            async with run.client.stream("POST", f"{run.base}{path}", content=body) as reply:
                given = [part async for part in reply.aiter_raw()]
            assert reply.status_code == 200
            assert b"".join(given) == echo.replies[body]
            assert reply.headers["x-given"] == "1"

    async with listening(echo) as port:
        vendor = f"http://127.0.0.1:{port}"
        async with gateway({"anthropic": vendor, "openai": vendor}) as run:
            await asyncio.gather(*(agent(run) for _ in range(16)))
            await run.client.aclose()
    assert sorted(echo.bodies) == sorted(body for _, body, _ in tried)
    seen = [body for path, body, _ in tried if not path.endswith("/files")]
    assert sorted(run.passed.get_nowait().data for _ in seen) == sorted(seen)


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
    async with listening(Echo()) as port, gateway({"anthropic": f"http://127.0.0.1:{port}"}) as run:
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
        [line] = line_of(Observer().observe(await run.passed.get()))
        assert "could not reach the vendor" in line
        assert "cut off" not in line
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


async def test_requests_over_a_websocket_are_looked_at_as_if_each_said_everything(
    gateway: Start,
) -> None:
    def ask(words: str, **more: Any) -> str:
        said = {"type": "message", "role": "user", "content": words}
        body = {"type": "response.create", "model": "gpt-5.5", "tools": [TOOL], "input": [said]}
        return json.dumps({**body, **more})

    used = Usage(input_tokens=50_000, output_tokens=9, cache_read_tokens=49_000)
    lost = Usage(input_tokens=50_000, output_tokens=9)
    answers = (
        says("one", usage=used),
        says("two", usage=used),
        Refuses("rate"),
        says("3", usage=lost),
    )
    with Vendor(*answers) as vendor:
        async with gateway({"openai": vendor.url}) as run:
            address = f"{run.base}/openai/v1/responses".replace("http", "ws", 1)
            sent = [
                ask("hello " * 99),
                ask("and now?", previous_response_id="resp_1"),
                ask("more", previous_response_id="resp_2"),
                ask("more", previous_response_id="resp_2", model="gpt-5.4"),
                ask("what is not known", previous_response_id="resp_x"),
            ]
            async with websockets.connect(address, additional_headers={"session-id": "s"}) as agent:
                for message in sent:
                    await agent.send(message)
                    while json.loads(await agent.recv())["type"] not in (
                        "response.completed",
                        "error",
                    ):
                        pass
            assert [request.body.decode() for request in vendor.requests] == sent
            observer = Observer()
            passed = [observer.observe(await run.passed.get()) for _ in sent]
    assert [one.status for one in passed] == [200, 200, 429, 200, 200]
    assert "Rate limit" in passed[2].error
    assert [one.usage for one in passed[:2]] == [used, used]
    causes = [one.loss and one.loss.cause for one in passed]
    assert causes == [None, None, None, "model", None]


TOOL = {"type": "function", "name": "look", "description": "Look at it.", "parameters": {}}


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


async def test_a_key_is_known_by_a_hash_that_ends_with_the_gateway(gateway: Start) -> None:
    body = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "hi"}]}
    found = []
    with Vendor(says("hello")) as vendor:
        for _ in range(2):
            async with gateway({"anthropic": vendor.url}) as running:
                for key in ("key-a", "key-a", "key-b"):
                    headers = {"x-api-key": key}
                    await running.client.post(
                        f"{running.base}{MESSAGES}", json=body, headers=headers
                    )
                    found.append(await running.passed.get())
    hashes = [one.credential for one in found]
    assert [one.upstream for one in found] == ["anthropic"] * 6
    assert found[0].connection.startswith("127.0.0.1:")
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 4
