"""The shell around a provider: links in, messages out, changes told after a short rest.

For each link: read → `Connection.receive` → run what is asked as a task → send what there is.
A link that takes it at once is given it at once: one change for ten thousand readers wakes no
task, and goes to some of them at a time, so that nobody else in the loop waits for all. For one
that does not, a task sends when the link has taken the last ones, until nothing is left. Reading
stops while the consumer asks faster than it reads or than the app can answer. A reader
that takes nothing for too long is let go: with pieces of a long message, that is one piece.

All of it runs in one event loop. `changed` may be called from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final

import sightline.telemetry as telemetry
from sightline.errors import LetGo
from sightline.slop.protocol.connection import Connection, InvokeRequested, QueryRequested, Request
from sightline.slop.protocol.messages import ErrorInfo, ErrorMessage, Query, serialize
from sightline.slop.protocol.outbox import MessageParts
from sightline.slop.protocol.patience import Patience
from sightline.slop.protocol.provider import Provider
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.background import Background, end_tasks
from sightline.slop.transports.link import WRITE_BYTES, Link, LinkClosed, Outgoing, QuickLink, cut
from sightline.slop.transports.pace import STEP_S, Pace

COALESCE_S: Final = 0.05
# A refusal costs little, and a program under test makes many mistakes.
PATIENCE: Final = Patience(faults=1_000)
_QUERIES: Final = 4
_GOODBYE_S: Final = 1.0
# So many are sent to between two looks at the clock.
_LINES: Final = 16
# How often it is looked whether readers read, as a share of the time that they have.
_SWEEPS: Final = 4

_log: Final = telemetry.logger(__name__)

OnInvoke = Callable[[Connection, InvokeRequested], Awaitable[None]]
# What is to be answered, and from which tree if not the audience's own.
Answer = tuple[Query, Node | None]
# None is a query that was refused already.
OnQuery = Callable[[Connection, QueryRequested], Awaitable[Answer | None]]


@dataclass(eq=False, repr=False, slots=True)
class _Line:
    """A connection on its link: what it has to say is sent at once, or by a task that waits."""

    connection: Connection
    link: Link
    # The link, if it can be given a message without waiting.
    _quick: QuickLink | None
    pace: Pace
    _clock: Callable[[], float]
    end: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    writer: asyncio.Task[None] | None = None
    _taken_at: float | None = None
    # Taken from the connection, and not from the task that is to send it.
    _kept: list[MessageParts] = field(default_factory=list)
    # Both are made when somebody waits for them, which is seldom.
    _room: asyncio.Event | None = None
    _queries: asyncio.Semaphore | None = None

    def send(self) -> None:
        """Send whatever there is: now, as far as the link takes it now; the rest when it can."""
        if self.writer is not None:
            return  # it sends this too, in its turn
        connection = self.connection
        if self._quick is not None:
            while (message := connection.short_message(WRITE_BYTES)) is not None:
                if not self._quick.put(message):
                    self._kept = [(message,)]
                    break
                self.has_room()
        if self._kept or connection.has_output:
            self.writer = asyncio.create_task(self._write())

    async def _write(self) -> None:
        """Send what was kept and whatever comes meanwhile, as fast as the link takes it."""
        try:
            with contextlib.suppress(LinkClosed):
                while messages := self._kept or self.connection.messages_to_send():
                    self._kept = []
                    self._taken_at = self._clock()
                    await self.link.send([self._outgoing(parts) for parts in messages])
                    self._taken_at = None
                    self.has_room()
        finally:
            self.writer = None

    def _outgoing(self, parts: MessageParts) -> Outgoing:
        message = cut(parts)
        return message if isinstance(message, bytes) else self._noted(message)

    def _noted(self, pieces: Iterator[memoryview]) -> Iterator[memoryview]:
        """The same pieces; each that is asked for shows that the one before was taken."""
        for piece in pieces:
            self._taken_at = self._clock()
            yield piece

    def unread_s(self) -> float:
        """For how long the link has taken nothing of what is being sent."""
        return 0.0 if self._taken_at is None else self._clock() - self._taken_at

    async def say_goodbye(self, reason: str) -> None:
        """Tell why the link ends, if the other side listens."""
        farewell = serialize(ErrorMessage(ErrorInfo("bad_request", reason)))
        with contextlib.suppress(LinkClosed, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                if self.writer is not None:
                    await asyncio.wait({self.writer})
                await self.link.send([farewell])

    @property
    def queries(self) -> asyncio.Semaphore:
        """How many queries are answered at once, for an answer may have megabytes."""
        if self._queries is None:
            self._queries = asyncio.Semaphore(_QUERIES)
        return self._queries

    async def room(self) -> None:
        """Wait until there is room for answers."""
        while not self.connection.wants_input:
            if self._room is None:
                self._room = asyncio.Event()
            self._room.clear()
            await self._room.wait()

    def has_room(self) -> None:
        """Let those look again who wait for room."""
        if self._room is not None:
            self._room.set()


@dataclass(eq=False, repr=False, slots=True)
class Serving:
    """Serves one provider on any number of links."""

    provider: Provider
    on_invoke: OnInvoke
    on_query: OnQuery | None = None
    coalesce_s: float = COALESCE_S
    patience: Patience = PATIENCE
    clock: Callable[[], float] = time.monotonic
    work_clock: Callable[[], float] = time.thread_time
    _loop: asyncio.AbstractEventLoop | None = None
    _sweep_at: asyncio.TimerHandle | None = None
    _flush_at: asyncio.TimerHandle | None = None
    _lines: dict[Connection, _Line] = field(default_factory=dict)
    # Those that have something to send and were not looked at yet, and when they will be.
    _unsent: list[Connection] = field(default_factory=list)
    _send_at: asyncio.Handle | None = None

    async def serve(self, link: Link, audience: Hashable = None) -> None:
        """Serve one link until it ends; ends it when cancelled."""
        self._loop = asyncio.get_running_loop()
        connection = self.provider.connect(audience)
        quick = link if isinstance(link, QuickLink) else None
        line = _Line(connection, link, quick, Pace(self.patience), self.clock)
        self._lines[connection] = line
        self.wake()
        self._schedule_sweep()
        answers = Background()
        reason = ""
        try:
            async with line.end:
                try:
                    await self._read(line, answers)
                finally:
                    del self._lines[connection]
        except LetGo as error:
            reason = str(error)
            await line.say_goodbye(reason)
        except TimeoutError:
            if not line.end.expired():
                raise
            reason = f"let go: it has taken nothing for {self.patience.unread_s:g} s"
        finally:
            if reason:
                _log.warning("%s: %s", link.peer.address or link.peer.transport, reason)
            connection.close()
            await end_tasks(*answers.tasks, *filter(None, [line.writer]))
            await link.close(reason)

    async def _read(self, line: _Line, answers: Background) -> None:
        """Take in what comes until the link ends; answers are tasks of their own."""
        connection = line.connection
        while (message := await line.link.receive()) is not None:
            faults = connection.faults
            for request in await line.pace.run(connection.receive_steps(message)):
                answers.start(self._answer(line, request))
            line.send()
            self.wake()
            if connection.faults > faults:
                line.pace.fault()
            await line.pace.turn()
            while len(answers.tasks) > self.provider.limits.invocations:
                await asyncio.wait(answers.tasks, return_when=asyncio.FIRST_COMPLETED)
            await line.room()

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
        """Send what there is to send."""
        if self._send_at is None:
            self._send_some()

    def _send_some(self) -> None:
        """Send for a few milliseconds, then let everybody else have a turn before the rest."""
        self._send_at = None
        began = self.work_clock()
        while self._unsent or self._take_ready():
            for connection in self._unsent[-_LINES:]:
                line = self._lines.get(connection)
                if line is not None:
                    line.send()
            del self._unsent[-_LINES:]
            if self.work_clock() - began > STEP_S and self._loop is not None:
                self._send_at = self._loop.call_soon(self._send_some)
                return

    def _take_ready(self) -> bool:
        self._unsent = list(self.provider.take_ready())
        return bool(self._unsent)

    def _schedule_sweep(self) -> None:
        if self._sweep_at is None and self._loop is not None:
            self._sweep_at = self._loop.call_later(self.patience.unread_s / _SWEEPS, self._sweep)

    def _sweep(self) -> None:
        """Let go who takes nothing: one look at all, for a timer for each would cost every send."""
        self._sweep_at = None
        for line in self._lines.values():
            # Over stdio there is one reader, and the app ends when it is let go.
            is_spared = line.link.peer.transport == "stdio" or line.end.expired()
            if not is_spared and line.unread_s() >= self.patience.unread_s:
                line.end.reschedule(0)
        if self._lines:
            self._schedule_sweep()

    def _schedule(self) -> None:
        if self._flush_at is None and self.provider.is_dirty and self._loop is not None:
            self._flush_at = self._loop.call_later(self.coalesce_s, self._flush)

    def _flush(self) -> None:
        self._flush_at = None
        self.provider.flush()
        self.wake()

    async def _answer(self, line: _Line, request: Request) -> None:
        if isinstance(request, InvokeRequested):
            await self.on_invoke(line.connection, request)
        else:
            async with line.queries:
                await line.room()
                answer: Answer | None = (request.query, None)
                if self.on_query is not None:
                    answer = await self.on_query(line.connection, request)
                if answer is not None:
                    with line.pace.work():
                        line.connection.answer_query(*answer)
        line.has_room()
        line.send()
        self.wake()
