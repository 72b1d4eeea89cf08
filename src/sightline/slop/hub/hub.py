"""Many apps, one world.

The hub keeps a `Client` with one subscription for each app that is wanted: those that
were added, those that were asked for, and, unless it is lazy, every app that announces
itself. Whatever happens to any of them makes the next `World`: an app that is connected and
gives no sign of life shows no current state either. After the idle time the hub
lets go of an app that has withdrawn its announcement and cannot be reached, and, if it is
lazy, of one that nobody has asked anything of, waits for or watches.

The world holds what is `wanted` of every app, a shallow overview perhaps; `watch` gives a detail
of one beside it, on the same connection.

    async with Hub.connect("ws://127.0.0.1:8765/slop", "mail") as hub:
        print(hub.world)
"""

from __future__ import annotations

import asyncio
import operator
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from sightline._keywords import names_keywords
from sightline.errors import InvalidInput, SightlineError, Unauthorized, Unreachable
from sightline.slop.discovery.descriptor import Descriptor, Stdio
from sightline.slop.discovery.directory import Discovery, FoundApps
from sightline.slop.hub.address import dial_address, dial_descriptor
from sightline.slop.hub.client import SILENT_S, Backoff, Client, Dial, Outcome
from sightline.slop.hub.mcp import AskUser, McpTarget, QuestionRelay, dial_mcp, is_mcp
from sightline.slop.hub.origin import Origin
from sightline.slop.hub.watch import Signal, Watch
from sightline.slop.protocol.ids import app_id_problem, reads_as_own
from sightline.slop.protocol.messages import Filter
from sightline.slop.protocol.patience import Patience
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, AvailableApp, Status, World
from sightline.slop.transports.background import Background, end_tasks
from sightline.slop.transports.nats_url import is_nats

if TYPE_CHECKING:
    from sightline.slop.hub.browser import BrowserBridge


IDLE_S: Final = 300.0
READY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class WantedApp:
    """What the hub subscribes to in each app."""

    path: str = "/"
    depth: int = -1
    max_nodes: int | None = None
    filter: Filter | None = None


class _Seat:
    """One app that the hub keeps a client for, and what it shows."""

    def __init__(
        self, app_id: str, name: str, client: Client, wanted: WantedApp,
        ask: Callable[[], AskUser | None], descriptor: Descriptor | None, *, is_own: bool,
    ) -> None:  # fmt: skip
        self.state = AppState(app_id, name, "awaiting")
        self.descriptor = descriptor
        self.is_own = is_own
        self.client = client
        self.watch = client.subscribe(
            wanted.path, depth=wanted.depth, max_nodes=wanted.max_nodes, filter=wanted.filter
        )
        self.questions = QuestionRelay(client, ask)
        self.idle: asyncio.TimerHandle | None = None

    @property
    def origin(self) -> Origin | None:
        """Where the app comes from: by its connection, or before there is one by its descriptor."""
        if self.is_own:
            return Origin("own", self.state.id)
        if self.client.peer is not None:
            return Origin.of_peer(self.client.peer, self.state.id)
        return None if self.descriptor is None else Origin.of_transport(self.descriptor.transport)

    def look(self, clock: Callable[[], datetime]) -> AppState:
        """What the app shows now; the same object as before where nothing is new."""
        client, watch, was = self.client, self.watch, self.state
        status: Status = "awaiting"
        reason = "" if watch.refusal is None else str(watch.refusal)
        last_seen = None
        quiet_s = 0.0
        if client.state in {"resting", "closed"}:
            status, reason, last_seen = "disconnected", str(client.error or ""), was.last_seen
        elif client.is_silent:
            status, last_seen, quiet_s = "disconnected", was.last_seen, client.quiet_s
            no_sign = f"it is connected, and has given no sign of life for {quiet_s:.0f} s"
            reason = was.reason if was.status == status else no_sign
        elif watch.is_current:
            status = "connected"
        elif client.state == "connecting" and was.status == "disconnected":
            # An attempt is no connection: nothing is new until it succeeds.
            status, reason, last_seen = was.status, was.reason, was.last_seen
        if status == "disconnected" and was.status == "connected":
            seen_at = clock().astimezone(UTC) - timedelta(seconds=quiet_s)
            last_seen = seen_at.isoformat(timespec="seconds").replace("+00:00", "Z")
        seen = AppState(
            was.id,
            was.name if client.provider is None else client.provider.name,
            status,
            watch.tree,
            watch.version,
            last_seen,
            reason,
        )
        # By identity first: two trees that say the same take long to compare.
        return was if seen.tree is was.tree and seen == was else seen


