"""A provider that is stopped, or hangs, is not shown as live; it is again when it speaks.

Nothing here waits for time to pass: what takes its time is waited for by what it changes.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sightline.context.projection.tail import render_state
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Backoff, Client, Lost, Silent
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.consumer import ConsumerEvent, QueryAnswered
from sightline.slop.protocol.world import AppState
from sightline.slop.transports.link import Link
from sightline.slop.transports.memory import memory_pair
from support.live import LiveApp, process
from support.wire import Wire

NOW = datetime(2026, 4, 28, 10, 30, tzinfo=UTC)
SOON = Backoff(first_s=0.001, max_s=0.05)
LIMIT_S = 60.0


async def until(hub: Hub, holds: Callable[[AppState], bool]) -> AppState:
    async for world in hub.changes():
        if world.apps and holds(world.apps[0]):
            return world.apps[0]
    raise AssertionError("the hub has ended")


def is_shown_as(status: str) -> Callable[[AppState], bool]:
    return lambda app: app.status == status


@pytest.mark.parametrize("transport", ["ws", "unix"])
async def test_an_app_that_is_stopped_is_not_live_until_it_goes_on(
    transport: str, tmp_path: Path
) -> None:
    place = ["--ws", "0"] if transport == "ws" else ["--unix", str(tmp_path / "app.sock")]
    hub = Hub(backoff=SOON, silent_s=0.2, clock=lambda: NOW)
    async with asyncio.timeout(LIMIT_S), process(*place, module="support.real") as started, hub:
        hub.add("mail", dial_address(started.address))
        shown = await until(hub, is_shown_as("connected"))
        started.process.send_signal(signal.SIGSTOP)
        silent = await until(hub, is_shown_as("disconnected"))
        assert silent.tree is shown.tree
        assert silent.reason.startswith("it is connected, and has given no sign of life for")
        assert silent.last_seen is not None
        assert silent.last_seen <= "2026-04-28T10:30:00Z"
        state = render_state(hub.world, NOW)
        assert f"### Live (mail)\nstatus: disconnected, last seen {silent.last_seen}\n" in state
        assert "inbox" not in state
        started.process.send_signal(signal.SIGCONT)
        await until(hub, is_shown_as("connected"))
        assert (await hub.invoke("mail", "/", "count")).data == {"n": 1}
        counted = await until(
            hub, lambda app: app.tree is not None and app.tree.properties["n"] == 1
        )
        assert counted.last_seen is None


async def test_an_app_whose_loop_hangs_is_not_live(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from sightline import App\n"
        "app = App('busy', 'Busy')\n"
        "@app.action('/', 'hang')\n"
        "async def hang():\n"
        "    time.sleep(3600)\n"
        "app.serve(directory=pathlib.Path(sys.argv[1]), unix=sys.argv[2])\n"
    )
    socket = tmp_path / "busy.sock"
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path / "apps"), str(socket),
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert program.stderr is not None
        async with asyncio.timeout(LIMIT_S), Hub(backoff=SOON, silent_s=0.2) as hub:
            await program.stderr.readline()
            hub.add("busy", dial_address(f"unix:{socket}"))
            await until(hub, is_shown_as("connected"))
            asked = asyncio.create_task(hub.invoke("busy", "/", "hang"))
            lost = await until(hub, is_shown_as("disconnected"))
            assert "no sign of life" in lost.reason
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
    finally:
        program.kill()
        await program.communicate()


class Pulse:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.waits = asyncio.Semaphore(0)
        self.asked: asyncio.Queue[float] = asyncio.Queue()

    async def __call__(self, seconds: float) -> None:
        self.asked.put_nowait(seconds)
        await self.waits.acquire()

    async def passes(self) -> None:
        """Let the wait under way end, and see that the next has begun."""
        self.waits.release()
        assert await self.asked.get() == 15.0


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[Client, Wire, Pulse, list[object]]]:
    """A client, and the provider's end of its connection."""
    ours, theirs = memory_pair()
    wire, pulse = Wire(theirs), Pulse()
    told: list[object] = []

    async def dial() -> Link:
        return ours

    client = Client(dial, reconnect=False, pulse=pulse)
    client.listen(lambda event: told.append(event) if isinstance(event, Silent | Lost) else None)
    async with asyncio.timeout(LIMIT_S), client:
        about = {"id": "mail", "name": "Mail", "slop_version": "0.1", "capabilities": ["state"]}
        await wire.send({"type": "hello", "provider": about})
        await client.ready()
        assert await pulse.asked.get() == 15.0
        yield client, wire, pulse, told


async def test_a_quiet_provider_is_asked_for_one_node_and_any_word_will_do() -> None:
    async with scripted() as (client, wire, pulse, told):
        await pulse.passes()
        asked = await wire.receive()
        assert asked == {"type": "query", "id": asked["id"], "depth": 0, "max_nodes": 1}
        await wire.send({"type": "error", "id": asked["id"], "error": {"code": "x", "message": ""}})
        await _heard(client)
        await pulse.passes()
        assert told == []
        assert not client.is_silent


async def test_a_silent_provider_is_asked_once_and_is_live_again_with_its_next_word() -> None:
    async with scripted() as (client, wire, pulse, told):
        watch = client.subscribe()
        await wire.receive()
        tree = {"id": "r", "type": "root"}
        await wire.send({"type": "snapshot", "id": watch.id, "version": 1, "seq": 0, "tree": tree})
        await watch.first(LIMIT_S)
        await pulse.passes()  # something came in this time
        await pulse.passes()
        asked = await wire.receive()
        await pulse.passes()
        assert (client.is_silent, client.state, watch.is_current) == (True, "connected", False)
        assert told == [Silent(True)]
        for _ in range(3):
            await pulse.passes()
        late = client.subscribe("/late")
        assert not late.is_connected
        assert (await wire.receive())["type"] == "subscribe"  # and no second question before it
        await wire.send({"type": "snapshot", "id": asked["id"], "version": 1, "tree": tree})
        await _heard(client)
        assert (client.is_silent, watch.is_current, told) == (
            False,
            True,
            [Silent(True), Silent(False)],
        )


async def _heard(client: Client) -> None:
    """Wait until the client has taken a message."""
    taken = asyncio.Event()
    stop = client.listen(lambda _: taken.set())
    await taken.wait()
    stop()


async def test_a_live_app_answers_and_stays() -> None:
    pulse, app = Pulse(), LiveApp()
    answers: asyncio.Queue[ConsumerEvent] = asyncio.Queue()

    async def dial() -> Link:
        ours, theirs = memory_pair()
        serving.append(asyncio.create_task(app.handle(theirs)))
        return ours

    serving: list[asyncio.Task[None]] = []
    client = Client(dial, reconnect=False, pulse=pulse)
    client.listen(
        lambda event: answers.put_nowait(event) if isinstance(event, QueryAnswered) else None
    )
    async with asyncio.timeout(LIMIT_S), client:
        await client.ready()
        await pulse.asked.get()
        await pulse.passes()  # the hello came in this time
        for _ in range(3):
            await pulse.passes()
            await answers.get()
            await pulse.passes()
            assert not client.is_silent
    await asyncio.gather(*serving)
