"""A client of one provider, over any transport, that stays connected as long as it is wanted.

*Theory of operation.* A `Client` runs one task: connect, talk until the link ends, rest,
connect again. What the protocol says is decided in `protocol.consumer`; the client gives
it bytes and takes its events. Subscriptions stay across connections, and go on where they
were if the provider can resume. A request fails at once when its connection is lost: it is
never repeated, for nobody knows whether it was done. While an attempt to connect is under
way a request waits for it; between attempts it fails at once.

Nothing is awaited without a limit: connecting and the hello have the handshake time
together, a snapshot that does not come in that time is asked for again.

*Signs of life.* A provider that says nothing may have nothing to say, or be stopped, or hang. So
one that is quiet is asked for a node without its children, which every provider must answer; if
nothing at all comes for `silent_s`, what is known of it no longer counts as current, until
something comes. A ping of the transport would not do: the library, the kernel or a proxy
answers that for a program that hangs, and a Unix socket and a pipe have none.

And no provider holds us: what it sends is read piece by piece, with a turn for everybody
else in between, and one that takes more than its share, or sends rubbish, is let go (`pace`).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec
from msgspec import UnsetType

import sightline.errors as errors
import sightline.slop.protocol.consumer as consumers
import sightline.telemetry as telemetry
from sightline.slop.hub.watch import Signal, Watch
from sightline.slop.protocol.ids import app_id_problem, app_name_problem
from sightline.slop.protocol.messages import Filter, ProviderInfo
from sightline.slop.protocol.patience import Patience
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.background import end_tasks
from sightline.slop.transports.link import Link, LinkClosed, Peer
from sightline.slop.transports.pace import Pace

Dial: TypeAlias = Callable[[], Awaitable[Link]]
State: TypeAlias = Literal["connecting", "connected", "resting", "closed"]

HANDSHAKE_S: Final = 5.0
INVOKE_S: Final = 30.0
SILENT_S: Final = 30.0
# What may yet come true without our doing; anything else is refused for good.
_PASSING: Final = frozenset({"not_found", "internal"})
# A provider that does not let us in may say why, in so many characters.
_REASON_CHARS: Final = 300

_log: Final = telemetry.logger(__name__)


class Backoff(msgspec.Struct, frozen=True):
    """How long to rest before trying again: longer each time, and never all at once.

    The n-th delay lies between half and all of first · factorⁿ.
    """

    first_s: float = 0.1
    factor: float = 2.0
    max_s: float = 10.0

    def delay_s(self, attempt: int, share: float) -> float:
        """Return the delay after `attempt` failures before this one; `share` is chance, 0..1."""
        # Bounded before it is raised to a power, so that a long night does not overflow.
        whole = min(self.max_s, self.first_s * self.factor ** min(attempt, 64))
        return whole / 2 + whole / 2 * share


class Lost(msgspec.Struct, frozen=True):
    """The connection to the provider is gone, or could not be made."""

    reason: errors.SightlineError


class Silent(msgspec.Struct, frozen=True):
    """The provider gives no sign of life, though the connection is open; True until it does."""

    is_silent: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an invoke: done (`ok`), or begun (`accepted`, with a task to watch)."""

    status: Literal["ok", "accepted"]
    data: Any = None
    trace: str = field(default="", compare=False, repr=False)


Listener: TypeAlias = Callable[[consumers.ConsumerEvent | Lost | Silent], None]


