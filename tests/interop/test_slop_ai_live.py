"""The deployed library and ours understand each other, both ways, over both sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from slop_ai import SlopConsumer, SlopServer
from slop_ai.state_mirror import StateMirror
from slop_ai.transports import unix as peer_unix
from slop_ai.transports import websocket as peer_websocket
from slop_ai.transports.unix_client import UnixClientTransport
from slop_ai.transports.ws_client import WebSocketClientTransport

from sightline.errors import ActionFailed, RequestRefused
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.consumer import Garbled
from sightline.slop.protocol.messages import Filter
from sightline.slop.protocol.view import View, project
from sightline.slop.transports.unix import serve_unix
from sightline.slop.transports.websocket import serve_websocket
from support.live import Handles, LiveApp
from support.real import Mailbox
from support.wire import PATIENCE_S

SOCKETS = pytest.mark.parametrize("socket", ["unix", "ws"])


@contextlib.asynccontextmanager
async def our_app(socket: str, directory: Path, app: Handles) -> AsyncIterator[Any]:
    """Our provider; gives the peer's way to it."""
    if socket == "unix":
        async with serve_unix(app.handle, directory / "app.sock"):
            yield UnixClientTransport(str(directory / "app.sock"))
    else:
        async with serve_websocket(app.handle) as url:
            yield WebSocketClientTransport(url)


@contextlib.asynccontextmanager
async def their_app(socket: str, directory: Path, app: SlopServer) -> AsyncIterator[str]:
    """The peer's provider; gives its address."""
    if socket == "unix":
        path = directory / "peer.sock"
        server = await peer_unix.listen(app, str(path))
        address = f"unix:{path}"
    else:
        server = await peer_websocket.serve(app, "127.0.0.1", 0)
        port = next(iter(server.sockets)).getsockname()[1]
        address = f"ws://127.0.0.1:{port}/slop"
    try:
        yield address
    finally:
        server.close()
        await server.wait_closed()


@SOCKETS
async def test_their_consumer_follows_our_app(socket: str, tmp_path: Path) -> None:
    app = LiveApp()
    async with our_app(socket, tmp_path, app) as transport:
        consumer = SlopConsumer(transport, timeout=PATIENCE_S)
        patched: asyncio.Queue[str] = asyncio.Queue()
        consumer.on_patch(lambda own, *_: patched.put_nowait(own))
        hello = await consumer.connect()
        assert hello["provider"]["id"] == "live"
        watched = {}
        for depth in (-1, 0, 1, 2):
            subscription = await consumer.subscribe("/", depth=depth)
            watched[subscription["id"]] = View(depth=depth, available_actions=True)
        edits: list[tuple[str, dict[str, Any]]] = [
            ("count", {}),
            ("set", {"path": "/inbox", "key": "a/b", "value": {"deep": [1]}}),
            ("add", {"path": "/inbox", "index": 1, "node": {"id": "new", "type": "item"}}),
            ("set", {"path": "/inbox/new", "key": "first", "value": None}),
            ("remove", {"path": "/inbox/msg-2"}),
            ("add", {"path": "/", "node": {"id": "last", "type": "group"}}),
            ("remove", {"path": "/me"}),
        ]
        for action, params in edits:
            result = await consumer.invoke("/", action, params)
            assert result["status"] == "ok", result
            for own, view in watched.items():
                mirror = consumer.get_tree(own)
                assert mirror is not None
                expected = json.loads(encode(project(app.tree, view)))
                assert plain(mirror.to_dict()) == plain(expected), (action, view)
        assert not patched.empty()
        failed = await consumer.invoke("/", "fail")
        assert failed["error"]["code"] == "conflict"
        answer = await consumer.query("/inbox", depth=0)
        assert answer.id == "inbox"
        with pytest.raises(RuntimeError):
            await consumer.query("/nowhere")
        consumer.disconnect()


