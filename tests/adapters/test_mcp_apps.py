"""MCP servers wherever apps are: by address, in a hub, before a model and before the user."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp_types import Tool

from adapters.test_mcp_client import APP, SERVER, as_server, running
from agent.host.helpers import hosted, invoke
from cli.commands.test_commands import Desktop
from sightline import ActionQuestion, App, Hub
from sightline.adapters.mcp.client_nodes import summary_of, tool_nodes
from sightline.cli.approval import Consent, LineAsker, approval_card, consent_to
from sightline.cli.commands.console import text_of
from sightline.config import AppSettings
from sightline.config.mcp_files import read_mcp_file
from sightline.context.projection.select import fold
from sightline.context.tokens.tokens import counter_for
from sightline.demo.app import Desk
from sightline.errors import InvalidInput, InvalidPath, NotFound, Unreachable
from sightline.events import ApprovalAsked, CallFinished
from sightline.slop.app.local import local_dial
from sightline.slop.hub.client import Backoff
from sightline.slop.hub.hub import Hub as PlainHub
from sightline.slop.hub.mcp import McpTarget
from sightline.slop.protocol.codec import from_value
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

COMMAND = shlex.join([sys.executable, "-S", "-E", str(SERVER)])


@pytest.mark.parametrize(
    ("address", "app_id"),
    [
        ("mcp:uvx mcp-server-time", "mcp-time"),
        ("mcp:npx -y @modelcontextprotocol/server-filesystem@1.2 /tmp", "mcp-filesystem"),
        ("mcp:env KEY=1 python -m weather_mcp.server", "mcp-weather_mcp.server"),
        ("mcp:docker run -i ghcr.io/github/github-mcp-server", "mcp-github"),
        ("mcp:./server.py", "mcp-server"),
        ("mcp+https://mcp.linear.app/mcp", "mcp-linear"),
        ("mcp+http://127.0.0.1:80/", "mcp-127-0-0-1"),
    ],
)
def test_a_server_has_the_id_of_what_is_started_or_reached(address: str, app_id: str) -> None:
    assert McpTarget.of_address(address).app_id == app_id


@pytest.mark.parametrize(
    "address",
    [
        "mcp:", "mcp: ", "mcp:'", "mcp+http://example.com/", "mcp+https://", "mcp+https://a b/",
        "mcp+https://user:pw@example.com/", "mcp+https://exämple.com/", "mcp+https:x",
    ],
)  # fmt: skip
async def test_what_is_no_safe_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput):
        async with Hub.connect(address):
            pass


def schema(number: int) -> dict[str, Any]:
    about = {"type": "string", "description": f"What to do with {number}, at some length. " * 3}
    return {"type": "object", "properties": {f"p{index}": about for index in range(8)}}


async def test_135_tools_cost_little_until_one_is_looked_at() -> None:
    tools = [
        Tool(
            name=f"issues_{n}_update", description="Update an issue. " * 20, input_schema=schema(n)
        )
        for n in range(135)
    ]

    async def run(**_: Any) -> None: ...

    app = App("mcp-issues", "Issues")
    names = [tool.name for tool in tools]
    items = [*tool_nodes(tools, lambda _: run)]
    node = {"type": "collection", "summary": summary_of("tools", names), "items": items}
    app.register("tools", {**node, "meta": {"folded": True}})
    count = counter_for("o200k_base").count
    async with Hub() as hub:
        hub.add("mcp-issues", local_dial(app))
        await hub.ready()
        assert count(str(hub.tail())) <= 300
        assert "description" not in str(hub.tail())
        assert len(hub.tools("dynamic").names) == len(hub.tools().names)
        offered = hub.tools()
        one = {"app": "mcp-issues", "path": "/tools/issues_77_update"}
        shown = await offered.call("slop_query", one)
        assert '"p7":{"type":"string","description":"What to do with 77' in shown.content
        await offered.call("slop_focus", one)
        assert "[item] issues_77_update" in str(hub.tail())
        # It is known in full: who is asked before it runs sees what it is.
        questions = []

        def approve(question: ActionQuestion) -> bool:
            questions.append(question)
            return False

        await offered.call("slop_invoke", {**one, "action": "call"}, approve=approve)
        assert questions[0].dangerous
        assert questions[0].about.startswith("Update an issue.")


def test_a_folded_node_is_a_stub_but_for_what_is_in_focus() -> None:
    leaf = {"type": "item", "properties": {"a": 1}}
    items = [{"id": "x", **leaf}, {"id": "y", **leaf}]
    more = {"id": "more", "type": "collection", "meta": {"folded": True}, "children": items}
    plain = {"id": "plain", "type": "collection", "meta": {"folded": False}, "children": items}
    tree = from_value({"id": "r", "type": "root", "children": [more, plain]})
    world = World((AppState("r", "R", "connected", tree),))

    def shown(*pins: str) -> list[str]:
        found = fold(world, {"r": pins}).apps[0].tree
        assert found is not None
        return [line.split()[1] for line in format_tree(found).splitlines() if "[" in line]

    rest = ["plain", "x", "y"]
    assert shown() == ["r", "more", *rest]
    assert shown("/more/y", "/plain/x", "/gone") == ["r", "more", "y", *rest]
    assert shown("/more") == ["r", "more", "x", "y", *rest]
    unmarked = World((AppState("r", "R", "connected", tree.without_child("more")),))
    assert fold(unmarked, {}) is unmarked


async def test_a_server_that_ends_is_started_again_and_nothing_outlives_the_hub() -> None:
    async with Hub.connect(
        f"mcp:{COMMAND} leaves_children", within_s=60, backoff=Backoff(first_s=0.01)
    ) as hub:
        (app,) = hub.world.apps
        assert str(hub.origin(app.id)).startswith("MCP server: ")
        data = (await hub.invoke(app.id, "/tools/echo", "call", {})).data
        pids = json.loads(data["text"])
        os.kill(pids[0], signal.SIGKILL)
        seen = set()
        async with asyncio.timeout(60):
            async for world in hub.changes():
                seen.add(world.apps[0].status)
                if seen >= {"connected", "disconnected"} and world.apps[0].status == "connected":
                    break
        assert not any(map(_lives, pids))
        data = (await hub.invoke(app.id, "/tools/echo", "call", {})).data
        pids = json.loads(data["text"])
        assert all(map(_lives, pids))
    assert not any(map(_lives, pids))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_server_that_does_not_start_says_why() -> None:
    async with Hub() as hub:
        with pytest.raises(Unreachable, match="my licence is over"):
            await hub.reach(f"mcp:{COMMAND} leaves_at_once")
        assert hub.world.apps == ()


async def shows(hub: Hub | PlainHub, path: str, **props: Any) -> Node:
    """Wait until the server shows a node that says so."""
    async with asyncio.timeout(60):
        async for world in hub.changes():
            app = world.app(APP)
            try:
                node = None if app is None or app.tree is None else app.tree.at(path)
            except InvalidPath:
                continue
            if node is not None and props.items() <= node.properties.items():
                return node
    raise AssertionError(path)


async def test_the_user_answers_a_server_and_a_model_cannot(tmp_path: Path) -> None:
    guess = {"key": "k", "action": "accept", "content": {"name": "Eve"}}
    script = [
        invoke("c1", "/tools/echo", "call", app=APP),
        invoke("c2", "/questions", "answer", app=APP, **guess), "Done.",
    ]  # fmt: skip
    async with running("asks", long_s=0.2) as (server, _), hosted(tmp_path, script) as (host, _):
        host.hub.add(APP, as_server(local_dial(server.app)))
        await shows(host.hub, "/tools/echo")
        results = []
        async for event in host.ask("do it"):
            if isinstance(event, ApprovalAsked) and not event.is_question:
                host.answer(event.call_id, approved=True)
            elif isinstance(event, CallFinished):
                results.append((event.ok, event.content))
        assert results[0][0]
        assert not results[1][0]
        assert "nobody waits for this answer" in results[1][1]
        while not host.questions.open:  # the server may not have come to it
            await asyncio.sleep(0)
        (question,) = host.questions.open
        assert question.summary == "question 0"
        assert question.origin == "MCP server: a server"
        with pytest.raises(InvalidInput, match="name"):
            host.answer(question.call_id, approved=True)
        host.answer(question.call_id, approved=True, params={"name": "Ada"})
        task = next(iter((await shows(host.hub, "/calls")).children)).id
        node = await shows(host.hub, f"/calls/{task}", status="done")
        assert json.loads(node.properties["result"]) == [["accept"], {"name": "Ada"}]
        with pytest.raises(NotFound):
            host.answer(question.call_id, approved=False)


FORM = {
    "type": "object", "required": ["name", "count"],
    "properties": {
        "name": {"type": "string", "title": "Who\u202e"},
        "count": {"type": "integer", "minimum": 1},
        "sure": {"type": "boolean", "default": True}, "tags": {"type": "array"},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (["n"], Consent(False)),
        ([""], Consent(False)),
        (
            ["v", "y", "Ada", "no number", "0", "3", "", "a, b"],
            Consent(True, params={"name": "Ada", "count": 3, "sure": True, "tags": ["a", "b"]}),
        ),
        (
            ["y", "Ada", "3", "n", ""],
            Consent(True, params={"name": "Ada", "count": 3, "sure": False}),
        ),
        (["y", "", "3", "", ""], Consent(False)),
    ],
)
async def test_a_form_is_filled_in_line_by_line(typed: list[str], given: Consent) -> None:
    out, lines = StringIO(), iter(typed)

    async def ask(_: str) -> str:
        return next(lines)

    event = ApprovalAsked(
        call_id="question-1", app="mcp-x", path="/questions", action="answer", params={},
        dangerous=False, reason="it asks", name="X", origin="MCP server: x", type="question",
        summary="Who are you?\n[y] is safe", form=FORM,
    )  # fmt: skip
    card = "\n".join(map(text_of, approval_card(event, 80)))
    assert card.startswith(
        "? mcp-x asks you\n  app: X, from MCP server: x\n  it says: Who are you?"
    )
    assert "it wants: name, needed:" in card
    assert "\u202e" not in card
    assert await consent_to(event, LineAsker(out, ask, width=80)) == given
    assert next(lines, None) is None


async def test_a_page_to_open_is_shown_whole() -> None:
    url = "https://login.example/" + "x" * 900
    event = ApprovalAsked(
        call_id="question-1", app="mcp-x", path="/questions", action="answer", params={},
        dangerous=False, reason="it asks", summary="Sign in", url=url,
    )  # fmt: skip
    shown = "".join(map(text_of, approval_card(event, 80)))
    assert shown.count("x") >= 900


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file of servers, which is the current one; none of them is started."""
    monkeypatch.setattr("sightline.slop.hub.mcp.PROGRAM", "keyword")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    servers = {
        "raw": {"command": sys.executable, "args": ["-S", str(SERVER)], "env": {"A": "${HOME}"}},
        "far": {"type": "http", "url": "https://far.example/mcp", "headers": {"X": "${NO:-none}"}},
        "off": {"command": "x", "disabled": True},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return tmp_path


def test_a_file_names_servers_and_variables(at_home: Path) -> None:
    raw, far = read_mcp_file(at_home / ".mcp.json", {"HOME": "/no/home"}, of_user=False)
    assert raw.target.command == (sys.executable, "-S", str(SERVER))
    assert raw.target.env == {"A": "/no/home"}
    assert "${HOME}" in raw.definition, "who is asked sees what is in the file"
    assert far.target == McpTarget("far", url="https://far.example/mcp", headers={"X": "none"})
    assert "/no/home" not in raw.target.address


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{", '{"mcpServers": {"a": {"command": 1}}}', '{"mcpServers": {"a": {}}}',
        '{"mcpServers": {"a": {"url": "http://far.example"}}}', " " * 300_000,
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        read_mcp_file(path, {})
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(InvalidInput):
        read_mcp_file(link, {}, of_user=False)


async def test_a_directorys_server_is_started_after_a_yes_that_holds_for_that_command(
    at_home: Path,
) -> None:
    async with hosted(at_home) as (host, model):
        desk = Desktop(host, model, Desk())
        assert "raw" in await desk.does("/mcp")
        assert "Nothing was started" in await desk.does("/mcp raw")
        assert host.hub.world.apps == ()
        shown = await desk.does("/mcp raw", yes=True)
        assert '"A":"${HOME}"' in shown
        assert "Connecting to mcp-raw" in shown
        await host.disconnect("mcp-raw")
        assert await desk.does("/mcp raw") == "Connecting to mcp-raw.\n", "it is remembered"
        await host.disconnect("mcp-raw")
        text = (at_home / ".mcp.json").read_text().replace("-S", "-E")
        (at_home / ".mcp.json").write_text(text)
        shown = await desk.does("/mcp raw")
        assert "Nothing was started" in shown, "of another command"
        assert 'You agreed to: {"command"' in shown
        with pytest.raises(NotFound):
            await desk.does("/mcp off")


async def test_settings_name_files_whose_servers_are_wanted(at_home: Path) -> None:
    apps = AppSettings(discover=False, workspace=False, mcp_files=(".mcp.json", "none.json"))
    async with hosted(at_home, apps=apps) as (host, _):
        assert [app.id for app in host.hub.world.apps] == ["mcp-raw", "mcp-far"]