class Hub:
    """Keeps apps connected, and tells what they show."""

    @names_keywords
    def __init__(
        self,
        discovery: Discovery | None = None,
        *,
        lazy: bool = False,
        idle_s: float = IDLE_S,
        wanted: WantedApp | None = None,
        consent: Callable[[Descriptor], bool] = lambda _: False,
        token: Callable[[str], str | None] = lambda _: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        backoff: Backoff | None = None,
        patience: Patience | None = None,
        silent_s: float = SILENT_S,
        ask: AskUser | None = None,
        bridge: BrowserBridge | None = None,
    ) -> None:
        self.world = World()
        self.bridge = bridge
        # Who asks the user what an MCP server wants to know; without anybody it is told so.
        self.ask = ask
        self._discovery = discovery
        self._lazy = lazy
        self._idle_s = idle_s
        self._wanted = wanted or WantedApp()
        self._consent = consent
        self._token = token
        self._clock = clock
        self._client = partial(Client, backoff=backoff, patience=patience, silent_s=silent_s)
        self._seats: dict[str, _Seat] = {}
        self._found: dict[str, Descriptor] = {}
        self._changed = Signal()
        self._running: list[asyncio.Task[None]] = []
        self._leaving = Background()

    async def __aenter__(self) -> Self:
        if self._discovery is not None:
            self._take(await asyncio.to_thread(self._discovery.look))
            self._running.append(asyncio.create_task(self._discover(self._discovery)))
        if self.bridge is not None:
            self._running.append(asyncio.create_task(self.bridge.run(self)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await end_tasks(*self._running)
        await asyncio.gather(*self._leaving.tasks, *map(self.remove, list(self._seats)))
        self._changed.end()

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        *addresses: str,
        discover: bool | Discovery = False,
        within_s: float = READY_S,
        **options: Any,
    ) -> AsyncIterator[Self]:
        """Open a hub on apps by address or id, for as long as a block runs.

        With `discover` every app that announces itself joins. The block begins when the first
        states are there, or after `within_s`. Raises InvalidInput, Unreachable or Unauthorized,
        naming the address. `options` are those of the constructor.
        """
        discovery = Discovery() if discover is True else discover or None
        async with cls(discovery, **options) as hub:
            await hub._reach_all(addresses)
            await hub.ready(within_s)
            yield hub

    async def ready(self, within_s: float = READY_S) -> World:
        """Wait until every app has shown its first state or cannot; return the world then.

        After `within_s` it is returned as it is.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._changed.until(self._is_settled)
        return self.world

    async def reach(self, address: str) -> str:
        """Want an app by its address or id, as soon as it answered; return its id.

        Raises InvalidInput also where the app's id is taken or kept, Unreachable, Unauthorized.
        """
        [app_id] = await self._reach_all([address])
        await self.client(app_id)
        return app_id

    def add_mcp(self, target: McpTarget) -> str:
        """Want an MCP server from now on; return its id, which it has before it answers.

        Raises InvalidInput as `add` does, MissingExtra.
        """
        self.add(target.app_id, dial_mcp(target), name=target.name)
        return target.app_id

    def add(self, app_id: str, dial: Dial | str, *, name: str = "", own: bool = False) -> None:
        """Want an app at an address, or reached in a way of its own, from now on.

        `own` says that it is one of the host's, whose word is taken: only such an app gets an id
        that reads as one of theirs. Raises InvalidInput for an id that is illegal, kept or taken,
        and for what is no address.
        """
        if isinstance(dial, str):
            dial = dial_address(dial, token=self._token(app_id))
        self._admit(self._seat(app_id, name or app_id, dial, is_own=own))

    def seat_page(self, app_id: str, dial: Dial) -> None:
        """Want a page that comes by the bridge, and may answer several consumers at once.

        Raises InvalidInput as `add` does.
        """
        # What it tells the others is heard here, too: by their ids it is not for us.
        first_id = secrets.randbelow(1 << 32)
        self._admit(self._seat(app_id, app_id, dial, first_id=first_id))

    def drop(self, app_id: str) -> None:
        """Want an app no longer; its id is free now, its connection ends beside."""
        seat = self._seats.pop(app_id, None)
        if seat is not None:
            self._leaving.start(self._end(seat))

    def retry(self, app_id: str) -> bool:
        """Try an app again now, for there is news of it; False if it is not wanted."""
        seat = self._seats.get(app_id)
        if seat is not None:
            seat.client.retry_now()
        return seat is not None

    def origin(self, app_id: str) -> Origin | None:
        """Tell where an app comes from; None if there is no such app, or nothing is known yet."""
        seat = self._seats.get(app_id)
        if seat is not None:
            return seat.origin
        found = self._found.get(app_id)
        return None if found is None else Origin.of_transport(found.transport)

    async def remove(self, app_id: str) -> None:
        """Want an app no longer."""
        seat = self._seats.pop(app_id, None)
        if seat is not None:
            await self._end(seat)

    async def changes(self) -> AsyncIterator[World]:
        """Give the world now, and again whenever it changed; a slow reader gets the latest."""
        seen = -1
        while (news := await self._changed.news_after(seen)) is not None:
            seen = news
            yield self.world

    async def client(self, app_id: str) -> Client:
        """Return an app's client, connecting to it if it is available. Raises Unreachable."""
        seat = self._seats.get(app_id)
        if seat is None:
            descriptor = self._found.get(app_id)
            if descriptor is None:
                raise Unreachable(f"there is no app {app_id!r}")
            seat = self._sit_found(descriptor)
        if self._lazy and seat.descriptor is not None:
            self._set_timer(app_id, seat, running=True)
        await seat.client.ready()
        return seat.client

    async def watch(self, app_id: str, path: str = "/", **options: Any) -> Watch:
        """Watch a part of an app beside what the world shows of it; see `Client.subscribe`.

        It goes on until it is closed or the app is let go. Raises Unreachable.
        """
        return (await self.client(app_id)).subscribe(path, **options)

    async def query(self, app_id: str, path: str = "/", **options: Any) -> Node:
        """Ask an app for one view; see `Client.query`."""
        return await (await self.client(app_id)).query(path, **options)

    async def invoke(
        self, app_id: str, path: str, action: str, params: dict[str, Any] | None = None
    ) -> Outcome:
        """Ask an app for an action; see `Client.invoke`."""
        return await (await self.client(app_id)).invoke(path, action, params)

    async def _reach_all(self, addresses: Sequence[str]) -> list[str]:
        """Seat whoever is at these addresses, in their order; return the ids."""
        probes = [asyncio.create_task(self._probe(address)) for address in addresses]
        try:
            seats = await asyncio.gather(*probes)
            for seat in seats:
                if self._seats.get(seat.state.id) is not seat:
                    self._admit(seat)
        except BaseException:
            for probe in probes:
                probe.cancel()
            for found in await asyncio.gather(*probes, return_exceptions=True):
                if isinstance(found, _Seat) and self._seats.get(found.state.id) is not found:
                    await found.client.close()
            raise
        for address, seat in zip(addresses, seats, strict=True):
            if is_mcp(address):
                await self._met(seat.state.id, address)
        return [seat.state.id for seat in seats]

    async def _probe(self, address: str) -> _Seat:
        """Ask who is at an address: the seat that it has, or one that it may be given."""
        if address in self._found:
            await self.client(address)
            return self._seats[address]
        if is_mcp(address):  # its id is known before it answers
            target = McpTarget.of_address(address, self._token(address))
            return self._seat(target.app_id, target.name, dial_mcp(target))
        try:
            dial = await asyncio.to_thread(dial_address, address, token=self._token(address))
            seat = self._seat(address, address, dial)
            try:
                seat.client.start()
                found = await seat.client.ready()
            except BaseException:
                await seat.client.close()
                raise
        except (InvalidInput, Unreachable, Unauthorized) as error:
            # An error about a broker names it without what is secret in its address.
            if address in str(error) or is_nats(address):
                raise
            kind = InvalidInput if isinstance(error, InvalidInput) else type(error)
            raise kind(f"{address}: {error}") from error
        seat.state = AppState(found.id, found.name, "awaiting")
        return seat

    async def _met(self, app_id: str, address: str) -> None:
        """Wait for a server that has its seat already; one that does not come loses it."""
        try:
            await self._seats[app_id].client.ready()
        except SightlineError as error:
            await self.remove(app_id)
            raise Unreachable(f"{address}: {error}") from error

    def _is_settled(self) -> bool:
        return all(app.status != "awaiting" or app.reason for app in self.world.apps)

    async def _discover(self, discovery: Discovery) -> None:
        async for found in discovery.watch():
            self._take(found)

    def _take(self, found: FoundApps) -> None:
        before, self._found = self._found, {item.id: item for item in found.descriptors}
        for app_id, descriptor in self._found.items():
            seat = self._seats.get(app_id)
            if seat is None:
                if not self._lazy and self._may_connect(descriptor):
                    self._sit_found(descriptor)
            elif seat.descriptor is not None and before.get(app_id) != descriptor:
                seat.descriptor = descriptor
                seat.client.retry_now()
        for app_id, seat in self._seats.items():
            if seat.descriptor is not None and (app_id in before) != (app_id in self._found):
                self._set_timer(app_id, seat, running=self._lazy or app_id not in self._found)
        self._publish()

    def _sit_found(self, descriptor: Descriptor) -> _Seat:
        app_id = descriptor.id

        async def dial() -> Any:
            # Looked up each time: an app that was started anew may be somewhere else now.
            latest = self._found.get(app_id, descriptor)
            consent = self._consent(latest)
            return await dial_descriptor(latest, token=self._token(app_id), consent=consent)()

        return self._sit(self._seat(app_id, descriptor.name, dial, descriptor))

    def _seat(
        self, app_id: str, name: str, dial: Dial, descriptor: Descriptor | None = None, *,
        is_own: bool = False, first_id: int = 1,
    ) -> _Seat:  # fmt: skip
        client = self._client(dial, first_id=first_id)
        return _Seat(
            app_id, name, client, self._wanted, lambda: self.ask, descriptor, is_own=is_own
        )

    def _admit(self, seat: _Seat) -> None:
        """Give a seat to an app that was asked for. Raises InvalidInput if its id cannot be."""
        app_id = seat.state.id
        problem = app_id_problem(app_id)
        if problem is not None:
            raise InvalidInput(problem)
        if reads_as_own(app_id) and not seat.is_own:
            raise InvalidInput(f"the id {app_id!r} is kept for an app of the host's own")
        if app_id in self._seats:
            raise InvalidInput(f"an app {app_id!r} is connected already")
        self._sit(seat)

    def _sit(self, seat: _Seat) -> _Seat:
        self._seats[seat.state.id] = seat
        seat.client.listen(lambda _: self._publish())
        seat.client.start()
        self._publish()
        return seat

    async def _end(self, seat: _Seat) -> None:
        if seat.idle is not None:
            seat.idle.cancel()
        seat.questions.close()
        await seat.client.close()
        self._publish()

    def _set_timer(self, app_id: str, seat: _Seat, *, running: bool) -> None:
        if seat.idle is not None:
            seat.idle.cancel()
        loop = asyncio.get_running_loop()
        seat.idle = loop.call_later(self._idle_s, self._expire, app_id, seat) if running else None

    def _expire(self, app_id: str, seat: _Seat) -> None:
        if self._lazy and seat.client.is_used:
            self._set_timer(app_id, seat, running=True)
        elif self._lazy or seat.client.state != "connected":
            self.drop(app_id)

    def _publish(self) -> None:
        for seat in self._seats.values():
            seat.state = seat.look(self._clock)
        # Apps come in the order in which they were wanted: a list that a model reads stays put.
        world = World(
            tuple(seat.state for seat in self._seats.values()),
            tuple(
                _available(item)
                for app_id, item in self._found.items()
                if app_id not in self._seats
            ),
        )
        if not _is_same(world, self.world):
            self.world = world
            self._changed.fire()

    def _may_connect(self, descriptor: Descriptor) -> bool:
        return not isinstance(descriptor.transport, Stdio) or self._consent(descriptor)


def _is_same(a: World, b: World) -> bool:
    """Tell whether nothing is new; a seat that shows nothing new keeps its state."""
    return (
        len(a.apps) == len(b.apps)
        and all(map(operator.is_, a.apps, b.apps))
        and a.available == b.available
    )


def _available(descriptor: Descriptor) -> AvailableApp:
    kind = descriptor.transport.__struct_config__.tag
    return AvailableApp(
        descriptor.id, descriptor.name, str(kind), "local", descriptor.description or ""
    )