@SOCKETS
async def test_their_consumer_uses_a_real_app(socket: str, tmp_path: Path) -> None:
    mailbox = Mailbox()
    app = mailbox.app
    async with our_app(socket, tmp_path, app) as transport:
        consumer = SlopConsumer(transport, timeout=PATIENCE_S)
        patched: asyncio.Queue[str] = asyncio.Queue()
        consumer.on_patch(lambda own, *_: patched.put_nowait(own))
        hello = await consumer.connect()
        assert (hello["provider"]["id"], hello["provider"]["slop_version"]) == ("app", "0.1")
        watched = {}
        for path, depth in (("/", -1), ("/", 0), ("/", 1), ("/", 2), ("/inbox", 1)):
            subscription = await consumer.subscribe(path, depth=depth)
            watched[subscription["id"]] = path, View(depth=depth, available_actions=True)

        def assert_mirrored(after: object) -> None:
            for own, (path, view) in watched.items():
                mirror = consumer.get_tree(own)
                assert mirror is not None
                expected = json.loads(encode(project(app.tree().at(path), view)))
                assert plain(mirror.to_dict()) == plain(expected), (after, path, view)

        edits: list[tuple[str, str, dict[str, Any]]] = [
            ("/", "count", {}),
            ("/", "set", {"path": "/inbox", "key": "a/b", "value": {"deep": [1]}}),
            ("/", "add", {"path": "/inbox", "index": 1, "node": {"id": "new", "type": "item"}}),
            ("/", "set", {"path": "/inbox/new", "key": "first", "value": 1}),
            ("/", "remove", {"path": "/inbox/msg-2"}),
            ("/inbox/msg-1", "archive", {}),
        ]
        for path, action, params in edits:
            result = await consumer.invoke(path, action, params)
            assert result["status"] == "ok", result
            assert_mirrored(action)
        for path, action, params, code in (
            ("/nowhere", "knock", {}, "not_found"),
            ("/", "knock", {"times": "x"}, "invalid_params"),
            ("/", "knock", {"times": 10}, "unauthorized"),
            ("/", "knock", {"times": 1}, "conflict"),
        ):
            refused = await consumer.invoke(path, action, params)
            assert (refused["status"], refused["error"]["code"]) == ("error", code)
        assert mailbox.done == []

        started = await consumer.invoke("/", "export", {"month": "may"})
        assert started["status"] == "accepted"
        task = f"/tasks/{started['data']['taskId']}"
        assert_mirrored("export")
        assert app.tree().at(task).properties["status"] == "running"
        while not patched.empty():
            patched.get_nowait()
        mailbox.go_on.set()
        [whole, *_] = watched
        async with asyncio.timeout(PATIENCE_S):
            while "'status': 'done'" not in str(consumer.get_tree(whole).to_dict()):
                await patched.get()
        assert app.tree().at(task).properties["status"] == "done"
        consumer.disconnect()
    await app.close()


@SOCKETS
async def test_their_mirror_follows_filtered_subscriptions_of_a_real_app(
    socket: str, tmp_path: Path
) -> None:
    app = Mailbox().app
    wanted = {
        "bright": ({"min_salience": 0.4}, View(min_salience=0.4)),
        "mail": (
            {"types": ["collection", "item"]},
            View(types=frozenset({"collection", "item"})),
        ),
    }
    async with our_app(socket, tmp_path, app) as transport:
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        connection = await transport.connect()
        connection.on_message(heard.put_nowait)
        mirrors: dict[str, StateMirror] = {}

        async def until_result(own: str, message: dict[str, Any]) -> None:
            await connection.send({"id": own, **message})
            while (answer := await heard.get()).get("id") != own or "tree" in answer:
                if answer["type"] == "snapshot":
                    mirrors[answer["id"]] = StateMirror(answer)
                elif answer["type"] == "patch":
                    mirrors[answer["subscription"]].apply_patch(answer)
            assert answer["status"] == "ok"

        async with asyncio.timeout(PATIENCE_S):
            for own, (asked, _) in wanted.items():
                await connection.send({"type": "subscribe", "id": own, "filter": asked})
            node = {"id": "msg-0", "type": "item", "meta": {"salience": 0.7}}
            edits: list[tuple[str, dict[str, Any]]] = [
                ("count", {}),
                ("add", {"path": "/inbox", "node": node}),
                ("remove", {"path": "/inbox/msg-3"}),
                ("set", {"path": "/inbox/msg-1", "key": "subject", "value": "changed"}),
            ]
            for at, (action, params) in enumerate(edits):
                asked_for = {"type": "invoke", "path": "/", "action": action, "params": params}
                await until_result(f"edit-{at}", asked_for)
                for own, (_, view) in wanted.items():
                    expected = json.loads(encode(project(app.tree(), view)))
                    assert plain(mirrors[own].get_tree().to_dict()) == plain(expected), action
        await connection.close()


