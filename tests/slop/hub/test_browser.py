"""Pages are apps: they dial, or an extension shows them, in the frames that are deployed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from sightline.errors import ActionFailed, InvalidInput, Unreachable
from sightline.slop.app.app import App
from sightline.slop.hub import browser as browser_module
from sightline.slop.hub.browser import BrowserBridge
from sightline.slop.hub.client import Backoff
from sightline.slop.hub.hub import Hub
from sightline.slop.hub.mcp import UserAnswer, UserQuestion
from sightline.slop.hub.pairing import PairingFile
from sightline.slop.hub.relay import Relay, TabSource
from sightline.slop.protocol.world import AppState, World
from sightline.slop.transports.link import LinkClosed, Peer
from sightline.slop.transports.memory import memory_pair
from sightline.slop.transports.websocket import WebSocketLink
from slop.hub.test_relay import Watcher
from support.extension import EXTENSION, deployed_bridge, extension
from support.wire import PATIENCE_S

SOON = Backoff(first_s=0.001, max_s=0.02)
ASLEEP = "its tab is asleep"


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[Hub]:
    """Open a hub with a bridge that has found its place; its file is in a directory."""
    made = BrowserBridge(path / "browser.json", **{"port": 0, "backoff": SOON, **options})
    async with asyncio.timeout(PATIENCE_S), Hub(bridge=made, backoff=SOON) as hub:
        await made.settled()
        yield hub


def bridge_of(hub: Hub) -> BrowserBridge:
    assert hub.bridge is not None
    return hub.bridge


async def until(hub: Hub, holds: Callable[[World], bool]) -> World:
    async for world in hub.changes():
        if holds(world):
            return world
    raise AssertionError("the hub has ended")


async def app_is(hub: Hub, app_id: str, status: str, reason: str = "") -> AppState:
    """Wait until an app has a status, and if one is given a reason."""

    def holds(world: World) -> bool:
        app = world.app(app_id)
        return app is not None and app.status == status and (not reason or app.reason == reason)

    app = (await until(hub, holds)).app(app_id)
    assert app is not None
    return app


def board() -> App:
    """A page's app: a counter and what can be done to it."""
    app, counted = App("kanban", "Kanban"), {"cards": 0}
    app.node("board")(lambda: {"type": "collection", "props": dict(counted)})

    @app.action("board", "add")
    def add(cards: int = 1) -> int:
        counted["cards"] += cards
        return counted["cards"]

    return app


@asynccontextmanager
async def dialled(port: int, app: App, origin: str | None = None) -> AsyncIterator[None]:
    """Let an app dial the hub."""
    url = f"ws://127.0.0.1:{port}/slop"
    said = None if origin is None else Origin(origin)
    async with connect(url, origin=said, proxy=None) as socket:
        serving = asyncio.create_task(app.handle(WebSocketLink(socket, Peer("ws", url))))
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def cards(hub: Hub, app_id: str, number: int) -> None:
    """Wait until an app shows so many cards."""

    def shown(world: World) -> bool:
        app = world.app(app_id)
        node = None if app is None or app.tree is None else app.tree.at("/board")
        return node is not None and node.properties["cards"] == number

    await until(hub, shown)


async def test_an_app_that_dials_is_seen_acted_on_and_found_again(tmp_path: Path) -> None:
    async with opened(tmp_path, gone_s=0.01) as hub:
        port, app = bridge_of(hub).port, board()
        async with dialled(port, app):
            await app_is(hub, "web-kanban", "connected")
            assert (await hub.invoke("web-kanban", "/board", "add", {"cards": 3})).data == 3
            await cards(hub, "web-kanban", 3)
            assert str(hub.origin("web-kanban")) == "page: a program that dialled"
            async with dialled(port, board()):
                await app_is(hub, "web-kanban-2", "connected")
        await until(hub, lambda world: not world.apps)


