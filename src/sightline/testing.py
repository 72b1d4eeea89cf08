"""For the tests of apps and agents: a consumer in the same process, a scripted model, a clock.

    async with connect(app) as client:
        assert client.tree.at("/list").properties == {"count": 0}
        result = await client.invoke("/list", "add", title="Buy milk")
        assert client.tree.at("/list").properties == {"count": 1}

Everything goes through the real protocol on a link in memory; nothing sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from sightline.agent.models.scripted import Cut, Reply, ScriptedModel, Stall
from sightline.errors import ActionError
from sightline.slop.app.app import App
from sightline.slop.protocol.consumer import (
    Consumer,
    ConsumerEvent,
    EventArrived,
    InvokeAnswered,
    QueryAnswered,
    Refused,
    RequestFailed,
)
from sightline.slop.protocol.messages import Filter, Result
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.link import Link, LinkClosed, Peer
from sightline.slop.transports.memory import MemoryLink, memory_pair

__all__ = [
    "Client",
    "Cut",
    "FixedClock",
    "MemoryLink",
    "Reply",
    "ScriptedModel",
    "Stall",
    "connect",
    "memory_pair",
]

_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


class FixedClock:
    """A clock that moves when it is told to."""

    def __init__(self, now: datetime = _EPOCH) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """The time that it shows."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.now += timedelta(seconds=seconds)


class Client:
    """A consumer on a link, with one subscription of the whole tree."""

    def __init__(self, link: Link, consumer: Consumer | None = None) -> None:
        self.consumer = consumer or Consumer()
        self.events: list[EventArrived] = []
        self.refusal: Refused | None = None
        self.root = self.consumer.subscribe("/")
        self._link = link
        self._answers: dict[str, ConsumerEvent] = {}
        self._changed = asyncio.Condition()
        self._closed = False
        self._reader = asyncio.create_task(self._read())

    @property
    def tree(self) -> Node:
        """The mirror of the whole tree."""
        tree = self.consumer.mirrors[self.root].tree
        assert tree is not None, "there is no snapshot yet: wait for `ready`"  # noqa: S101 - for tests
        return tree

    async def ready(self) -> None:
        """Wait for the first snapshot, or the end of the link."""
        await self.until(lambda: self._closed or self.consumer.mirrors[self.root].tree is not None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds that depends on what the app sends."""
        async with self._changed:
            await self._changed.wait_for(condition)

    async def invoke(self, path: str, action: str, /, **params: Any) -> Any:
        """Do an action and return its data. Raises ActionError if it was not done."""
        result = await self.result(path, action, params)
        if not isinstance(result.error, UnsetType):
            raise ActionError(result.error.code, result.error.message)
        return None if isinstance(result.data, UnsetType) else msgspec.json.decode(result.data)

    async def result(self, path: str, action: str, params: dict[str, Any] | None = None) -> Result:
        """Ask for an action and return the whole answer."""
        answer = await self._answer_to(self.consumer.invoke(path, action, params or None))
        if not isinstance(answer, InvokeAnswered):
            raise ActionError("internal", f"not answered: {answer}")
        return answer.result

    async def query(
        self,
        path: str = "/",
        *,
        depth: int = -1,
        max_nodes: int | None = None,
        filter: Filter | None = None,  # noqa: A002 - the protocol's own name for it
        window: tuple[int, int] | None = None,
    ) -> Node:
        """Ask for a part of the tree. Raises ActionError if it was refused."""
        request = self.consumer.query(
            path, depth=depth, max_nodes=max_nodes, filter=filter, window=window
        )
        answer = await self._answer_to(request)
        if isinstance(answer, Refused):
            raise ActionError(answer.code, answer.message)
        if not isinstance(answer, QueryAnswered):
            raise ActionError("internal", f"not answered: {answer}")
        return answer.tree

    async def close(self) -> None:
        """End the link to the app."""
        await self._link.close()
        await self._reader

    async def _answer_to(self, request: str) -> ConsumerEvent:
        await self._flush()
        await self.until(lambda: request in self._answers)
        return self._answers.pop(request)

    async def _flush(self) -> None:
        if frames := self.consumer.frames_to_send():
            try:
                await self._link.send(frames)
            except LinkClosed:
                await self._reader

    async def _read(self) -> None:
        while (message := await self._link.receive()) is not None:
            self._note(self.consumer.receive(message))
            await self._flush()
            async with self._changed:
                self._changed.notify_all()
        self._closed = True
        self._note(self.consumer.connection_lost())
        async with self._changed:
            self._changed.notify_all()

    def _note(self, happened: list[ConsumerEvent]) -> None:
        for event in happened:
            if isinstance(event, EventArrived):
                self.events.append(event)
            elif isinstance(event, (InvokeAnswered, QueryAnswered, RequestFailed)):
                self._answers[event.request] = event
            elif isinstance(event, Refused):
                self.refusal = event
                if event.request is not None:
                    self._answers[event.request] = event


@asynccontextmanager
async def connect(app: App, *, token: str | None = None) -> AsyncIterator[Client]:
    """Connect to an app in this process. Raises ActionError if it refuses."""
    ours, theirs = memory_pair()
    theirs.peer = Peer("memory", token=token)
    serving = asyncio.create_task(app.handle(theirs))
    client = Client(ours)
    try:
        await client.ready()
        if client.refusal is not None:
            raise ActionError(client.refusal.code, client.refusal.message)
        yield client
    finally:
        await client.close()
        await serving
