"""MCP servers as apps: what names one, and how it is reached.

    mcp:uvx mcp-server-time          a command to start, which speaks MCP on its standard streams
    mcp+https://mcp.example/mcp      a server somewhere else; mcp+http:// on this machine

Each runs behind a program of its own, which speaks MCP to the server and SLOP to us. So a server
that crashes, hangs, floods or lies can do to us what any app can, and what the library for MCP
does with what it sends is done there; and that library is not loaded here.

What a server asks its user is brought to whoever can ask one, and never to a model: that program
tells of a question by an event, which is no state and so is shown to nobody, with a key that its
answer needs. A server asks through us while it does what was asked of it; where nobody can be
asked it is told so at once.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

import sightline.telemetry as telemetry
from sightline._lazy import lazy_pattern
from sightline.errors import InvalidInput, MissingExtra, SightlineError
from sightline.slop.discovery.wellknown import web_address
from sightline.slop.hub.client import Client, Dial, Lost, Silent
from sightline.slop.protocol.consumer import ConsumerEvent, EventArrived
from sightline.slop.protocol.ids import suggested_app_id
from sightline.slop.transports.link import Link, Peer
from sightline.slop.transports.stdio import spawn_stdio, words_of

TRANSPORT: Final = "mcp"
# The program between a server and us, and the variable in which it is told what to reach: what
# is in it may be secret, and a command line can be read by every user of the machine.
PROGRAM: Final = "sightline.adapters.mcp.client"
TARGET_VARIABLE: Final = "SIGHTLINE_MCP_TARGET"
# A server may have to be downloaded before it says its first word.
START_S: Final = 60.0
# The event of a question, the node that takes answers, and its action.
QUESTION: Final = "question"
QUESTIONS: Final = "questions"
ANSWER: Final = "answer"
_log: Final = telemetry.logger(__name__)
_SCHEMES: Final = ("mcp:", "mcp+https:", "mcp+http:")
# What starts a server and is not it: runners, interpreters, and their first words.
_RUNNERS: Final = lazy_pattern(
    r"(?:env|uvx?|npx|pnpm|bunx?|yarn|dlx|exec|run|tool|pipx|deno|node|docker|podman|start"
    r"|python[0-9.]*|.*=.*)"
)
_DECORATION: Final = lazy_pattern(
    r"^(?:server|mcp)[-_](?:server[-_])?|[-_](?:mcp(?:[-_]server)?|server)$"
)
_EXTENSION: Final = lazy_pattern(r"\.(?:py|m?js|ts|exe|sh)$")


class McpTarget(msgspec.Struct, frozen=True):
    """An MCP server: a command with its variables and directory, or a URL with its headers."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    directory: str = ""
    url: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def of_address(cls, address: str, token: str | None = None) -> McpTarget:
        """Read an address. Raises InvalidInput for one that is none, or not safe."""
        scheme, _, rest = address.partition(":")
        if scheme == TRANSPORT:
            words = tuple(words_of(rest))
            if not words:
                raise InvalidInput("mcp: there is no command to run")
            return cls(_name_of_command(words), words)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        url = checked_url(f"{scheme.removeprefix('mcp+')}:{rest}")
        return cls(_name_of_host(url), url=url, headers=headers)

    @property
    def app_id(self) -> str:
        """The id that the server has as an app; its own word for itself is only shown."""
        return suggested_app_id(f"mcp-{self.name}")

    @property
    def address(self) -> str:
        """What is reached, for a person; without variables and headers, which may be secret."""
        return self.url or shlex.join(self.command)


def is_mcp(address: str) -> bool:
    """Tell whether an address is that of an MCP server."""
    return address.startswith(_SCHEMES)


def checked_url(url: str) -> str:
    """Return a server's URL. Raises InvalidInput unless it is https, or on this machine."""
    web_address(url, "the URL of an MCP server")
    return url


