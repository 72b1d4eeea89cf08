"""Servers written with the official SDK, in both eras, over HTTP; and signing in."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, cast

import pytest

pytest.importorskip("mcp")

import httpx2
import keyring
import uvicorn
from keyring.backend import KeyringBackend
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.client import Client as McpClient
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp_types import ToolAnnotations
from pydantic import AnyHttpUrl, BaseModel

import sightline.adapters.mcp.client as client_module
from adapters.test_mcp_client import as_server
from sightline import App, Hub
from sightline.adapters.mcp.client import McpApp
from sightline.adapters.mcp.client_auth import TokenShelf, sign_in
from sightline.adapters.mcp.client_questions import Answered, PendingQuestions
from sightline.errors import InvalidInput
from sightline.slop.app.local import local_dial
from sightline.slop.hub.mcp import McpTarget, UserAnswer, UserQuestion
from sightline.slop.protocol.tree import Node

ERAS = ["2025-11-25", "2026-07-28"]


class Size(BaseModel):
    """What is asked of the user."""

    litres: int


def ask_size() -> Elicit[Size]:
    return Elicit("How large?", Size)


def shop() -> MCPServer:
    """A server with everything that is shown."""
    server = MCPServer("Shop", instructions="Sells paint.", version="3")
    level = {"paint": 7}

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def stock() -> dict[str, int]:
        """Count what is there"""
        return dict(level)

    @server.tool(annotations=ToolAnnotations(destructive_hint=False))
    async def mix(colour: str, ctx: Context) -> str:
        """Mix a colour"""
        await ctx.report_progress(1, 4, "stirring")
        while level["paint"]:
            await asyncio.sleep(0.01)
        return f"a pot of {colour}"

    @server.tool()
    async def pour(ctx: Context) -> None:
        """Pour it all away"""
        level["paint"] = 0
        server.add_tool(lambda: "washed", name="wash", description="Wash up")
        if ctx.request_context.protocol_version == ERAS[1]:
            await ctx.notify_tools_changed()
            await ctx.notify_resource_updated("shop://level")
        else:
            await ctx.session.send_tool_list_changed()
            await ctx.session.send_resource_updated("shop://level")

    @server.tool()
    async def pot(size: Annotated[ElicitationResult[Size], Resolve(ask_size)]) -> str:
        """Buy a pot"""
        return f"{size.data.litres} l" if isinstance(size, AcceptedElicitation) else size.action

    @server.resource("shop://level")
    def shown_level() -> str:
        return f"{level['paint']} l"

    return server


@asynccontextmanager
async def listening(server: MCPServer, door: socket.socket | None = None) -> AsyncIterator[str]:
    """The URL of a server over HTTP."""
    with door or socket.create_server(("127.0.0.1", 0)) as door:
        config = uvicorn.Config(server.streamable_http_app(), log_level="error", lifespan="on")
        running = uvicorn.Server(config)
        task = asyncio.create_task(running.serve(sockets=[door]))
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}/mcp"
        finally:
            running.should_exit = True
            await task


@asynccontextmanager
async def seen(url: str, **options: Any) -> AsyncIterator[Hub]:
    """A hub with a server that is reached by its URL."""
    server = McpApp(McpTarget("shop", url=url), **options)
    life = asyncio.create_task(server.run())
    try:
        async with asyncio.timeout(60), Hub() as hub:
            waits = {life, asyncio.create_task(server.shown.wait())}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            hub.add("mcp-shop", as_server(local_dial(server.app)))
            await hub.ready()
            yield hub
    finally:
        life.cancel()
        await asyncio.gather(life, *waits, return_exceptions=True)
        await server.app.close()


async def until(hub: Hub, path: str, **props: Any) -> Node:
    """Wait until a node is there and says so."""
    async for world in hub.changes():
        app = world.app("mcp-shop")
        nodes = {} if app is None or app.tree is None else dict(_walk(app.tree, ""))
        if path in nodes and props.items() <= nodes[path].properties.items():
            return nodes[path]
    raise AssertionError(path)


def _walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    yield path or "/", node
    for child in node.children:
        yield from _walk(child, f"{path}/{child.id}")


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_of_either_era_shows_changes_asks_and_takes_its_time(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if era == ERAS[0]:
        monkeypatch.setattr(client_module, "McpClient", partial(McpClient, mode="legacy"))
    questions: list[UserQuestion] = []

    async def ask(question: UserQuestion) -> UserAnswer:
        questions.append(question)
        return UserAnswer("accept", {"litres": 5})

    async with listening(shop()) as url, seen(url, long_s=0.2) as hub:
        hub.ask = ask
        root = await until(hub, "/", server="Shop 3", protocol=era)
        assert root.meta.summary == "Sells paint."
        danger = {node.id: node.affordances[0].dangerous for node in root.at("/tools").children}
        # A server's word that it only reads, or destroys nothing, is a hint; without one it may.
        assert danger == {"stock": None, "mix": None, "pour": True, "pot": True}
        found = await hub.invoke("mcp-shop", "/tools/stock", "call")
        if found.status == "accepted":  # a busy machine
            await until(hub, f"/calls/{found.data['taskId']}", status="done")
        else:
            assert found.data["structured"] == {"paint": 7}

        pot = await hub.invoke("mcp-shop", "/tools/pot", "call")
        if pot.status == "accepted":
            await until(hub, f"/calls/{pot.data['taskId']}", status="done", result="5 l")
        else:
            assert pot.data["text"] == "5 l"
        assert [question.message for question in questions] == ["How large?"]
        assert questions[0].form is not None
        assert questions[0].form["properties"].keys() == {"litres"}

        level = "/resources/shop:%2F%2Flevel"
        if era == ERAS[1]:  # of the older one the SDK offers no subscriptions
            await hub.invoke("mcp-shop", level, "watch")
            await until(hub, level, text="7 l")
        mixed = await hub.invoke("mcp-shop", "/tools/mix", "call", {"colour": "green"})
        assert mixed.status == "accepted"
        task = await until(hub, f"/tasks/{mixed.data['taskId']}", progress=0.25)
        assert task.properties["message"] == "stirring"

        await hub.invoke("mcp-shop", "/tools/pour", "call")
        await until(hub, "/tools/wash")
        if era == ERAS[1]:
            await until(hub, level, text="0 l")
        await until(hub, f"/calls/{mixed.data['taskId']}", result="a pot of green")


class Bank:
    """An authorization server that lets everybody in whom it has sent away."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = AuthorizationCode(
            code=secrets.token_hex(16), scopes=params.scopes or [], expires_at=time.time() + 60,
            client_id=client.client_id or "", code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )  # fmt: skip
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        token = AccessToken(
            token=secrets.token_hex(16), client_id=client.client_id or "", scopes=[],
            resource=authorization_code.resource,
        )  # fmt: skip
        self.tokens[token.token] = token
        return OAuthToken(access_token=token.token, expires_in=3600)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return None