async def test_a_page_that_dials_again_is_the_app_that_it_was(tmp_path: Path) -> None:
    page = "https://kanban.example"
    async with opened(tmp_path, origins=[page]) as hub:
        port, app = bridge_of(hub).port, board()
        async with dialled(port, app, page):
            await app_is(hub, "web-kanban", "connected")
            assert str(hub.origin("web-kanban")) == f"page: {page}"
        away = await app_is(hub, "web-kanban", "disconnected")
        assert away.tree is not None
        assert away.last_seen is not None
        async with dialled(port, app, page):
            await app_is(hub, "web-kanban", "connected")
        # The same id from elsewhere is somebody else.
        async with dialled(port, app):
            await app_is(hub, "web-kanban-2", "connected")


async def test_what_was_disconnected_by_hand_does_not_come_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        app = board()
        async with dialled(bridge_of(hub).port, app):
            await app_is(hub, "web-kanban", "connected")
            await hub.remove("web-kanban")
        async with connect(f"ws://127.0.0.1:{bridge_of(hub).port}/slop", proxy=None) as socket:
            await socket.send('{"type":"hello","provider":{"id":"kanban","name":"Kanban"}}')
            await socket.wait_closed()
            assert socket.close_reason == "it was disconnected here"
        assert hub.world.apps == ()


async def test_who_dials_says_hello_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        for text in ('{"type":"provider-available","providerKey":"k"}', "hello", "[[["):
            url = f"ws://127.0.0.1:{bridge_of(hub).port}/slop"
            async with connect(url, proxy=None) as socket:
                await socket.send(text)
                await socket.wait_closed()
                assert socket.close_reason == "an app says hello first"


async def test_the_deployed_extension_shows_a_page_unchanged(tmp_path: Path) -> None:
    async with opened(tmp_path, origins=[EXTENSION]) as hub:
        port = bridge_of(hub).port
        async with extension(port) as browser:
            await browser.announce("tab-7-postmessage-0", board(), providerId="kanban")
            await app_is(hub, "web-kanban", "connected")
            assert (await hub.invoke("web-kanban", "/board", "add")).data == 1
            await cards(hub, "web-kanban", 1)
            with pytest.raises(ActionFailed):
                await hub.invoke("web-kanban", "/board", "drop")
            assert str(hub.origin("web-kanban")) == f"page: {EXTENSION} tab 7"
            kinds = [frame["type"] for frame in browser.heard]
            assert kinds[:2] == ["relay-open", "slop-relay"]
            assert browser.heard[1]["message"] == {"type": "connect"}
            # A tab that sleeps keeps what it showed, and says so; then it wakes, then it is closed.
            await browser.withdraw("tab-7-postmessage-0", reason="asleep")
            sleeping = await app_is(hub, "web-kanban", "disconnected", ASLEEP)
            assert sleeping.tree is not None
            with pytest.raises(Unreachable, match=ASLEEP):
                await hub.invoke("web-kanban", "/board", "add")
            await browser.announce("tab-7-postmessage-0", board(), providerId="kanban")
            await app_is(hub, "web-kanban", "connected")
            await browser.withdraw("tab-7-postmessage-0", reason="asleep")
            await app_is(hub, "web-kanban", "disconnected", ASLEEP)
            await browser.withdraw("tab-7-postmessage-0")
            await until(hub, lambda world: not world.apps)


async def test_an_extension_that_is_lost_finds_its_pages_again(tmp_path: Path) -> None:
    async with opened(tmp_path, origins=[EXTENSION]) as hub:
        lost = "the browser's extension is not connected"
        async with extension(bridge_of(hub).port) as browser:
            await browser.announce("k", board(), origin="https://kanban.example")
            await app_is(hub, "web-k", "connected")
            assert str(hub.origin("web-k")) == "page: https://kanban.example"
        await app_is(hub, "web-k", "disconnected", lost)
        async with extension(bridge_of(hub).port) as browser:
            await browser.announce("k", board(), origin="https://kanban.example")
            await app_is(hub, "web-k", "connected")
            # Another page in the same tab is another app.
            await browser.announce("k", board(), origin="https://other.example")
            await until(hub, lambda _: str(hub.origin("web-k")) == "page: https://other.example")