class Client:
    """A consumer that stays connected to one provider."""

    def __init__(
        self,
        dial: Dial,
        *,
        reconnect: bool = True,
        backoff: Backoff | None = None,
        handshake_s: float = HANDSHAKE_S,
        invoke_s: float = INVOKE_S,
        patience: Patience | None = None,
        silent_s: float = SILENT_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pulse: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        first_id: int = 1,
    ) -> None:
        self.state: State = "closed"
        self.error: errors.SightlineError | None = None
        self._provider: ProviderInfo | None = None
        self._is_silent = False
        self._dial = dial
        self._reconnect = reconnect
        self._backoff = backoff or Backoff()
        self._handshake_s = handshake_s
        self._invoke_s = invoke_s
        self._patience = patience or Patience()
        self._silent_s = silent_s
        self._pulse = pulse
        self._life: str | None = None
        self._heard = 0
        self._heard_at = 0.0
        self._sleep = sleep
        self._chance = chance
        self._consumer = consumers.Consumer(first_id=first_id)
        self._watches: dict[str, Watch] = {}
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._listeners: list[Listener] = []
        self._has_output = asyncio.Event()
        self._hurry = asyncio.Event()
        self._changed = Signal()
        self._link: Link | None = None
        self._most_rest_s = math.inf
        self._turned_away: errors.SightlineError | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def provider(self) -> ProviderInfo | None:
        """Who answered last, by an id and a name that can be shown; None if nobody has."""
        return self._provider

    @property
    def is_silent(self) -> bool:
        """Whether the provider is connected and has given no sign of life for too long."""
        return self._is_silent

    @property
    def peer(self) -> Peer | None:
        """Who is at the other end of the connection, as its transport knows; None without one."""
        return None if self._link is None else self._link.peer

    @property
    def quiet_s(self) -> float:
        """For how many seconds nothing has come from the provider."""
        return asyncio.get_running_loop().time() - self._heard_at

    @property
    def is_used(self) -> bool:
        """Whether somebody waits for the connection or an answer, or watches a second part."""
        if self.state == "connected":
            return bool(self._waiting) or len(self._watches) > 1
        return self.state == "connecting"

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        """Begin to connect, in the background."""
        if self._task is None:
            self.state = "connecting"
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the connection for good; whatever waits fails now."""
        self._reconnect = False
        if self._task is not None:
            await end_tasks(self._task)

    async def ready(self) -> ProviderInfo:
        """Wait for the attempt under way. Raises why there is no connection, if there is none."""
        await self._changed.until(lambda: self.state != "connecting")
        if self.state != "connected" or self._provider is None:
            raise self.error or errors.Unreachable("the client is closed")
        return self._provider

    def retry_now(self) -> None:
        """Cut the rest between two attempts short: there is news of the provider."""
        self._hurry.set()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function for everything that happens; returns how to stop that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def subscribe(
        self,
        path: str = "/",
        *,
        depth: int = -1,
        max_nodes: int | None = None,
        filter: Filter | None = None,  # noqa: A002 - the protocol's own name for it
    ) -> Watch:
        """Watch a part of the app, on this connection and all later ones."""
        subscription = self._consumer.subscribe(
            path, depth=depth, max_nodes=max_nodes, filter=filter
        )
        watch = Watch(
            subscription,
            self._consumer.mirrors[subscription],
            lambda: self._unsubscribe(subscription),
        )
        watch.is_connected = self.state == "connected" and not self._is_silent
        self._watches[subscription] = watch
        self._has_output.set()
        return watch

    async def query(
        self,
        path: str = "/",
        *,
        depth: int = -1,
        max_nodes: int | None = None,
        filter: Filter | None = None,  # noqa: A002 - the protocol's own name for it
        window: tuple[int, int] | None = None,
        timeout_s: float | None = None,
    ) -> Node:
        """Ask for one view. Raises RequestRefused, Unauthorized, Unreachable, TimedOut."""
        await self.ready()
        request = self._consumer.query(
            path, depth=depth, max_nodes=max_nodes, filter=filter, window=window
        )
        tree: Node = await self._answer(request, timeout_s)
        return tree

    async def invoke(
        self,
        path: str,
        action: str,
        params: dict[str, Any] | None = None,
        *,
        timeout_s: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> Outcome:
        """Ask for an action. Raises ActionFailed; after Unreachable or TimedOut it may have run.

        `check` has the last word: it is called when nothing else can happen before the
        action is asked for, and what it raises is raised.
        """
        await self.ready()
        if check is not None:
            check()
        request = self._consumer.invoke(path, action, params, trace=telemetry.context_here())
        outcome: Outcome = await self._answer(request, timeout_s)
        if outcome.trace:
            telemetry.link_to(outcome.trace)
        return outcome

    async def _answer(self, request: str, timeout_s: float | None) -> Any:
        limit_s = self._invoke_s if timeout_s is None else timeout_s
        answer = self._waiting[request] = asyncio.get_running_loop().create_future()
        self._has_output.set()
        try:
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            raise errors.TimedOut(f"no answer within {limit_s:g} s") from None
        finally:
            self._waiting.pop(request, None)

    def _unsubscribe(self, subscription_id: str) -> None:
        self._watches.pop(subscription_id, None)
        self._consumer.unsubscribe(subscription_id)
        self._has_output.set()

    async def _run(self) -> None:
        failures = 0
        try:
            while True:
                self._turned_away = None
                self._enter("connecting")
                error = await self._connect()
                if self.state == "connected":
                    failures = 0
                # First tell who waits, then hang up: a peer that does not let go takes its time.
                self._lose(error, "resting" if self._reconnect else "closed")
                await self._hang_up()
                if not self._reconnect:
                    return
                if isinstance(error, errors.LetGo):
                    await self._sleep(self._patience.rest_s)
                await self._rest(
                    min(self._most_rest_s, self._backoff.delay_s(failures, self._chance()))
                )
                failures += 1
        finally:
            self._lose(self.error or errors.Unreachable("the client is closed"), "closed")
            for watch in self._watches.values():
                watch.ended(self.error or errors.Unreachable("the client is closed"))
            await self._hang_up()

    async def _connect(self) -> errors.SightlineError:
        """Talk to the provider once; returns why it ended."""
        limit_s = self._handshake_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                link = self._link = await self._dial()
                self._most_rest_s = link.peer.rest_s
                self._consumer.shared = getattr(link, "shared", None)
                if link.peer.start_s:
                    limit_s = link.peer.start_s
                    limit.reschedule(asyncio.get_running_loop().time() + limit_s)
                return await self._talk(link, limit)
        except TimeoutError:
            return self._turned_away or errors.TimedOut(f"no hello within {limit_s:g} s")
        except errors.SightlineError as error:
            return error
        except OSError as error:
            return errors.Unreachable(error.strerror or str(error))

    async def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _talk(self, link: Link, limit: asyncio.Timeout) -> errors.SightlineError:
        pace = Pace(self._patience)
        helpers = [
            asyncio.create_task(work)
            for work in (self._write(link), self._remind(), self._ask_for_life())
        ]
        try:
            while (message := await link.receive()) is not None:
                self._hear()
                for event in await pace.run(self._consumer.receive_steps(message)):
                    if isinstance(event, consumers.Connected):
                        self._meet(event.provider)
                        limit.reschedule(None)
                    else:
                        with pace.work():
                            self._take(event)
                    if isinstance(event, consumers.Garbled):
                        pace.fault()
                    await pace.turn()
                self._has_output.set()
                await pace.turn()
            return self._turned_away or errors.Unreachable("the connection is gone")
        finally:
            await end_tasks(*helpers)

    async def _write(self, link: Link) -> None:
        with contextlib.suppress(LinkClosed):
            while True:
                await self._has_output.wait()
                self._has_output.clear()
                if frames := self._consumer.frames_to_send():
                    await link.send(frames)

    async def _remind(self) -> None:
        """Ask again for every snapshot that has not come for one whole handshake time."""
        waited: set[str] = set()
        while True:
            await asyncio.sleep(self._handshake_s)
            mirrors = self._consumer.mirrors
            waits = {
                subscription
                for subscription in mirrors
                if not mirrors[subscription].is_current and self._may_come(subscription)
            }
            for subscription in waits & waited:
                self._consumer.subscribe_again(subscription)
            waited = waits
            self._has_output.set()

    async def _ask_for_life(self) -> None:
        """Note when nothing has come for too long; half that time before, ask for something."""
        while True:
            heard = self._heard
            await self._pulse(self._silent_s / 2)
            if heard != self._heard or self._is_silent:
                continue
            if self._life is None:
                self._life = self._consumer.query("/", depth=0, max_nodes=1)
                self._has_output.set()
            await self._pulse(self._silent_s / 2)
            if heard == self._heard and self.state == "connected":
                self._set_silent(True)

    def _hear(self) -> None:
        self._heard += 1
        self._heard_at = asyncio.get_running_loop().time()
        if self._is_silent:
            self._set_silent(False)

    def _set_silent(self, is_silent: bool) -> None:
        self._is_silent = is_silent
        self._enter(self.state)
        self._tell(Silent(is_silent))

    def _may_come(self, subscription_id: str) -> bool:
        refusal = self._watches[subscription_id].refusal
        return not isinstance(refusal, errors.RequestRefused) or refusal.reason in _PASSING

    async def _rest(self, delay_s: float) -> None:
        self._hurry.clear()
        sleep = asyncio.ensure_future(self._sleep(delay_s))
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({sleep, hurry}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            hurry.cancel()

    def _enter(self, state: State) -> None:
        self.state = state
        for watch in self._watches.values():
            watch.is_connected = state == "connected" and not self._is_silent
        self._changed.fire()

    def _lose(self, error: errors.SightlineError, state: State) -> None:
        was_open = self.state in {"connecting", "connected"}
        self.error = error
        self._is_silent = False
        for event in self._consumer.connection_lost(str(error)):
            self._take(event)
        self._enter(state)
        if was_open:
            self._tell(Lost(error))

    def _meet(self, provider: ProviderInfo) -> None:
        """Take a hello. Raises InvalidInput for an id that could pass for another.

        Who answers again must be who answered before: what a user agreed to, once or as a
        rule, was for that app, and a socket's path can be taken over.
        A name that cannot be shown is no reason to let go: the id stands in for it.
        """
        illegal = app_id_problem(provider.id)
        if illegal is not None:
            raise errors.InvalidInput(f"its hello is not believed: {illegal}")
        if self._provider is not None and self._provider.id != provider.id:
            raise errors.InvalidInput(
                f"another app answers there: it was {self._provider.id} and is {provider.id} now"
            )
        unshowable = app_name_problem(provider.name)
        if unshowable is not None:
            provider = msgspec.structs.replace(provider, name=provider.id)
        self._provider = provider
        self._take(consumers.Connected(provider))
        if unshowable is not None:
            self._take(consumers.Garbled(f"its name, for which its id stands: {unshowable}"))

    def _take(self, event: consumers.ConsumerEvent) -> None:
        if isinstance(
            event, consumers.QueryAnswered | consumers.Refused | consumers.RequestFailed
        ) and (event.request == self._life):
            self._life = None
        match event:
            case consumers.Connected():
                self.error = self._turned_away = None
                self._enter("connected")
            case consumers.MirrorChanged():
                if watch := self._watches.get(event.subscription):
                    watch.changed()
            case consumers.QueryAnswered():
                self._settle(event.request, event.tree)
            case consumers.InvokeAnswered():
                self._settle(event.request, _outcome(event))
            case consumers.RequestFailed():
                self._settle(event.request, errors.Unreachable(event.reason))
            case consumers.Refused(request=None) if self.state == "connecting":
                self._turned_away = _turned_away(event)
            case consumers.Refused():
                refusal = errors.RequestRefused(event.code, event.message)
                if watch := self._watches.get(event.request or ""):
                    watch.refused(refusal)
                self._settle(event.request or "", refusal)
            case consumers.Garbled():
                name = "a provider" if self._provider is None else self._provider.id
                _log.warning("skipped from %s: %s", name, event.reason)
            case consumers.EventArrived() | consumers.Resumed():
                pass  # for listeners
        self._tell(event)

    def _tell(self, event: consumers.ConsumerEvent | Lost | Silent) -> None:
        for listener in list(self._listeners):
            listener(event)

    def _settle(self, request: str, answer: Node | Outcome | errors.SightlineError) -> None:
        waiting = self._waiting.get(request)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, errors.SightlineError):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)


def _turned_away(refusal: consumers.Refused) -> errors.SightlineError:
    message = refusal.message
    if len(message) > _REASON_CHARS:
        message = f"{message[:_REASON_CHARS]}…"
    if refusal.code == errors.Unauthorized.code:
        return errors.Unauthorized(f"unauthorized: {message or 'the app does not let us in'}")
    return errors.RequestRefused(refusal.code[:_REASON_CHARS], message)


def _outcome(answer: consumers.InvokeAnswered) -> Outcome | errors.SightlineError:
    result = answer.result
    if result.status == "error":
        if isinstance(result.error, UnsetType):
            return errors.ActionFailed("internal", "")
        return errors.ActionFailed(result.error.code, result.error.message)
    trace = result.trace if isinstance(result.trace, str) else ""
    return Outcome(result.status, answer.data, trace)
