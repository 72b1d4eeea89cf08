"""The shell around a provider: links in, messages out, changes told after a short rest.

For each link: read → `Connection.receive` → run what is asked as a task → wake the
writer; the writer takes frames when the link has taken the last ones. Reading
stops while the consumer asks faster than it reads or than the app can answer.

All of it runs in one event loop. `changed` may be called from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from sightline.errors import LetGo
from sightline.slop.protocol.connection import Connection, InvokeRequested, QueryRequested, Request
from sightline.slop.protocol.messages import ErrorInfo, ErrorMessage, Query, serialize
from sightline.slop.protocol.patience import Patience
from sightline.slop.protocol.provider import Provider
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.link import Link, LinkClosed
from sightline.slop.transports.pace import Pace

__all__ = ["COALESCE_S", "PATIENCE", "Answer", "Serving"]

COALESCE_S: Final = 0.05
# A refusal costs little, and a program under test makes many mistakes.
PATIENCE: Final = Patience(faults=1_000)
_QUERIES: Final = 4
_GOODBYE_S: Final = 1.0

_log: Final = logging.getLogger(__name__)

OnInvoke = Callable[[Connection, InvokeRequested], Awaitable[None]]
# What is to be answered, and from which tree if not the audience's own.
Answer = tuple[Query, Node | None]
# None is a query that was refused already.
OnQuery = Callable[[Connection, QueryRequested], Awaitable[Answer | None]]


class _Line:
    """A connection on its link, and what its two loops wait for."""

    def __init__(self, connection: Connection, link: Link, patience: Patience) -> None:
        self.connection = connection
        self.link = link
        self.pace = Pace(patience)
        self.has_output = asyncio.Event()
        self.has_room = asyncio.Event()
        # An answer may have megabytes: not all that is asked at once is answered at once.
        self.queries = asyncio.Semaphore(_QUERIES)

    async def write(self) -> None:
        """Send whatever there is, as fast as the link takes it."""
        with contextlib.suppress(LinkClosed):
            while True:
                await self.has_output.wait()
                self.has_output.clear()
                while frames := self.connection.frames_to_send():
                    await self.link.send(frames)
                    self.has_room.set()

    async def say_goodbye(self, reason: str) -> None:
        """Tell why the link ends, if the other side listens."""
        farewell = serialize(ErrorMessage(ErrorInfo("bad_request", reason)))
        with contextlib.suppress(LinkClosed, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                await self.link.send([farewell])

    async def room(self) -> None:
        """Wait until there is room for answers."""
        while not self.connection.wants_input:
            self.has_room.clear()
            await self.has_room.wait()


class Serving:
    """Serves one provider on any number of links."""

    def __init__(
        self,
        provider: Provider,
        on_invoke: OnInvoke,
        on_query: OnQuery | None = None,
        *,
        coalesce_s: float = COALESCE_S,
        patience: Patience | None = None,
    ) -> None:
        self._provider = provider
        self._on_invoke = on_invoke
        self._on_query = on_query
        self._coalesce_s = coalesce_s
        self._patience = patience or PATIENCE
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flush_at: asyncio.TimerHandle | None = None
        self._lines: dict[Connection, _Line] = {}

    async def serve(self, link: Link, audience: Hashable = None) -> None:
        """Serve one link until it ends; ends it when cancelled."""
        self._loop = asyncio.get_running_loop()
        connection = self._provider.connect(audience)
        line = self._lines[connection] = _Line(connection, link, self._patience)
        self.wake()
        writer = asyncio.create_task(line.write())
        answers: set[asyncio.Task[None]] = set()
        try:
            while (message := await link.receive()) is not None:
                faults = connection.faults
                for request in await line.pace.run(connection.receive_steps(message)):
                    answer = asyncio.create_task(self._answer(line, request))
                    answers.add(answer)
                    answer.add_done_callback(answers.discard)
                self.wake()
                if connection.faults > faults:
                    line.pace.fault()
                await line.pace.turn()
                while len(answers) > self._provider.limits.invocations:
                    await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
                await line.room()
        except LetGo as error:
            _log.warning("%s: %s", link.peer.address or link.peer.transport, error)
            writer.cancel()
            await line.say_goodbye(str(error))
        finally:
            connection.close()
            del self._lines[connection]
            for task in (writer, *answers):
                task.cancel()
            await asyncio.gather(writer, *answers, return_exceptions=True)
            await link.close()

    @property
    def connections(self) -> list[Connection]:
        """The connections that are served now."""
        return list(self._lines)

    def changed(self) -> None:
        """Say that a tree was published; subscribers are told within the coalescing time."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._schedule)

    def wake(self) -> None:
        """Let the writers look at what there is to send."""
        for connection in self._provider.take_ready():
            line = self._lines.get(connection)
            if line is not None:
                line.has_output.set()

    def _schedule(self) -> None:
        if self._flush_at is None and self._provider.is_dirty and self._loop is not None:
            self._flush_at = self._loop.call_later(self._coalesce_s, self._flush)

    def _flush(self) -> None:
        self._flush_at = None
        self._provider.flush()
        self.wake()

    async def _answer(self, line: _Line, request: Request) -> None:
        if isinstance(request, InvokeRequested):
            await self._on_invoke(line.connection, request)
        else:
            async with line.queries:
                await line.room()
                answer: Answer | None = (request.query, None)
                if self._on_query is not None:
                    answer = await self._on_query(line.connection, request)
                if answer is not None:
                    with line.pace.work():
                        line.connection.answer_query(*answer)
        line.has_room.set()
        self.wake()
