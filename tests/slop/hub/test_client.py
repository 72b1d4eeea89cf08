"""One provider, for as long as it is wanted: requests, mirrors, loss and return."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from sightline.errors import (
    ActionFailed,
    RequestRefused,
    SightlineError,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from sightline.slop.hub.client import Backoff, Client, Lost, Silent
from sightline.slop.hub.watch import Watch
from sightline.slop.protocol.consumer import Connected, ConsumerEvent, EventArrived
from sightline.slop.transports.link import Link, LinkClosed, Outgoing, Peer
from sightline.slop.transports.memory import memory_pair
from support.live import TRANSPORTS, LiveApp, served
from support.wire import PATIENCE_S, Wire

SOON = Backoff(first_s=0.001, max_s=0.05)


def is_current(watch: Watch) -> bool:
    """As a function, for the answer is another one each time."""
    return watch.is_current


@pytest.fixture(params=TRANSPORTS)
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    """A connected client over each transport."""
    async with served(request.param, tmp_path) as dial, Client(dial, backoff=SOON) as client:
        await client.ready()
        yield client


async def test_requests_are_answered(client: Client) -> None:
    tree = await client.query("/inbox", depth=1)
    assert [child.id for child in tree.children] == ["msg-1", "msg-2", "msg-3"]
    window = await client.query("/inbox", depth=1, window=(1, 1))
    assert [child.id for child in window.children] == ["msg-2"]
    outcome = await client.invoke("/", "echo", {"some": ["thing", None]})
    assert (outcome.status, outcome.data) == ("ok", {"some": ["thing", None]})


async def test_refusals_are_typed(client: Client) -> None:
    with pytest.raises(RequestRefused, match="not_found") as refused:
        await client.query("/nowhere")
    assert refused.value.reason == "not_found"
    with pytest.raises(ActionFailed, match="conflict: not now") as failed:
        await client.invoke("/", "fail")
    assert failed.value.reason == "conflict"
    with pytest.raises(ActionFailed, match="not_found"):
        await client.invoke("/inbox", "explode")


async def test_a_watch_follows_the_provider(client: Client) -> None:
    watch = client.subscribe("/inbox")
    tree = await watch.first(PATIENCE_S)
    assert len(tree.children) == 3
    changes = watch.changes()
    assert await anext(changes) is tree
    await client.invoke("/inbox/msg-2", "archive")
    after = await anext(changes)
    assert [child.id for child in after.children] == ["msg-1", "msg-3"]
    assert watch.is_current
    watch.close()
    with pytest.raises(StopAsyncIteration):
        await anext(changes)


async def test_a_subscription_to_nothing_says_so(client: Client) -> None:
    watch = client.subscribe("/nowhere")
    with pytest.raises(RequestRefused, match="not_found"):
        await watch.first(PATIENCE_S)


async def test_events_reach_listeners(client: Client) -> None:
    heard: list[ConsumerEvent | Lost | Silent] = []
    stop = client.listen(heard.append)
    await client.invoke("/", "notify", {"n": 1})
    stop()
    await client.invoke("/", "notify", {"n": 2})
    assert [event for event in heard if isinstance(event, EventArrived)] == [
        EventArrived("ping", {"n": 1})
    ]


async def test_an_invoke_that_takes_too_long_is_given_up_and_the_connection_is_not(
    client: Client,
) -> None:
    with pytest.raises(TimedOut, match=r"0\.01 s"):
        await client.invoke("/", "hang", timeout_s=0.01)
    assert (await client.invoke("/", "count")).data == {"n": 1}


class Clinging:
    """A link that does not let go when it is closed, before it is told to."""

    def __init__(self, link: Link) -> None:
        self.peer = link.peer
        self.receive = link.receive
        self.send = link.send
        self.let_go = asyncio.Event()

    async def close(self, reason: str = "") -> None:
        await self.let_go.wait()


async def test_callers_do_not_wait_for_the_link_to_let_go() -> None:
    ours, theirs = memory_pair()
    clinging = Clinging(ours)

    async def dial() -> Link:
        return clinging

    async with Client(dial, reconnect=False) as client:
        wire = Wire(theirs)
        await wire.send({"type": "hello", "provider": {"id": "a", "name": "A"}})
        call = asyncio.create_task(client.invoke("/", "go"))
        await wire.expect("invoke")
        await theirs.close()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(Unreachable, match="gone"):
                await call
        clinging.let_go.set()


class Line:
    """A line between a client and an app that a test can cut and mend."""

    def __init__(self, app: LiveApp) -> None:
        self.app = app
        self.up = True
        self.said: list[bytes] = []
        self._links: list[Link] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def dial(self) -> Link:
        if not self.up:
            raise Unreachable("the line is down")
        ours, theirs = memory_pair()
        self._links.append(ours)
        self._tasks.append(asyncio.create_task(self.app.handle(_Tap(theirs, self.said))))
        return ours

    async def cut(self) -> None:
        for link in self._links:
            await link.close()
        await asyncio.gather(*self._tasks)
        self._links.clear()
        self._tasks.clear()


class _Tap:
    """A link that notes what is said to the provider."""

    def __init__(self, link: Link, said: list[bytes]) -> None:
        self.peer = link.peer
        self.send = link.send
        self.close = link.close
        self._receive = link.receive
        self._said = said

    async def receive(self) -> bytes | None:
        message = await self._receive()
        if message is not None:
            self._said.append(message)
        return message


class Clock:
    """A sleep that lasts until the test says so, and a chance that is none."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[float] = asyncio.Queue()
        self._over = asyncio.Event()

    async def sleep(self, delay_s: float) -> None:
        self._over.clear()
        self.asked.put_nowait(delay_s)
        await self._over.wait()

    def end(self) -> None:
        self._over.set()


