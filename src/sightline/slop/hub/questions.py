"""What an MCP server asks its user: brought to whoever can ask one, and never to a model.

The program before a server tells of a question by an event, which is no state and so is shown to
nobody, with a key that its answer needs. A server asks through us while it does what was asked of
it; where nobody can be asked it is told so at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

import sightline.telemetry as telemetry
from sightline.errors import SightlineError
from sightline.slop.hub.client import Client, Lost, Silent
from sightline.slop.hub.mcp import TRANSPORT
from sightline.slop.protocol.consumer import ConsumerEvent, EventArrived

QUESTION: Final = "question"
QUESTIONS: Final = "questions"
ANSWER: Final = "answer"
_log: Final = telemetry.logger(__name__)


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