class Drawer(KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


async def test_a_user_signs_in_once_and_the_keyring_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawer = Drawer()
    monkeypatch.setattr(keyring.core, "_keyring_backend", drawer)
    questions: list[UserQuestion] = []

    async def ask(question: UserQuestion) -> UserAnswer:
        questions.append(question)
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            page = await browser.get(question.url)
        assert "signed in" in page.text
        return UserAnswer("accept")

    bank, door = Bank(), socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{door.getsockname()[1]}"
    server = MCPServer(
        "Vault", auth_server_provider=cast(Any, bank),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(base), resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=True,
        ),
    )  # fmt: skip
    server.add_tool(lambda: "gold", name="look")
    async with listening(server, door) as url:
        async with seen(url) as hub:
            hub.ask = ask
            await until(hub, "/tools/look")
        assert len(questions) == 1
        assert "keyring" not in questions[0].message
        assert drawer.kept
        assert not any(token in str(questions) for token in bank.tokens)
        async with seen(url) as hub:
            await until(hub, "/tools/look")
        assert len(questions) == 1


@pytest.mark.parametrize("repeated", ["code", "state", "iss"])
async def test_sign_in_ignores_a_callback_when_a_parameter_is_repeated(repeated: str) -> None:
    questions = PendingQuestions(App("vault"))
    shelf = TokenShelf("https://vault.example/mcp")
    flow = sign_in("https://vault.example/mcp", questions, lambda: None, shelf).context
    assert flow.redirect_handler is not None
    assert flow.callback_handler is not None
    await flow.redirect_handler("https://login.example/")
    address = (flow.client_metadata.redirect_uris or [])[0]
    given = {"code": "mine", "state": "s", "iss": "https://login.example"}
    waiting = asyncio.ensure_future(flow.callback_handler())
    async with httpx2.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(str(address), params=[*given.items(), (repeated, "theirs")])
        assert not waiting.done()
        assert (await client.get(str(address), params=given)).status_code == 200
    assert (await waiting).code == "mine"


async def test_without_a_keyring_the_user_is_told_so_and_may_decline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    questions, messages = PendingQuestions(App("vault")), []

    async def ask(message: str, **_: Any) -> Answered:
        messages.append(message)
        return "decline", {}

    monkeypatch.setattr(questions, "ask", ask)
    shelf = TokenShelf("https://vault.example/mcp")
    flow = sign_in("https://vault.example/mcp", questions, lambda: None, shelf).context
    assert await shelf.get_tokens() is None
    await shelf.set_tokens(OAuthToken(access_token="in memory"))
    assert (await shelf.get_tokens() or OAuthToken(access_token="")).access_token == "in memory"
    assert flow.redirect_handler is not None
    assert flow.callback_handler is not None
    with pytest.raises(InvalidInput):
        await flow.redirect_handler("http://elsewhere.example/")
    await flow.redirect_handler("https://login.example/")
    with pytest.raises(OAuthFlowError, match="did not sign in"):
        await flow.callback_handler()
    assert "there is no keyring" in messages[0]
