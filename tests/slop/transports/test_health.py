"""Whoever asks is told whether a server lives and is ready, in a word, and nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from gateway.conftest import running
from sightline.adapters.mcp.server import AppsServer, guarded_app
from sightline.context.ledger import Ledger
from sightline.errors import LedgerUnavailable
from sightline.inspector.door import PageDoor
from sightline.inspector.reader import RecordReader
from sightline.inspector.server import inspector_app
from sightline.slop.app.app import App
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.transports import health
from sightline.slop.transports.health import Health
from support.web import served, served_on


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not one that does not answer."""
    monkeypatch.setattr(health, "_PATIENCE_S", 60.0)


Serving = Callable[[Path], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def an_app(_: Path) -> AsyncIterator[str]:
    async with App("desk").serving(port=0, unix=False, discoverable=False) as addresses:
        yield addresses[0].removeprefix("ws://").removesuffix("/slop")


@asynccontextmanager
async def an_app_in_a_framework(_: Path) -> AsyncIterator[str]:
    async with served(App("desk").asgi(token="secret")) as at:
        yield at


@asynccontextmanager
async def an_app_without_room(_: Path) -> AsyncIterator[str]:
    full = App("desk", limits=ProviderLimits(connections=0))
    async with served(full.asgi(token="secret")) as at:
        yield at


@asynccontextmanager
async def a_gateway(_: Path) -> AsyncIterator[str]:
    async with running({}) as found:
        yield f"127.0.0.1:{found.port}"


@asynccontextmanager
async def an_inspector(directory: Path) -> AsyncIterator[str]:
    with (
        Ledger(directory / "work.db") as ledger,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        door = PageDoor("secret", "room", listening.getsockname()[1])
        async with served_on(inspector_app(RecordReader(ledger), door), listening) as at:
            yield at


@asynccontextmanager
async def an_mcp_server(_: Path) -> AsyncIterator[str]:
    async with Hub() as hub, AppsServer(hub) as server, served(guarded_app(server, "secret")) as at:
        yield at


@pytest.mark.parametrize(
    ("serving", "ready"),
    [
        (an_app, 200),
        (an_app_in_a_framework, 200),
        (an_app_without_room, 503),
        (a_gateway, 200),
        (an_inspector, 200),
        (an_mcp_server, 200),
    ],
)
async def test_every_server_answers_without_a_token_and_says_nothing_else(
    tmp_path: Path, serving: Serving, ready: int
) -> None:
    words = {200: b"ok\n", 503: b"not ready\n"}
    async with serving(tmp_path) as at, httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        for path, status in (("/healthz", 200), ("/readyz", ready)):
            answer = await client.get(f"http://{at}{path}")
            assert (answer.status_code, answer.content) == (status, words[status])
        assert (await client.get(f"http://{at}/healthz/")).status_code >= 400


@pytest.mark.parametrize("serving", [a_gateway, an_inspector, an_mcp_server])
async def test_no_page_of_a_browser_learns_what_runs_here(tmp_path: Path, serving: Serving) -> None:
    async with serving(tmp_path) as at, httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            answer = await client.get(f"http://{at}/healthz", headers=headers)
            assert answer.status_code in (403, 421)


async def test_however_many_ask_the_store_is_looked_at_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, gate = 0, asyncio.Event()

    async def look() -> None:
        nonlocal looks
        looks += 1
        await gate.wait()

    found = Health(look)
    monkeypatch.setattr(health, "_FRESH_S", 600.0)
    monkeypatch.setattr(health, "_PATIENCE_S", 0.0)
    assert {await found.status("/readyz") for _ in range(5)} == {503}  # it hangs, and one waits
    assert await found.status("/healthz") == 200
    gate.set()
    monkeypatch.setattr(health, "_PATIENCE_S", 60.0)
    assert {await found.status("/readyz") for _ in range(5)} == {200}
    assert looks == 1


async def test_who_cannot_reach_the_store_is_not_ready_until_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problems: list[Exception] = [LedgerUnavailable("gone"), OSError("gone")]

    async def look() -> None:
        if problems:
            raise problems.pop()

    monkeypatch.setattr(health, "_FRESH_S", 0.0)
    found = Health(look)
    assert [await found.status("/readyz") for _ in range(3)] == [503, 503, 200]
    assert await found.status("/elsewhere") is None
