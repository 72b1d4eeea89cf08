"""A provider that is killed, and one whose line is cut: a real app, over real sockets.

Nothing here waits for time to pass. Callers fail when the connection is lost, and the
limit of their calls is an hour: nothing but the loss could have ended them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sightline.errors import SightlineError, Unreachable
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Backoff, Client, Lost, Silent
from sightline.slop.hub.hub import Hub
from sightline.slop.hub.watch import Watch
from sightline.slop.protocol.consumer import Connected, ConsumerEvent, MirrorChanged
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState
from sightline.slop.transports.link import Link
from support.live import process
from support.real import Mailbox
from support.wire import PATIENCE_S

HOUR_S = 3600.0
SOON = Backoff(first_s=0.001, max_s=0.05)
SOCKETS = pytest.mark.parametrize("transport", ["ws", "unix"])


def place(transport: str, directory: Path) -> list[str]:
    return ["--ws", "0"] if transport == "ws" else ["--unix", str(directory / "app.sock")]


def same_place(address: str) -> list[str]:
    """Where a provider must listen to be found again."""
    if address.startswith("unix:"):
        return ["--unix", address.removeprefix("unix:")]
    return ["--ws", address.split(":")[2].split("/")[0]]


async def shows(watch: Watch, n: int) -> Node:
    """Wait until the provider is known to show a number."""
    async for tree in watch.changes():
        if watch.is_current and tree.properties.get("n") == n:
            return tree
    raise AssertionError("the watch has ended")


@SOCKETS
async def test_callers_fail_when_the_provider_is_killed_and_go_on_when_it_is_back(
    transport: str, tmp_path: Path
) -> None:
    heard: list[ConsumerEvent | Lost | Silent] = []
    async with asyncio.timeout(PATIENCE_S), process(
        *place(transport, tmp_path), module="support.real"
    ) as (provider, address):  # fmt: skip
        client = Client(dial_address(address), backoff=SOON, invoke_s=HOUR_S)
        client.listen(heard.append)
        async with client:
            watch, inbox = client.subscribe(), client.subscribe("/inbox", depth=1)
            calls = [asyncio.create_task(client.invoke("/", "hang")) for _ in range(20)]
            # Answered after the others were taken, so these are waited for by their handlers.
            assert (await client.invoke("/", "count")).data == {"n": 1}
            await client.invoke("/", "remove", {"path": "/inbox/msg-1"})
            await shows(watch, 1)
            first = client.provider

            provider.kill()
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(error) for error in ended} == {Unreachable}
            assert await provider.wait() == -9
            lost = next(event for event in heard if isinstance(event, Lost))
            assert str(lost.reason) == str(ended[0])
            assert watch.tree is not None
            assert not watch.is_current
            with pytest.raises(SightlineError):
                await client.invoke("/", "count")

            async with process(*same_place(address), module="support.real"):
                again = await shows(watch, 0)
                assert again.child("inbox") is not None
                assert client.provider is not None
                assert first is not None
                assert client.provider.epoch != first.epoch
                assert (await client.invoke("/", "count")).data == {"n": 1}
                await shows(watch, 1)
                await anext(_current(inbox))
                assert inbox.tree is not None
                [message, *_] = inbox.tree.children
                assert (message.id, len(message.children)) == ("msg-1", 0)
    assert sum(isinstance(event, Connected) for event in heard) == 2


async def _current(watch: Watch) -> AsyncIterator[Node]:
    async for tree in watch.changes():
        if watch.is_current:
            yield tree


@SOCKETS
async def test_a_subscription_whose_line_is_cut_resumes_with_what_it_missed(
    transport: str, tmp_path: Path
) -> None:
    app = Mailbox().app
    on_air = app.serving(
        port=0 if transport == "ws" else None,
        unix=False if transport == "ws" else tmp_path / "app.sock",
        discoverable=False,
        open=True,
    )
    links: list[Link] = []
    may_dial = asyncio.Event()
    may_dial.set()
    heard: list[MirrorChanged] = []
    async with asyncio.timeout(PATIENCE_S), on_air as [address]:

        async def dial() -> Link:
            await may_dial.wait()
            links.append(await dial_address(address)())
            return links[-1]

        async with Client(dial, backoff=SOON) as client, Client(dial_address(address)) as other:
            watch = client.subscribe()
            await client.invoke("/", "count")
            await shows(watch, 1)
            client.listen(
                lambda event: heard.append(event) if isinstance(event, MirrorChanged) else None
            )
            may_dial.clear()
            await links[0].close()
            for n in (2, 3):
                assert (await other.invoke("/", "count")).data == {"n": n}
            assert not watch.is_current
            may_dial.set()
            await shows(watch, 3)
            assert len(links) == 2
            assert [event.patched for event in heard] == [True]


@SOCKETS
async def test_a_hub_tells_that_an_app_was_killed_and_that_it_is_back(
    transport: str, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE_S), Hub(backoff=SOON) as hub:

        async def until(status: str) -> AppState:
            async for world in hub.changes():
                if world.apps and world.apps[0].status == status:
                    return world.apps[0]
            raise AssertionError("the hub has ended")

        async with process(*place(transport, tmp_path), module="support.real") as started:
            hub.add("mail", dial_address(started.address))
            shown = await until("connected")
            started.process.kill()
            lost = await until("disconnected")
            assert lost.tree is shown.tree
            assert lost.last_seen is not None
        async with process(*same_place(started.address), module="support.real"):
            await until("connected")