def plain(value: Any) -> Any:
    """A tree without what the peer's types do not hold: empty and absent are one to them."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: plain(item)
        for key, item in value.items()
        if item not in ([], {})
        and key not in {"available_actions", "returns"}
        and (key, item) != ("children", None)
    }


@SOCKETS
async def test_their_connection_can_ask_for_filters(socket: str, tmp_path: Path) -> None:
    async with our_app(socket, tmp_path, LiveApp()) as transport:
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        connection = await transport.connect()
        connection.on_message(heard.put_nowait)
        async with asyncio.timeout(PATIENCE_S):
            assert (await heard.get())["type"] == "hello"
            wanted = {"min_salience": 0.6, "types": ["collection", "item"]}
            await connection.send({"type": "subscribe", "id": "s", "filter": wanted})
            tree = (await heard.get())["tree"]
            assert [child["id"] for child in tree["children"]] == ["inbox"]
            assert [child["id"] for child in tree["children"][0]["children"]] == ["msg-1"]
            await connection.send({"type": "query", "id": "q", "max_nodes": 4})
            assert (await heard.get())["tree"]["children"]
        await connection.close()


def peer_server(state: dict[str, int]) -> SlopServer:
    app = SlopServer("peer", "Peer")

    @app.node("counter")  # type: ignore[untyped-decorator] # the peer has no types
    def counter() -> dict[str, Any]:
        return {
            "type": "group",
            "props": {"n": state["n"]},
            "items": [
                {"id": f"tick-{n}", "props": {"at": n}, "meta": {"salience": n / 10}}
                for n in range(state["n"])
            ],
        }

    @app.action("counter", "count", params={"by": "number"})  # type: ignore[untyped-decorator] # likewise
    def count(by: int = 1) -> dict[str, int]:
        state["n"] += by
        app.refresh()
        return {"n": state["n"]}

    @app.action("counter", "fail")  # type: ignore[untyped-decorator] # likewise
    def fail() -> None:
        raise ValueError("broken on purpose")

    @app.node("tasks")  # type: ignore[untyped-decorator] # likewise
    def tasks() -> dict[str, Any]:
        started = {"id": "t1", "type": "status", "props": {"status": "running"}}
        ended = {"id": "t1", "type": "status", "props": {"status": "done"}}
        return {"type": "collection", "items": [started, ended][state.get("ended", 0) :][:1]}

    @app.action("counter", "export")  # type: ignore[untyped-decorator] # likewise
    def export() -> dict[str, Any]:
        return {"__async": True, "taskId": "t1"}

    app.refresh()  # it sees actions only when it builds its tree anew
    return app


@SOCKETS
async def test_our_client_follows_their_app(socket: str, tmp_path: Path) -> None:
    state = {"n": 1}
    app = peer_server(state)
    async with their_app(socket, tmp_path, app) as address, Client(dial_address(address)) as client:
        assert (await client.ready()).id == "peer"
        watches = [
            client.subscribe(),
            client.subscribe("/counter", depth=1),
            client.subscribe("/counter", filter=Filter(min_salience=0.2)),
        ]
        for watch in watches:
            await watch.first(PATIENCE_S)
        for expected in (2, 3, 5):
            by = expected - state["n"]
            outcome = await client.invoke("/counter", "count", {"by": by})
            assert (outcome.status, outcome.data) == ("ok", {"n": expected})
            async with asyncio.timeout(PATIENCE_S):
                async for tree in watches[1].changes():
                    if tree.properties["n"] == expected:
                        break
        full = await client.query()
        assert watches[0].tree == full
        assert len(full.at("/counter").children) == 5
        assert watches[2].tree is not None
        assert [node.id for node in watches[2].tree.children] == ["tick-2", "tick-3", "tick-4"]
        window = await client.query("/counter", window=(1, 2))
        assert [node.id for node in window.children] == ["tick-1", "tick-2"]
        with pytest.raises(ActionFailed):
            await client.invoke("/counter", "fail")
        with pytest.raises(ActionFailed):
            await client.invoke("/counter", "missing")
        with pytest.raises(RequestRefused, match="not_found"):
            await client.query("/nowhere")


@SOCKETS
async def test_a_number_that_is_none_leaves_our_mirror_in_doubt_until_it_is_gone(
    socket: str, tmp_path: Path
) -> None:
    """The peer writes a NaN as it is, in patches and in snapshots."""
    app = SlopServer("peer", "Peer")
    app.register("counter", {"type": "group", "props": {"n": 1}})
    async with (
        their_app(socket, tmp_path, app) as address,
        Client(dial_address(address), handshake_s=1.0) as client,
        asyncio.timeout(PATIENCE_S),
    ):
        heard: asyncio.Queue[object] = asyncio.Queue()
        client.listen(heard.put_nowait)
        watch = client.subscribe()
        await watch.first(PATIENCE_S)
        app.register("counter", {"type": "group", "props": {"n": math.nan}})
        while not isinstance(await heard.get(), Garbled):
            pass
        assert not watch.is_current
        app.register("counter", {"type": "group", "props": {"n": 2}})
        async for tree in watch.changes():
            if tree.at("/counter").properties["n"] == 2:
                break
        assert watch.is_current


@SOCKETS
async def test_our_client_follows_their_task(socket: str, tmp_path: Path) -> None:
    state = {"n": 1}
    app = peer_server(state)
    async with their_app(socket, tmp_path, app) as address, Client(dial_address(address)) as client:
        watch = client.subscribe("/tasks")
        await watch.first(PATIENCE_S)
        outcome = await client.invoke("/counter", "export")
        assert (outcome.status, outcome.data) == ("accepted", {"taskId": "t1"})
        state["ended"] = 1
        app.refresh()
        async with asyncio.timeout(PATIENCE_S):
            async for tree in watch.changes():
                if tree.at("/t1").properties["status"] == "done":
                    break