def dial_mcp(target: McpTarget) -> Dial:
    """Return how to start and reach a server. Raises MissingExtra without the library for MCP."""
    if importlib.util.find_spec("mcp") is None:
        from sightline._distribution import install

        raise MissingExtra(f"MCP servers need a package: {install('mcp')}")
    program = [sys.executable, "-P", "-m", PROGRAM]
    peer = Peer(TRANSPORT, target.address, start_s=START_S)

    async def dial() -> Link:
        env = {**os.environ, TARGET_VARIABLE: msgspec.json.encode(target).decode()}
        return await spawn_stdio(program, env=env, peer=peer)

    return dial


def _name_of_command(words: tuple[str, ...]) -> str:
    """Find what a command is called: `npx -y @example/server-files@1.2 /tmp` is `files`."""
    named = [word for word in words if not word.startswith("-")]
    bare = [word.rstrip("/").rpartition("/")[2] for word in named]
    found = next((word for word in bare if word and not _RUNNERS.fullmatch(word)), words[0])
    plain = _EXTENSION.sub("", found.partition("@")[0].partition("==")[0])
    return _DECORATION.sub("", plain) or plain


def _name_of_host(url: str) -> str:
    labels = (urlsplit(url).hostname or "").split(".")
    kept = [label for label in labels[:-1] if label not in {"mcp", "www", "api"}]
    return "-".join(kept) if kept and not labels[-1].isdigit() else "-".join(labels)


class UserQuestion(msgspec.Struct, frozen=True):
    """What a server wants to know of its user, or the URL that it wants opened.

    `form` is the JSON Schema of the answer, a flat object. All of it is the server's own text,
    but for the `origin` of one that is no app of the hub's.
    """

    app: str
    message: str
    form: dict[str, Any] | None = None
    url: str = ""
    origin: str = ""


class UserAnswer(msgspec.Struct, frozen=True):
    """What the user answered: a yes with the content that was asked for, a no, or nothing."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] = msgspec.field(default_factory=dict)


AskUser: TypeAlias = Callable[[UserQuestion], Awaitable[UserAnswer]]


class _ToldQuestion(msgspec.Struct, frozen=True):
    key: str
    message: str
    form: dict[str, Any] | None = None
    url: str = ""


class QuestionRelay:
    """Takes one client's questions to its user, one at a time, and the answers back.

    `ask` is looked up for each question: who asks may come later than the app.
    """

    def __init__(self, client: Client, ask: Callable[[], AskUser | None]) -> None:
        self._client = client
        self._ask = ask
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        client.listen(self._take)

    def close(self) -> None:
        """Ask nothing any more."""
        for task in self._waiting.values():
            task.cancel()

    def _take(self, event: ConsumerEvent | Lost | Silent) -> None:
        if isinstance(event, Lost):
            self.close()
        peer = self._client.peer
        if not isinstance(event, EventArrived) or event.name != QUESTION:
            return
        if peer is None or peer.transport != TRANSPORT:
            return
        try:
            asks = msgspec.convert(event.data, _ToldQuestion)
        except msgspec.ValidationError as error:
            _log.warning("a question that cannot be read: %s", error)
            return
        if asks.key not in self._waiting:  # it is told again until it is answered
            task = asyncio.create_task(self._answer(asks))
            self._waiting[asks.key] = task
            task.add_done_callback(lambda _: self._waiting.pop(asks.key, None))

    async def _answer(self, asks: _ToldQuestion) -> None:
        provider = self._client.provider
        question = UserQuestion(
            "" if provider is None else provider.id, asks.message, asks.form, asks.url
        )
        ask = self._ask()
        answer = UserAnswer("cancel")
        if ask is not None:
            async with self._turn:
                answer = await ask(question)
        params = {"key": asks.key, "action": answer.action, "content": answer.content}
        try:
            await self._client.invoke(f"/{QUESTIONS}", ANSWER, params)
        except SightlineError as error:  # it no longer waits
            _log.info("an answer came too late: %s", error)
