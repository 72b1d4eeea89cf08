"""An app mounted into a web framework, on a real server, lets in whom it should."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as ws_connect
from websockets.exceptions import InvalidStatus

from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.transports.link import LinkClosed, Outgoing, Peer
from sightline.testing import Client
from support.web import served

TOKEN = "correct horse"


class SocketLink:
    """A client's WebSocket as a link."""

    def __init__(self, socket: ClientConnection) -> None:
        self.peer = Peer("ws")
        self._socket = socket

    async def receive(self) -> bytes | None:
        try:
            return await self._socket.recv(decode=False)
        except OSError as error:
            raise LinkClosed from error
        except Exception:  # noqa: BLE001 - whatever ends it ends it
            return None

    async def send(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            assert isinstance(message, bytes)
            await self._socket.send(message.decode())

    async def close(self, reason: str = "") -> None:
        await self._socket.close()


def counter(**options: Any) -> App:
    app = App("counter", "Counter", coalesce_s=0, **options)
    state = {"n": 0}
    app.node("count")(lambda: {"props": dict(state)})

    @app.action("count", "up")
    def up(by: int = 1) -> int:
        state["n"] += by
        return state["n"]

    return app


@asynccontextmanager
async def client_at(url: str, **options: Any) -> AsyncIterator[Client]:
    async with ws_connect(url, proxy=None, max_size=None, **options) as sock:
        client = Client(SocketLink(sock))
        await client.ready()
        yield client
        await client.close()


async def fetch(url: str, **headers: str) -> tuple[int, bytes]:
    def get() -> tuple[int, bytes]:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own server
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310 - likewise
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    return await asyncio.to_thread(get)


def in_starlette(app: App) -> Any:
    return Starlette(routes=[Mount("/agents", app.asgi())])


def in_fastapi(app: App) -> Any:
    framework = FastAPI()

    @framework.get("/agents/hello")
    def hello() -> str:
        return "still here"

    framework.mount("/agents", app.asgi())
    return framework


@pytest.mark.parametrize("mounted", [in_starlette, in_fastapi])
async def test_an_app_lives_inside_a_framework(mounted: Any) -> None:
    app = counter()
    async with served(mounted(app)) as at:
        status, body = await fetch(f"http://{at}/agents/.well-known/slop")
        described = json.loads(body)
        assert status == 200
        assert (described["id"], described["transport"]) == (
            "counter", {"type": "ws", "url": f"ws://{at}/agents/slop"},
        )  # fmt: skip
        async with client_at(described["transport"]["url"]) as client:
            assert await client.invoke("/count", "up", by=5) == 5
            assert client.tree.at("/count").properties == {"n": 5}
        assert (await fetch(f"http://{at}/agents/elsewhere"))[0] == 404


async def test_an_app_is_an_application_of_its_own() -> None:
    async with served(counter().asgi("/live")) as at, client_at(f"ws://{at}/live") as client:
        assert client.tree.id == "counter"


async def test_a_large_snapshot_passes() -> None:
    app = counter()
    app.register("big", {"items": [{"id": n, "props": {"t": "x" * 100_000}} for n in range(55)]})
    async with served(app.asgi()) as at, client_at(f"ws://{at}/slop") as client:
        assert len(client.tree.at("/big").children) == 55


async def refused(url: str, **options: Any) -> int:
    with pytest.raises(InvalidStatus) as caught:
        async with ws_connect(url, proxy=None, **options):
            pytest.fail("let in")
    return caught.value.response.status_code


async def test_only_allowed_hosts_and_origins_get_in() -> None:
    gate = counter().asgi(origins=["https://good.example"])
    async with served(gate) as at:
        url = f"ws://{at}/slop"
        assert await refused(url, origin="https://evil.example") == 403
        assert await refused(url, origin="null") == 403
        host, _, port = at.partition(":")
        assert await refused("ws://evil.example/slop", host=host, port=int(port)) == 403
        assert (await fetch(f"http://{at}/.well-known/slop", Host="evil.example"))[0] == 403
        assert await refused(f"ws://{at}/other") == 404
        async with client_at(url, origin="https://good.example") as client:
            assert client.tree.id == "counter"


async def test_a_page_shows_its_token_as_a_subprotocol() -> None:
    async with served(counter().asgi(token=TOKEN)) as at:
        offered = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
        names = ["slop", f"slop.bearer.{offered}"]
        async with client_at(f"ws://{at}/slop", subprotocols=names) as client:
            assert client.tree.id == "counter"
        status, body = await fetch(f"http://{at}/.well-known/slop")
        assert (status, json.loads(body)["id"]) == (200, "counter")


async def test_a_server_that_cannot_deny_with_a_status_closes_the_handshake() -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/slop", "headers": [(b"host", b"evil.example")]}
    await counter().asgi()(scope, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_the_answer_to_the_handshake_travels_alone() -> None:
    loop = asyncio.get_running_loop()
    came: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: list[tuple[str, float]] = []

    async def send(message: Any) -> None:
        sent.append((message["type"], loop.time()))
        if message["type"] == "websocket.send":
            came.put_nowait({"type": "websocket.disconnect"})

    came.put_nowait({"type": "websocket.connect"})
    headers = [(b"host", b"127.0.0.1:1")]
    scope = {"type": "websocket", "path": "/slop", "headers": headers}
    await counter().asgi()(scope, came.get, send)
    (accepted, then), (first, later) = sent[:2]
    assert (accepted, first) == ("websocket.accept", "websocket.send")
    assert later - then > 0.09, "a client that is a little late would miss the first message"


async def test_the_hook_sees_the_peer() -> None:
    app = counter()
    seen: list[Peer] = []

    @app.authenticate
    async def who(peer: Peer) -> str | None:
        seen.append(peer)
        return peer.token

    header = {"Authorization": "Bearer ana"}
    async with served(app.asgi()) as at, client_at(f"ws://{at}/slop", additional_headers=header):
        assert (seen[0].transport, seen[0].token) == ("asgi", "ana")
        assert seen[0].headers["host"] == at


def test_hosts_beyond_loopback_need_a_token_or_a_hook() -> None:
    with pytest.raises(InvalidInput, match=r"'app\.example' is open to other machines"):
        counter().asgi(hosts=["localhost", "app.example"])
    counter().asgi(hosts=["localhost:8000", "[::1]:80", "127.0.0.1"])
    counter().asgi(hosts=["app.example"], token=TOKEN)
