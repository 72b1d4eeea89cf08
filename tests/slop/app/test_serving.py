"""The serving loop over an in-memory link: order, fairness, and an end that frees everything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import count

from sightline.slop.app.serving import Serving
from sightline.slop.protocol.connection import Connection, InvokeRequested, QueryRequested
from sightline.slop.protocol.consumer import Connected, Consumer, InvokeAnswered, MirrorChanged
from sightline.slop.protocol.messages import ProviderInfo
from sightline.slop.protocol.provider import CAPABILITIES, Provider
from sightline.slop.protocol.tree import Node
from sightline.slop.transports.link import Link, Outgoing, Peer
from sightline.slop.transports.memory import memory_pair

TREE = Node.of(
    "app", "root", properties={"n": 0}, affordances=[{"action": "count"}], children=[]
)  # fmt: skip


class Counter:
    """An app of one number and one action."""

    def __init__(self) -> None:
        info = ProviderInfo("counter", "Counter", capabilities=CAPABILITIES, epoch="1")
        self.provider = Provider(info, TREE)
        self.serving = Serving(self.provider, self.invoke, coalesce_s=0)
        self.n = 0

    async def invoke(self, connection: Connection, request: InvokeRequested) -> None:
        self.n += 1
        self.provider.publish(TREE.with_property("n", self.n))
        connection.send_result(request.id, {"n": self.n})


async def pump(consumer: Consumer, link: Link, until: type) -> list[object]:
    """Let a consumer talk over a link until something happens; returns all that happened."""
    happened: list[object] = []
    while not any(isinstance(event, until) for event in happened):
        if frames := consumer.frames_to_send():
            await link.send(frames)
        message = await link.receive()
        assert message is not None
        happened.extend(consumer.receive(message))
    if frames := consumer.frames_to_send():
        await link.send(frames)
    return happened


async def test_patches_come_before_the_result_that_they_explain() -> None:
    app = Counter()
    ours, theirs = memory_pair()
    serving = asyncio.create_task(app.serving.serve(theirs))
    consumer = Consumer()
    consumer.subscribe("/")
    await pump(consumer, ours, Connected)
    await pump(consumer, ours, MirrorChanged)
    consumer.invoke("/", "count")
    happened = await pump(consumer, ours, InvokeAnswered)
    assert [type(event) for event in happened] == [MirrorChanged, InvokeAnswered]
    await ours.close()
    await serving


async def test_a_published_tree_reaches_the_mirror() -> None:
    app = Counter()
    ours, theirs = memory_pair()
    serving = asyncio.create_task(app.serving.serve(theirs))
    consumer = Consumer()
    own = consumer.subscribe("/")
    await pump(consumer, ours, MirrorChanged)
    await asyncio.to_thread(app.provider.publish, TREE.with_property("n", 9))
    await asyncio.to_thread(app.serving.changed)
    await pump(consumer, ours, MirrorChanged)
    mirror = consumer.mirrors[own].tree
    assert mirror is not None
    assert mirror.properties == {"n": 9}
    await ours.close()
    await serving
    assert app.provider.connect().has_output


class Quick:
    """A link that takes everything at once, and notes whom it was for."""

    peer = Peer("test")

    def __init__(self, number: int, taken: list[tuple[int, str]]) -> None:
        self.number = number
        self.taken = taken
        self.asked = [b'{"type":"subscribe","id":"s"}']
        self.closed = asyncio.Event()

    def put(self, message: bytes) -> bool:
        self.taken.append((self.number, json.loads(message)["type"]))
        return True

    async def send(self, messages: Sequence[Outgoing]) -> None:
        for message in messages:
            assert isinstance(message, bytes)
            assert json.loads(message)["type"] == "snapshot"
            self.put(message)

    async def receive(self) -> bytes | None:
        if self.asked:
            return self.asked.pop()
        await self.closed.wait()
        return None

    async def close(self, reason: str = "") -> None:
        """Nothing to close."""


async def test_one_change_for_many_readers_leaves_turns_for_everybody_else() -> None:
    app = Counter()
    ticks = count()
    serving = Serving(app.provider, app.invoke, coalesce_s=0, work_clock=lambda: float(next(ticks)))
    taken: list[tuple[int, str]] = []
    links = [Quick(number, taken) for number in range(100)]
    tasks = [asyncio.create_task(serving.serve(link)) for link in links]
    while len(taken) < 2 * len(links):
        await asyncio.sleep(0)
    taken.clear()
    app.provider.publish(TREE.with_property("n", 1))
    serving.changed()
    most_in_a_turn = 0
    while len(taken) < len(links):
        before = len(taken)
        await asyncio.sleep(0)
        most_in_a_turn = max(most_in_a_turn, len(taken) - before)
    assert most_in_a_turn <= 16
    assert sorted(taken) == [(number, "patch") for number in range(len(links))]
    for link in links:
        link.closed.set()
    await asyncio.gather(*tasks)


async def test_cancelling_ends_the_link() -> None:
    app = Counter()
    ours, theirs = memory_pair()
    serving = asyncio.create_task(app.serving.serve(theirs))
    assert await ours.receive() is not None
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert await ours.receive() is None


async def test_a_consumer_that_only_asks_is_not_listened_to_without_end() -> None:
    app = Counter()
    running = most = 0
    go_on = asyncio.Event()

    async def slow(connection: Connection, request: QueryRequested) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1
        connection.answer_query(request.query)

    serving = Serving(app.provider, app.invoke, slow, coalesce_s=0)
    ours, theirs = memory_pair(window_bytes=1 << 30)
    task = asyncio.create_task(serving.serve(theirs))
    asked = [b'{"type":"query","id":"q%d","depth":0}' % n for n in range(1000)]
    await ours.send(asked)
    assert await ours.receive() is not None  # hello
    while not running:
        await asyncio.sleep(0)
    assert len(theirs._inbox) > 1000 - 100
    go_on.set()
    answers = [json.loads(await ours.receive() or b"") for _ in asked]
    assert [answer["id"] for answer in answers] == [f"q{n}" for n in range(1000)]
    assert most <= 4
    await ours.close()
    await task