class Deaf:
    """A link that ends at once, and is not interrupted while it closes."""

    def __init__(self) -> None:
        self.peer = Peer("memory")
        self.closing = asyncio.Event()

    async def receive(self) -> bytes | None:
        return None

    async def send(self, messages: Sequence[Outgoing]) -> None:
        raise LinkClosed("nobody is there")

    async def close(self, reason: str = "") -> None:
        self.closing.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def test_a_client_ends_even_if_its_link_swallows_the_interruption() -> None:
    deaf = Deaf()

    async def dial() -> Link:
        return deaf

    async with asyncio.timeout(PATIENCE_S), Client(dial, backoff=SOON):
        await deaf.closing.wait()


async def test_attempts_are_further_and_further_apart_until_one_succeeds() -> None:
    line, clock = Line(LiveApp()), Clock()
    line.up = False
    client = Client(line.dial, backoff=Backoff(0.1, 2, 1), sleep=clock.sleep, chance=lambda: 0.5)
    delays = []
    async with client:
        for _ in range(6):
            delays.append(await clock.asked.get())
            clock.end()
        assert delays == pytest.approx([0.075, 0.15, 0.3, 0.6, 0.75, 0.75])
        await clock.asked.get()
        line.up = True
        connected = asyncio.Event()
        client.listen(lambda event: connected.set() if isinstance(event, Connected) else None)
        client.retry_now()
        await connected.wait()
        await line.cut()
        assert await clock.asked.get() == pytest.approx(0.075)


async def test_between_attempts_a_request_fails_at_once() -> None:
    line, clock = Line(LiveApp()), Clock()
    line.up = False
    async with Client(line.dial, sleep=clock.sleep) as client:
        with pytest.raises(Unreachable, match="the line is down"):
            await client.query()
        await clock.asked.get()
        with pytest.raises(Unreachable, match="the line is down"):
            await client.invoke("/", "count")


async def test_a_subscription_goes_on_where_it_was() -> None:
    line, clock = Line(LiveApp()), Clock()
    async with Client(line.dial, sleep=clock.sleep) as client:
        watch = client.subscribe()
        await watch.first(PATIENCE_S)
        await client.invoke("/", "count")
        await line.cut()
        await clock.asked.get()
        assert not is_current(watch)
        line.app.publish(line.app.tree.with_property("n", 7))
        del line.said[:]
        clock.end()
        async with asyncio.timeout(PATIENCE_S):
            async for tree in watch.changes():
                if tree.properties == {"n": 7}:
                    break
        assert is_current(watch)
        assert b'"resume":{"epoch":"1","version":1,"seq":1}' in line.said[0]
        await line.cut()


async def test_a_snapshot_that_does_not_come_is_asked_for_again() -> None:
    ours, theirs = memory_pair()

    async def dial() -> Link:
        return ours

    ours.peer = Peer("memory", start_s=PATIENCE_S)  # so long the hello may take
    async with Client(dial, handshake_s=0.05) as client:
        watch = client.subscribe()
        wire = Wire(theirs)
        await wire.send({"type": "hello", "provider": {"id": "a", "name": "A"}})
        first = await wire.expect("subscribe")
        assert await wire.expect("unsubscribe") == {"type": "unsubscribe", "id": watch.id}
        assert await wire.expect("subscribe") == first
        tree = {"id": "a", "type": "root"}
        await wire.send({"type": "snapshot", "id": watch.id, "version": 1, "seq": 0, "tree": tree})
        assert (await watch.first(PATIENCE_S)).id == "a"


