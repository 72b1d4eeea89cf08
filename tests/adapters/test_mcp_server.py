"""Every app as one MCP server: the SDK's own client, in both eras of the protocol."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from sightline import App
from sightline.adapters.mcp import AppsServer
from sightline.adapters.mcp.server_tools import LABEL, TOOLS
from sightline.config.settings import PolicyRule
from sightline.context.projection.escape import tag_like
from sightline.slop.app.local import local_dial
from sightline.slop.hub.hub import Hub
from support.forgeries import corpus

ERAS = ("2026-07-28", "legacy")
WITHIN_S = 20
OPTIONS = {"app": "shop", "path": "/shelf"}
# Clients of 2025 do it all the same.
subscribes = pytest.mark.filterwarnings("ignore:resources/subscribe is removed")


class Shop:
    """An app with a harmless and a dangerous action, beside a node that nothing is done to."""

    def __init__(self, app_id: str = "shop", label: str = "The shelf") -> None:
        self.app, self.id = App(app_id, "Shop", coalesce_s=0), app_id
        self.apples = 0
        self.till = 0
        app = self.app

        @app.node("shelf")
        def shelf() -> dict[str, Any]:
            return {"type": "view", "props": {"label": label, "apples": self.apples}}

        @app.node("till")
        def till() -> dict[str, Any]:
            return {"type": "view", "props": {"coins": self.till}}

        @app.action("shelf", "add")
        def add(count: int) -> dict[str, Any]:
            self.apples += count
            return {"apples": self.apples, "label": label}

        @app.action("shelf", "clear", dangerous=True)
        def clear() -> str:
            self.apples = 0
            return "cleared"

    def earn(self) -> None:
        self.till += 1
        self.app.refresh()


class User:
    """Answers what is asked, and keeps the questions."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def answer(self, _: Any, params: Any) -> types.ElicitResult:
        self.questions.append(params.message)
        if self.meanwhile is not None:
            await self.meanwhile()
        answer: Any = self.answers.pop(0)
        content: Any = {"yes": {"confirm": True}, "no": {"confirm": False}, "accept": {}}
        action: Any = "accept" if answer in content else answer
        return types.ElicitResult(action=action, content=content.get(answer))


def answers(user: User | None) -> Any:
    return None if user is None else user.answer


@asynccontextmanager
async def serving(*shops: Shop, **options: Any) -> AsyncIterator[AppsServer]:
    async with Hub() as hub:
        for shop in shops:
            hub.add(shop.id, local_dial(shop.app))
        await hub.ready()
        async with AppsServer(hub, **options) as server:
            yield server