async def test_a_page_behind_a_websocket_is_dialled_where_it_is_its_own(tmp_path: Path) -> None:
    async with (
        opened(tmp_path, origins=[EXTENSION]) as hub,
        board().serving(port=0, unix=False, open=True, discoverable=False) as [url],
        extension(bridge_of(hub).port) as browser,
    ):
        site = url.removesuffix("/slop").replace("ws://", "http://")
        await browser.announce("own", board(), transport="ws", url=url, origin=site)
        await app_is(hub, "web-own", "connected")
        for number, (page, named) in enumerate([
            ("https://public.example", url), ("https://public.example", "ws://10.0.0.1/slop"),
            (None, "ws://192.168.1.1/slop"), (None, "wss://10.0.0.1/slop"), (None, "wss://nas/slop"),
            (None, "file:///etc/passwd"), (None, "ws://["), (None, ""),
        ]):  # fmt: skip
            more = {} if page is None else {"origin": page}
            await browser.announce(f"w{number}", board(), transport="ws", url=named, **more)
            away = await app_is(hub, f"web-w{number}", "disconnected")
            assert "points to another place" in away.reason or "not to be dialled" in away.reason


async def test_an_extension_is_paired_by_the_token_and_then_known(tmp_path: Path) -> None:
    async with opened(tmp_path) as hub:
        bridge = bridge_of(hub)
        file = tmp_path / "browser.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        token = json.loads(file.read_text())["token"]
        assert (token, bridge.is_paired) == (bridge.token, False)
        encoded = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
        offers = [["slop", f"slop.bearer.{encoded}"], ["slop.bearer", token]]
        for number, (first, second) in enumerate(offers):
            origin = f"moz-extension://{number}"
            offered = [Subprotocol(first), Subprotocol(second)]
            async with extension(bridge.port, origin, subprotocols=offered) as browser:
                assert browser.socket.subprotocol == first
        async with extension(bridge.port, "moz-extension://1") as browser:
            await browser.announce("k", board())
            await app_is(hub, "web-k", "connected")
        assert bridge.is_paired
    async with opened(tmp_path) as hub, extension(bridge_of(hub).port, "moz-extension://0"):
        assert bridge_of(hub).token == token


async def test_the_user_is_asked_once_about_an_extension(tmp_path: Path) -> None:
    asked: asyncio.Queue[UserQuestion] = asyncio.Queue()
    answers: asyncio.Queue[UserAnswer] = asyncio.Queue()

    async def ask(question: UserQuestion) -> UserAnswer:
        asked.put_nowait(question)
        return await answers.get()

    async def comes(port: int, origin: str) -> bool:
        with contextlib.suppress(InvalidStatus):
            async with extension(port, origin):
                return True
        return False

    async with opened(tmp_path) as hub:
        port = bridge_of(hub).port
        assert not await comes(port, EXTENSION)  # nobody can be asked
        hub.ask = ask
        assert not await comes(port, EXTENSION)
        assert (await asked.get()).origin == EXTENSION
        assert not await comes(port, EXTENSION)
        assert asked.empty()
        answers.put_nowait(UserAnswer("accept"))
        while EXTENSION not in PairingFile(tmp_path / "browser.json").read().origins:
            await asyncio.sleep(0)
        assert await comes(port, EXTENSION)
        other = "moz-extension://other"
        assert not await comes(port, other)
        assert (await asked.get()).origin == other
        answers.put_nowait(UserAnswer("decline"))
        assert not await comes(port, other)
        assert not await comes(port, "https://evil.example")
        assert asked.empty()