async def test_a_provider_that_never_says_hello_is_given_up() -> None:
    ours, _ = memory_pair()

    async def dial() -> Link:
        return ours

    async with Client(dial, handshake_s=0.01, reconnect=False) as client:
        with pytest.raises(TimedOut, match="no hello"):
            await client.ready()
        assert client.state == "closed"


def refusal(code: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"code": code, "message": message}}


@pytest.mark.parametrize(
    ("said", "kind", "exit_code", "reason"),
    [
        (refusal("unauthorized", "bring a token"), Unauthorized, 3, "unauthorized: bring a token"),
        (refusal("conflict", "we are full"), RequestRefused, 2, "conflict: we are full"),
        (refusal("unauthorized", "x" * 9000), Unauthorized, 3, f"unauthorized: {'x' * 300}…"),
        ({**refusal("unauthorized", "no"), "id": "q-1"}, Unreachable, 4, "the connection is gone"),
    ],
    ids=["unauthorized", "another code", "too long", "an answer to something"],
)
async def test_who_is_turned_away_before_hello_is_told_why(
    said: dict[str, object], kind: type[SightlineError], exit_code: int, reason: str
) -> None:
    ours, theirs = memory_pair()

    async def dial() -> Link:
        return ours

    async with Client(dial, reconnect=False) as client:
        await Wire(theirs).send(said)
        await theirs.close()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(SightlineError) as gone:
                await client.query()
        assert (type(gone.value), gone.value.exit_code) == (kind, exit_code)
        assert str(gone.value) == reason


async def test_who_is_turned_away_and_not_hung_up_on_is_told_why() -> None:
    ours, theirs = memory_pair()

    async def dial() -> Link:
        return ours

    await Wire(theirs).send(refusal("unauthorized", "bring a token"))
    async with Client(dial, handshake_s=0.01, reconnect=False) as client:
        with pytest.raises(Unauthorized, match="bring a token"):
            await client.ready()


async def test_a_refusal_does_not_outlive_the_connection_that_it_ended() -> None:
    pairs = [memory_pair() for _ in range(3)]
    dialled = iter(pairs)
    clock = Clock()

    async def dial() -> Link:
        return next(dialled)[0]

    (_, first), (_, second), (_, third) = pairs
    async with Client(dial, sleep=clock.sleep) as client, asyncio.timeout(PATIENCE_S):
        await Wire(first).send(refusal("unauthorized", "bring a token"))
        await first.close()
        await clock.asked.get()
        assert isinstance(client.error, Unauthorized)
        await Wire(second).send(
            refusal("unauthorized", "not yet"),
            {"type": "hello", "provider": {"id": "a", "name": "A"}},
            refusal("unauthorized", "of something else"),
        )
        await second.close()
        clock.end()
        await clock.asked.get()
        assert str(client.error) == "the connection is gone"
        await third.close()
        clock.end()
        await clock.asked.get()
        assert str(client.error) == "the connection is gone"


async def test_what_a_provider_says_wrong_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = memory_pair()

    async def dial() -> Link:
        return ours

    async with Client(dial) as client:
        wire = Wire(theirs)
        await wire.send(b"nonsense", {"type": "hello", "provider": {"id": "a", "name": "A"}})
        asked = asyncio.create_task(client.query())
        query = await wire.expect("query")
        bad = {"id": "a", "type": "root", "children": [{"id": "x/y", "type": "item"}]}
        await wire.send({"type": "snapshot", "id": query["id"], "version": 1, "tree": bad})
        with pytest.raises(RequestRefused, match="illegal tree"):
            await asked
    assert "not JSON" in caplog.text


async def test_a_first_snapshot_is_not_waited_for_without_end() -> None:
    line = Line(LiveApp())
    line.up = False
    async with Client(line.dial) as client:
        with pytest.raises(TimedOut, match="no snapshot"):
            await client.subscribe().first(0.01)


async def test_closing_fails_what_waits() -> None:
    line = Line(LiveApp())
    client = Client(line.dial)
    client.start()
    call = asyncio.create_task(client.invoke("/", "hang"))
    watch = client.subscribe("/nowhere")
    await client.ready()
    await client.close()
    with pytest.raises(Unreachable, match="closed"):
        await call
    with pytest.raises(Unreachable, match="closed"):
        await client.query()
    assert [tree async for tree in watch.changes()] == []
    await line.cut()
