"""An MCP server as an app: what it lists, does and asks; and what it cannot do to anybody else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import sightline.adapters.mcp.client as client_module
from sightline import App, Hub
from sightline.adapters.mcp.client import McpApp
from sightline.adapters.mcp.client_wire import ServerWire
from sightline.errors import ActionFailed, Unreachable
from sightline.slop.app.local import local_dial
from sightline.slop.hub.client import Dial
from sightline.slop.hub.mcp import McpTarget
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.link import Link, Peer
from support.mcp_server import KINDS

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"
APP = "mcp-raw"


def target(kind: str = "good") -> McpTarget:
    return McpTarget("raw", (sys.executable, "-S", "-E", str(SERVER), kind))


@asynccontextmanager
async def running(kind: str, **options: Any) -> AsyncIterator[tuple[McpApp, asyncio.Task[None]]]:
    """A server in this process, as soon as it shows something or is gone."""
    server = McpApp(target(kind), **options)
    life = asyncio.create_task(server.run())
    shown = asyncio.create_task(server.shown.wait())
    try:
        await asyncio.wait({life, shown}, return_when=asyncio.FIRST_COMPLETED)
        yield server, life
    finally:
        shown.cancel()
        life.cancel()
        await asyncio.gather(life, shown, return_exceptions=True)
        await server.app.close()


@asynccontextmanager
async def served(kind: str, **options: Any) -> AsyncIterator[tuple[Hub, asyncio.Task[None]]]:
    """A hub with the server, and an app of ours beside it that must stay well."""
    neighbour = App("well", "Well")
    neighbour.action("/", "say")(lambda: "well")
    async with asyncio.timeout(60), running(kind, **options) as (server, life), Hub() as hub:
        hub.add("well", local_dial(neighbour))
        hub.add(APP, as_server(local_dial(server.app)))
        await hub.ready()
        yield hub, life
        assert (await hub.invoke("well", "/", "say")).data == "well"


def as_server(dial: Dial) -> Dial:
    """Reach an app as a hub reaches a server, though it is in this process."""

    async def dialled() -> Link:
        link = await dial()
        link.peer = Peer("mcp", "a server")
        return link

    return dialled


def tree_of(hub: Hub) -> Node:
    app = hub.world.app(APP)
    assert app is not None
    assert app.tree is not None
    return app.tree


async def call(hub: Hub, **params: Any) -> Any:
    return (await hub.invoke(APP, "/tools/echo", "call", params)).data


async def test_a_server_is_an_app_with_its_lists_as_nodes() -> None:
    async with served("good") as (hub, _):
        tree = tree_of(hub)
        assert tree.meta.summary == "Echoes."
        names = {node.id: [child.id for child in node.children] for node in tree.children}
        assert names == {
            "tools": ["echo"], "resources": ["note:%2F%2Fone"],
            "templates": ["note:%2F%2F{id}"], "prompts": ["greet"],
        }  # fmt: skip
        assert await call(hub, text="hi") == {"text": "hi"}
        with pytest.raises(ActionFailed, match="invalid_params"):
            await call(hub, text=1)
        greeting = await hub.invoke(APP, "/prompts/greet", "get", {"who": "you"})
        assert greeting.data == {"messages": [{"role": "user", "text": "hello"}]}
        filled = await hub.invoke(APP, "/templates/note:%2F%2F{id}", "read", {"id": "7"})
        assert filled.data == {"uri": "note://7", "text": "about note://7"}
        read = await hub.invoke(APP, "/resources/note:%2F%2Fone", "read_content")
        assert read.data["content"] == "about note://one"
        await hub.invoke(APP, "/resources/note:%2F%2Fone", "watch")
        node = tree_of(hub).at("/resources/note:%2F%2Fone")
        assert node.properties["text"] == "about note://one"
        await call(hub, text="news")
        async for _ in hub.changes():
            tree = tree_of(hub)
            text = tree.at("/resources/note:%2F%2Fone").properties["text"]
            listed = [node.id for node in tree.at("/tools").children]
            if (text, listed) == ("about note://one news", ["echo", "news"]):
                break


def problem(said: str) -> Callable[[Hub], Any]:
    """A list that could not be had says so where it would be."""

    async def check(hub: Hub) -> None:
        assert said in (tree_of(hub).at("/tools").meta.summary or "")

    return check


def schema_problem(said: str) -> Callable[[Hub], Any]:
    """A tool whose schema is not one takes anything, and says why."""

    async def check(hub: Hub) -> None:
        node = tree_of(hub).at("/tools/echo")
        assert said in node.properties["problem"]
        assert node.affordances[0].params == {"type": "object"}
        assert await call(hub, text="all the same") == {"text": "all the same"}

    return check


def tools(*ids: str) -> Callable[[Hub], Any]:
    async def check(hub: Hub) -> None:
        assert [node.id for node in tree_of(hub).at("/tools").children] == list(ids)

    return check


def answers(expected: Any) -> Callable[[Hub], Any]:
    async def check(hub: Hub) -> None:
        assert await call(hub, text="hi") == expected

    return check


def refuses(said: str) -> Callable[[Hub], Any]:
    async def check(hub: Hub) -> None:
        with pytest.raises(ActionFailed) as failed:
            await call(hub, text="hi")
        assert said in str(failed.value)
        assert len(str(failed.value)) < 3_000

    return check


async def clipped_result(hub: Hub) -> None:
    text = (await call(hub))["text"]
    assert len(text) < 300_000
    assert text.endswith("more characters)")


async def left_out(hub: Hub) -> None:
    assert (await call(hub)) == {"left_out": ["image, image/png, 1048576 characters"]}


async def some_bytes(hub: Hub) -> None:
    read = await hub.invoke(APP, "/resources/note:%2F%2Fone", "read_content")
    assert read.data["encoding"] == "base64"


async def nothing_is_forged(hub: Hub) -> None:
    lines = str(hub.tail()).splitlines()
    assert [line[:12] for line in lines if line.startswith("<")] == ["<slop-state ", "</slop-state"]
    assert "</slop-state>" not in "".join(lines[:-1])
    shown = await hub.tools().call("slop_query", {"app": APP, "path": "/tools/echo"})
    assert "<slop-state>" not in shown.content
    assert not any(line.startswith("[root] bank") for line in shown.content.splitlines())


async def short_texts(hub: Hub) -> None:
    assert len(encode(tree_of(hub))) < 20_000


async def goes_on(hub: Hub) -> None:
    """A call that does not end is a task that can be cancelled."""
    outcome = await hub.invoke(APP, "/tools/echo", "call", {})
    assert outcome.status == "accepted"
    path = f"/tasks/{outcome.data['taskId']}"
    await hub.invoke(APP, path, "cancel")
    async for world in hub.changes():
        app = world.app(APP)
        assert app is not None
        assert app.tree is not None
        if app.tree.at(path).properties["status"] == "cancelled":
            return


async def many(hub: Hub) -> None:
    assert len(tree_of(hub).at("/tools").children) == 200
    assert len(hub.tail().state) < 1_200


async def odd_names(hub: Hub) -> None:
    assert len(tree_of(hub).at("/tools").children) == 9


async def odd_uris(hub: Hub) -> None:
    nodes = tree_of(hub).at("/resources").children
    assert len(nodes) == 6
    assert all(len(node.properties["uri"]) < 2_100 for node in nodes)


async def nobody_is_asked(hub: Hub) -> None:
    assert json.loads((await call(hub))["text"])[0] == ["cancel"]


async def one_at_a_time(hub: Hub) -> None:
    """Of fifty questions the first few wait for the user; the others are cancelled."""
    assert json.loads((await call(hub))["text"])[0] == ["cancel"]


async def children_are_ended(hub: Hub) -> None:
    PIDS.extend(json.loads((await call(hub))["text"]))


HANGS = {
    "old_jsonrpc", "no_result", "null_result", "batch", "wrong_ids", "never_lists",
    "ten_megabyte_schema",
}  # fmt: skip
PIDS: list[int] = []
ALWAYS: Any = tools("echo")

# What becomes of each kind: the server is not there (a reason), or it is, and this holds.
EXPECTED: dict[str, Any] = {
    "good": ALWAYS,
    "prints_prose": ALWAYS,
    "prints_much_prose": "faulty messages",
    "old_jsonrpc": problem("in time"),
    "no_result": problem("in time"),
    "null_result": problem("in time"),
    "batch": problem("in time"),
    "not_utf8": ALWAYS,
    "deep_json": ALWAYS,
    "huge_line": ALWAYS,
    "not_a_number": ALWAYS,
    "wrong_ids": problem("in time"),
    "answers_twice": answers({"text": "first"}),
    "never_begins": "in time",
    "never_lists": problem("in time"),
    "never_ends": goes_on,
    "wrong_types": problem("cannot be read"),
    "unknown_version": "cannot be read",
    "long_error": refuses("more characters"),
    "endless_list": problem("does not end"),
    "circular_list": problem("does not end"),
    "many_tools": many,
    "same_names": tools("echo", "echo%252", "echo%253"),
    "odd_names": odd_names,
    "odd_uris": odd_uris,
    "injection": nothing_is_forged,
    "long_texts": short_texts,
    "ten_megabyte_schema": problem("in time"),
    "long_schema": schema_problem("too long"),
    "no_schema": schema_problem("not a JSON Schema"),
    "deep_schema": schema_problem("nested deeper"),
    "circular_schema": answers({"text": "hi"}),
    "remote_schema": schema_problem("another document"),
    "slow_pattern": refuses("does not match"),
    "huge_result": clipped_result,
    "binary_result": left_out,
    "bad_blob": some_bytes,
    "breaks_its_promise": refuses("echo"),
    "fails": refuses("it did not work"),
    "notifies_much": ALWAYS,
    "changes_much": ALWAYS,
    "unknown_notices": ALWAYS,
    "loud": answers({"text": "quiet again"}),
    "progresses_much": answers({"text": "done"}),
    "progresses_oddly": answers({"text": "done"}),
    "asks": nobody_is_asked,
    "asks_much": one_at_a_time,
    "asks_oddly": nobody_is_asked,
    "asks_for_more": answers({"text": "[true, true, false, true]"}),
    "leaves_at_once": "my licence is over",
    "leaves_midway": refuses("closed"),
    "goes_deaf": goes_on,
    "goes_mute": goes_on,
    "leaves_children": children_are_ended,
}


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_a_server_does_is_bounded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = EXPECTED[kind]
    if kind == "never_begins":
        monkeypatch.setattr(client_module, "START_S", 0.5)
    # Who answers has time enough, also on a busy machine; who does not is not waited for.
    monkeypatch.setattr(client_module, "LIST_S", 0.5 if kind in HANGS else 40.0)
    monkeypatch.setattr(client_module, "PAGES", 20)
    monkeypatch.setattr(client_module, "ITEMS", 200)
    long_s = 0.1 if expected is goes_on else 20.0
    async with served(kind, long_s=long_s) as (hub, life):
        if isinstance(expected, str):
            with pytest.raises(Unreachable) as gone:
                await life
            assert expected in str(gone.value)
        else:
            await expected(hub)
    for pid in PIDS:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    PIDS.clear()


async def test_server_wire_ends_its_server_when_most_of_10_mb_is_unread() -> None:
    line = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}'
    words = ("sh", "-c", f"yes '{line}' | head -c 10000000; exec cat")
    async with asyncio.timeout(120):
        for _ in range(100):
            async with ServerWire(McpTarget("many", words)).streams() as (received, _sent):
                await received.receive()