@asynccontextmanager
async def client_of(
    *shops: Shop, era: str = "legacy", user: User | None = None, **options: Any
) -> AsyncIterator[Client]:
    async with (
        serving(*shops, **options) as server,
        Client(server.protocol, mode=era, elicitation_callback=answers(user)) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; give what is structured, which says no more than the text does."""
    result = await client.call_tool(tool, arguments)
    [text] = result.content
    assert isinstance(text, types.TextContent)
    data: dict[str, Any] = result.structured_content
    assert data.pop("note") == LABEL
    assert result.is_error == ("error" in data)
    for change in data.get("changes", ()):
        lines = change.get("text", "").splitlines()
        assert all(line.strip() in text.text for line in lines)
    return data | {"text": text.text}


async def act(client: Client, action: str, **more: Any) -> dict[str, Any]:
    return await call(client, "act", **OPTIONS, action=action, **more)


def text_in(holder: Any) -> str:
    """The text of a result's first content, of a message or of a resource."""
    content = getattr(holder, "content", holder)
    text: str = (content[0] if isinstance(content, list) else content).text
    return text


async def eventually(state: Callable[[], bool]) -> None:
    with anyio.fail_after(WITHIN_S):
        while not state():
            await anyio.sleep(0.001)


@pytest.mark.parametrize("era", ERAS)
async def test_a_model_looks_acts_and_is_told_what_changed_since(era: str) -> None:
    shop = Shop()
    async with client_of(shop, era=era) as client:
        [listed] = (await call(client, "apps"))["apps"]
        assert listed == {"app": "shop", "name": "Shop", "status": "connected", "version": 1}

        looked = await call(client, "look")
        assert "apples=0" in looked["state"]
        assert looked["state"] in looked["text"]
        assert looked["changes"] == []

        added = await act(client, "add", params={"count": 2})
        assert (added["status"], added["data"]["apples"], added["version"]) == ("done", 2, 2)
        [change] = added["changes"]
        assert (change["path"], change["change"]) == ("/shelf", "changed")
        assert "apples=2" in change["text"]

        shop.earn()
        waited = await call(client, "wait", app="shop", path="/till")
        assert (waited["changed"], [one["path"] for one in waited["changes"]]) == (True, ["/till"])
        again = await call(client, "wait", app="shop", path="/shelf", seconds=0)
        assert (again["changed"], again["changes"]) == (False, [])

        part = await call(client, "look", **OPTIONS)
        assert '"action":"add"' in part["state"]
        found = await call(client, "look", query="COINS till")
        assert found["state"] == "shop /till: [view] till (coins=1)"

        many = [{"path": "/shelf", "action": "add", "params": {"count": 1}}] * 2
        both = await call(client, "act_many", app="shop", actions=many)
        assert (both["status"], [one["data"]["apples"] for one in both["results"]]) == (
            "done",
            [3, 4],
        )


@pytest.mark.parametrize("era", ERAS)
async def test_what_an_app_calls_dangerous_is_asked_of_the_user(era: str) -> None:
    shop, user = Shop(), User("decline", "no", "accept", "cancel", "yes", "yes")
    async with (
        serving(shop) as server,
        Client(server.protocol, mode=era, elicitation_callback=answers(user)) as client,
    ):
        await act(client, "add", params={"count": 2})
        for _ in range(3):  # accepted without the tick, it is no yes either
            assert "did not approve" in (await act(client, "clear"))["error"]
        assert "did not answer" in (await act(client, "clear"))["error"]
        assert shop.apples == 2
        assert (await act(client, "clear"))["data"] == "cleared"
        assert "shop: clear on /shelf (The shelf)" in user.questions[0]

        async def changed() -> None:
            shop.apples = 7
            shop.app.refresh()
            await eventually(lambda: _shown(server, "/shelf", "apples") == 7)

        # What the user agreed to is no longer what is there.
        user.meanwhile = changed
        lapsed = (await act(client, "clear"))["error"]
        assert "has changed since" in lapsed
        assert shop.apples == 7
        assert len(user.questions) == 6


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_ask_is_told_how_the_user_can_allow_it(era: str) -> None:
    shop = Shop()
    async with client_of(shop, era=era) as client:
        refused = (await act(client, "clear"))["error"]
    assert (
        '[[policy]]\napp = "shop"\npath = "/shelf"\naction = "clear"\ndecision = "approve"'
        in refused
    )
    rule = PolicyRule(app="shop", path="/shelf", action="clear", decision="approve")
    async with client_of(shop, era=era, rules=[rule]) as client:
        assert (await act(client, "clear"))["status"] == "done"
    never = PolicyRule(action="add", decision="deny")
    async with client_of(shop, era=era, rules=[never]) as client:
        assert "not allowed" in (await act(client, "add", params={"count": 1}))["error"]


async def test_an_answer_is_taken_once_and_for_what_was_asked_only() -> None:
    shop = Shop()
    async with client_of(shop, era=ERAS[0], user=User()) as client:
        arguments = {**OPTIONS, "action": "clear"}

        async def answered(state: str | None, **other: Any) -> Any:
            yes: Any = {"action-1": types.ElicitResult(action="accept", content={"confirm": True})}
            return await client.session.call_tool(
                "act", {**arguments, **other}, input_responses=yes, request_state=state,
                allow_input_required=True,
            )  # fmt: skip

        asked = await client.session.call_tool("act", arguments, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        assert "used or is too old" in text_in(await answered(None))
        for forged in ("v1.AAAA", str(asked.request_state)[:-2] + "xx"):
            with pytest.raises(MCPError, match="Invalid or expired"):
                await answered(forged)
        with pytest.raises(MCPError, match="Invalid or expired"):
            await answered(asked.request_state, params={})
        assert (await answered(asked.request_state)).structured_content["status"] == "done"
        assert "used or is too old" in text_in(await answered(asked.request_state))


async def test_an_action_on_a_version_that_is_past_is_refused_with_the_difference() -> None:
    shop = Shop()
    async with client_of(shop) as client:
        [listed] = (await call(client, "look"))["apps"]
        seen = listed["version"]
        shop.earn()
        assert (await act(client, "add", params={"count": 1}, seen_version=seen))[
            "status"
        ] == "done"
        refused = await act(client, "add", params={"count": 1}, seen_version=seen)
        assert 'its "apples": 0 → 1' in refused["error"]
        assert {one["path"] for one in refused["changes"]} == {"/shelf", "/till"}
        assert shop.apples == 1
        unknown = (await act(client, "add", params={"count": 1}, seen_version=99))["error"]
        assert "version 99 of 'shop' is not known here" in unknown


async def test_every_error_says_what_is_wrong() -> None:
    one = {"path": "/shelf", "action": "add", "params": {"count": 1}}
    wrong: dict[str, tuple[str, dict[str, Any]]] = {
        "there is no tool 'lok'. Did you mean \"look\"?": ("lok", {}),
        "look has no argument 'app_id'. Did you mean \"app\"?": ("look", {"app_id": "shop"}),
        'There is no app "shp". Did you mean "shop"?': ("look", {"app": "shp"}),
        "a path or a depth needs an app": ("look", {"path": "/shelf"}),
        'There is no "shelve" in "/" of "shop". Did you mean "shelf"?':
            ("look", {"app": "shop", "path": "/shelve"}),
        '"/shelf" has no action "ad" now. Did you mean "add"?':
            ("act", {**OPTIONS, "action": "ad"}),
        "count": ("act", {**OPTIONS, "action": "add", "params": {}}),
        "act: ": ("act", {"app": "shop"}),
        "1 more of the 3 actions: not done": (
            "act_many", {"app": "shop", "actions": [one, {**one, "params": {"count": ""}}, one]}
        ),
        "seconds": ("wait", {"app": "shop", "seconds": 10_000}),
    }  # fmt: skip
    async with client_of(Shop()) as client:
        for words, (tool, arguments) in wrong.items():
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert words in text_in(result), words
            assert result.structured_content["error"] in text_in(result)
        with pytest.raises(MCPError, match="There is no app"):
            await client.read_resource("slop://nobody")
        with pytest.raises(MCPError, match="no resource of this server"):
            await client.read_resource("file:///etc/passwd")
        with pytest.raises(MCPError, match='Did you mean "state-shop"'):
            await client.get_prompt("state-sho")


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_never_change_and_other_lists_say_so(era: str) -> None:
    shop, notices = Shop(), []

    async def heard(message: Any) -> None:
        notices.append(getattr(message, "method", ""))

    async with serving(shop, tick_s=0) as server:
        hub = server.hub
        async with Client(server.protocol, mode=era, message_handler=heard) as client:
            await client.list_resources()

            async def events() -> None:
                for number in range(100):
                    shop.earn()
                    await hub.client("shop")
                    hub.add(f"app-{number}", local_dial(Shop(f"app-{number}").app))
                    if number % 10 == 0:
                        await client.list_tools(cache_mode="bypass")
                await hub.ready()

            def tools() -> str:
                return json.dumps([tool.model_dump() for tool in listed.tools])

            listed = await client.list_tools()
            first = tools()
            if era == "legacy":
                await events()
            else:
                async with client.listen(
                    tools_list_changed=True, resources_list_changed=True
                ) as news:
                    await events()
                    notices.append(type(await anext(aiter(news))).__name__)
            await eventually(lambda: any("esource" in notice for notice in notices))
            listed = await client.list_tools(cache_mode="bypass")
            assert tools() == first
            assert len((await client.list_resources(cache_mode="bypass")).resources) == 101
            assert len((await client.list_prompts()).prompts) == 102
    assert not [notice for notice in notices if "ool" in notice]


@subscribes
@pytest.mark.parametrize("era", ERAS)
async def test_a_thousand_changes_are_one_update_until_it_may_be_told_again(era: str) -> None:
    shop, told = Shop(), list[str]()

    async def heard(message: Any) -> None:
        told.extend(filter(None, [getattr(message.params, "uri", None)]))

    async with serving(shop, tick_s=3600) as server:  # noqa: SIM117 - fewer levels are less clear
        async with Client(server.protocol, mode=era, message_handler=heard) as client:

            async def changes() -> None:
                for _ in range(1_000):
                    shop.earn()
                    await anyio.lowlevel.checkpoint()
                await eventually(lambda: _shown(server, "/till", "coins") == 1_000)

            if era == "legacy":
                await client.subscribe_resource("slop://shop/till")
                await client.subscribe_resource("slop://shop/shelf")
                await changes()
            else:
                uris = ["slop://shop/till", "slop://shop/shelf"]
                listening: Any = client.listen(resource_subscriptions=uris)
                async with listening as news:
                    await changes()
                    await anext(aiter(news))
    assert told == ["slop://shop/till"]


def _shown(server: AppsServer, path: str, name: str) -> Any:
    tree = server.hub.world.apps[0].tree
    return None if tree is None else tree.at(path).properties[name]


@subscribes
@pytest.mark.parametrize("era", ERAS)
async def test_whoever_watches_a_resource_hears_of_the_latest_state(era: str) -> None:
    shop, told = Shop(), []

    async def heard(message: Any) -> None:
        told.append(getattr(message, "method", ""))

    async with serving(shop, tick_s=0) as server:  # noqa: SIM117 - fewer levels are less clear
        async with Client(server.protocol, mode=era, message_handler=heard) as client:

            async def read() -> str:
                found = await client.read_resource("slop://shop/till", cache_mode="bypass")
                assert isinstance(found.contents[0], types.TextResourceContents)
                return found.contents[0].text

            assert "coins=0" in await read()
            if era == "legacy":
                await client.subscribe_resource("slop://shop/till")
                shop.earn()
                await eventually(lambda: "notifications/resources/updated" in told)
            else:
                async with client.listen(resource_subscriptions=["slop://shop/till"]) as news:
                    shop.earn()
                    event: Any = await anext(aiter(news))
                    assert event.uri == "slop://shop/till"
            assert "coins=1" in await read()
            assert LABEL in await read()

            prompt = await client.get_prompt("state-shop")
            assert "coins=1" in text_in(prompt.messages[0])
            node = types.ResourceTemplateReference(uri="slop://{app}/{+path}")
            done = await client.complete(node, {"name": "app", "value": "s"})
            assert done.completion.values == ["shop"]
            done = await client.complete(
                node, {"name": "path", "value": "s"}, context_arguments={"app": "shop"}
            )
            assert done.completion.values == ["shelf"]


async def test_nothing_that_an_app_says_passes_for_ours() -> None:
    for _, forged in corpus()[::24]:
        shop, user = Shop(label=forged), User("yes")
        async with client_of(shop, user=user) as client:
            answers = [
                await client.call_tool("look", {}),
                await client.call_tool("look", {"query": "shelf"}),
                await client.call_tool("look", dict(OPTIONS)),
                await client.call_tool("act", {**OPTIONS, "action": "add", "params": {"count": 1}}),
                await client.call_tool("act", {**OPTIONS, "action": "clear"}),
            ]
            resource = (await client.read_resource("slop://shop")).contents[0]
            for text in _texts(answers, user.questions, resource):
                found = [text[at : at + 25] for at in tag_like(text)]
                ends = found[1::2]
                assert all(one.startswith("<slop-state generated_at=") for one in found[::2])
                assert all(one.startswith("</slop-state>") for one in ends)
                assert len(found) == 2 * len(ends) <= 4


def _texts(answers: list[types.CallToolResult], *more: Any) -> Iterator[str]:
    def strings(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from (*strings(key), *strings(item))
        elif isinstance(value, list):
            for item in value:
                yield from strings(item)

    for answer in answers:
        yield text_in(answer)
        yield from strings(answer.structured_content)
    yield from strings([item if isinstance(item, list) else item.text for item in more])


async def test_the_names_of_deployed_plugins_are_there_for_who_wants_them() -> None:
    async with client_of(Shop(), deployed_names=True) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:5] == [tool.name for tool in TOOLS]
        assert names[5:] == [
            "list_apps", "connect_app", "disconnect_app", "app_action", "app_action_batch",
        ]  # fmt: skip
        assert len((await call(client, "list_apps"))["apps"]) == 1
        assert "apples=0" in (await call(client, "connect_app", app="shop"))["state"]
        add = {"path": "/shelf", "action": "add", "params": {"count": 1}}
        assert (await call(client, "app_action", app="shop", **add))["data"]["apples"] == 1
        batch = await call(client, "app_action_batch", app="shop", actions=[add])
        assert batch["data"]["apples"] == 2
        assert (await call(client, "disconnect_app", app="shop"))["apps"] == []


@contextmanager
def program(directory: Path, *options: str) -> Iterator[tuple[str, str]]:
    """Run `sightline mcp --http`; gives its address and token."""
    environment = {**os.environ, "SLOP_PROVIDERS": str(directory)}
    command = [sys.executable, "-m", "sightline", "mcp", "--http", *options]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
        _, address, *_, token = line.split(";")[0].split()
        try:
            yield address, token
        finally:
            running.terminate()
            running.wait()


async def test_the_program_serves_both_eras_on_its_streams_and_on_a_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path))
    async with shop.app.serving(unix=tmp_path / "shop.sock"):
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "sightline", "mcp"], env=dict(os.environ)
        )
        for era in ERAS:
            user = User("yes")
            async with Client(command, mode=era, elicitation_callback=answers(user)) as client:
                assert (await act(client, "clear"))["data"] == "cleared"
                assert "apples=0" in (await call(client, "look"))["state"]
        with program(tmp_path) as (address, token):
            await anyio.to_thread.run_sync(_refused, address, token)
            for era in ERAS:
                user = User("yes")
                async with (
                    httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
                    Client(
                        streamable_http_client(address, http_client=http), mode=era,
                        elicitation_callback=answers(user),
                    ) as client,
                ):  # fmt: skip
                    assert (await act(client, "clear"))["data"] == "cleared"
                    added = await act(client, "add", params={"count": 1})
                    assert [one["path"] for one in added["changes"]] == ["/shelf"]


def test_nothing_is_said_of_what_strangers_send_to_the_port(tmp_path: Path) -> None:
    environment = {**os.environ, "SLOP_PROVIDERS": str(tmp_path)}
    command = [sys.executable, "-m", "sightline", "mcp", "--http"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        address = urlsplit(running.stderr.readline().split()[1])
        head = f"POST {address.path} HTTP/1.1\r\nHost: {address.netloc}\r\n"
        for sent in ("\0", f"{head}Transfer-Encoding: chunked\r\n\r\nno length\r\n"):
            with socket.create_connection(("127.0.0.1", address.port or 0), timeout=60) as line:
                line.sendall(sent.encode())
                while line.recv(4096):
                    pass
        running.terminate()
        assert running.communicate()[1] == ""


def _refused(address: str, token: str) -> None:
    ours = {"Authorization": f"Bearer {token}"}
    refused = {401: [{}, {"Authorization": "Bearer no"}]}
    refused[403] = [{**ours, "Host": "evil.example"}, {**ours, "Origin": "http://127.0.0.1:1"}]
    for status, headers in refused.items():
        for one in headers:
            assert httpx2.post(address, headers=one, json={}).status_code == status