@pytest.mark.parametrize("new", [True, False])
async def test_two_hubs_share_a_bridge_and_the_second_takes_over(new: bool, tmp_path: Path) -> None:
    app = board()
    async with opened(tmp_path, origins=[EXTENSION]) as first:
        port = bridge_of(first).port
        async with opened(tmp_path, origins=[EXTENSION], port=port) as second:
            assert (bridge_of(first).role, bridge_of(second).role) == ("server", "client")
            async with extension(port, new=new) as browser:
                await browser.announce("k", app)
                for hub in (first, second):
                    await app_is(hub, "web-k", "connected")
                await second.invoke("web-k", "/board", "add")
                await cards(first, "web-k", 1)
                opened_by = [f for f in browser.heard if f["type"] == "relay-open"]
                assert len({frame["channel"] for frame in opened_by}) == 2
                await second.remove("web-k")
                await first.invoke("web-k", "/board", "add")
                await cards(first, "web-k", 2)
            await first.__aexit__()
            await until(second, lambda _: bridge_of(second).role != "client")
            assert await bridge_of(second).settled() == "server"
            async with extension(port) as browser:
                await browser.announce("again", app)
                await app_is(second, "web-again", "connected")


async def test_where_a_deployed_bridge_runs_we_are_its_consumer(tmp_path: Path) -> None:
    async with deployed_bridge() as port, extension(port) as browser:
        await browser.announce("k", board())
        async with opened(tmp_path, port=port) as hub, opened(tmp_path, port=port) as other:
            assert bridge_of(hub).role == "client"
            for one in (hub, other):  # what is said to one is heard by all, and is not its own
                await app_is(one, "web-k", "connected")
            assert (await hub.invoke("web-k", "/board", "add", {"cards": 2})).data == 2
            assert (await other.invoke("web-k", "/board", "add", {"cards": 2})).data == 4
            await cards(hub, "web-k", 4)
            assert all("channel" not in frame for frame in browser.heard)
            await browser.withdraw("k")
            await until(hub, lambda world: not world.apps)


async def test_a_port_that_somebody_else_has_is_told(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        bridge = BrowserBridge(tmp_path / "browser.json", port=port, backoff=SOON)
        async with Hub(bridge=bridge):
            with pytest.raises(Unreachable, match=f"cannot serve 127.0.0.1:{port}"):
                await bridge.settled()


async def test_who_does_not_read_is_let_go_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browser_module, "_UNSENT_BYTES", 1000)
    monkeypatch.setattr(browser_module, "_UNREAD_BYTES", 1000)
    ours, theirs = memory_pair(window_bytes=1)
    line = browser_module._Line(ours)
    running = asyncio.create_task(line.run(lambda _: None))
    for _ in range(3):
        line.put(b"x" * 500)
    await running
    with pytest.raises(LinkClosed):
        await theirs.send([b"x"])
    # A page that says more than we read loses its link; the others of its extension do not.
    sent: list[bytes] = []
    relay = Relay(Watcher())
    source = TabSource("e", sent.append)
    relay.hear_source(source, b'{"type":"provider-available","providerKey":"k"}')
    link = browser_module.PageLink(relay, relay.tabs["k"], Peer("page"))
    big = json.dumps({"type": "slop-relay", "providerKey": "k", "message": "x" * 900}).encode()
    for _ in range(2):
        relay.hear_source(source, big)
    with pytest.raises(Unreachable, match="faster than it can be read"):
        await link.receive()
    assert relay.tabs["k"].openings == {}


@pytest.mark.parametrize("bad", ["{}", "no", '{"token": "short"}'])
def test_a_token_that_others_could_know_is_made_anew(bad: str, tmp_path: Path) -> None:
    file = PairingFile(tmp_path / "browser.json")
    file.path.write_text(bad)
    first = file.read()
    assert (len(first.token), file.read()) == (43, first)
    file.agree(EXTENSION)
    assert file.read().origins == (EXTENSION,)
    file.path.chmod(0o644)
    assert file.read().token != first.token
    file.path.unlink()
    file.path.symlink_to("elsewhere")
    with pytest.raises(InvalidInput):
        file.read()
    assert [path.name for path in tmp_path.iterdir()] == ["browser.json"]
