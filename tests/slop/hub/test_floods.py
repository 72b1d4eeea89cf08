"""An app that floods its host is read in turns, and let go with a reason that is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from sightline.errors import LetGo
from sightline.slop.hub.client import Client
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.patience import Patience
from sightline.slop.protocol.pieces import Steps
from sightline.slop.transports.pace import STEP_S, Pace
from support.floods import FloodingApp, host_floods

HASTY = Patience(busy_s=0.05, busy_share=0.02, held_s=0.1, faults=5)


@pytest.mark.parametrize("kind", ["a nested array", "unknown fields", "events", "rubbish"])
async def test_a_flood_ends_with_a_notice_and_not_at_once_again(kind: str, tmp_path: Path) -> None:
    flood = FloodingApp(tmp_path / "s", host_floods(0.05)[kind], 1 << 30)
    flood.start()
    reason = ""
    async with Hub(patience=HASTY) as hub:
        hub.add("flood", flood.dial)
        async for world in hub.changes():
            [app] = world.apps
            if app.status == "disconnected":
                reason = app.reason
                break
    flood.stop()
    assert reason.startswith("let go: ")


def misnumbered(own: str, number: int) -> bytes:
    """A small snapshot, and a patch whose seq is not the next one."""
    snapshot = (
        b'{"type":"snapshot","id":"%b","version":%d,"seq":0,"tree":{"id":"r","type":"root"}}\n'
    )
    patch = b'{"type":"patch","subscription":"%b","version":%d,"seq":99,"ops":[]}\n'
    name, version = own.encode(), 2 * number
    return snapshot % (name, version) + patch % (name, version + 1)


async def test_an_app_whose_patches_never_follow_is_not_asked_without_end(tmp_path: Path) -> None:
    flood = FloodingApp(tmp_path / "s", misnumbered, 1 << 30)
    flood.start()
    async with Hub(patience=Patience(faults=5)) as hub:
        hub.add("flood", flood.dial)
        async for world in hub.changes():
            [app] = world.apps
            if app.status == "disconnected":
                assert app.reason == "let go: it sent more than 5 faulty messages in 60 s"
                break
    flood.stop()


async def test_an_app_that_was_let_go_rests_whatever_it_announces(tmp_path: Path) -> None:
    flood = FloodingApp(tmp_path / "s", host_floods(0.05)["rubbish"], 1 << 30)
    flood.start()
    rests: list[float] = []
    asleep = asyncio.Event()

    async def sleep(delay_s: float) -> None:
        rests.append(delay_s)
        asleep.set()
        await asyncio.Event().wait()

    async with Client(flood.dial, patience=HASTY, sleep=sleep) as client:
        client.subscribe("/")
        await asleep.wait()
        client.retry_now()
        await asyncio.sleep(0)
        assert isinstance(client.error, LetGo)
    flood.stop()
    assert rests == [HASTY.rest_s]


def test_work_in_steps_gives_others_a_turn_after_each_few_milliseconds() -> None:
    now = 0.0

    def ticks() -> float:
        return now

    def steps() -> Steps[str]:
        nonlocal now
        for _ in range(100):
            now += STEP_S / 4
            yield
        return "done"

    async def both() -> tuple[str, int]:
        turns = 0

        async def other(work: Awaitable[str]) -> str:
            nonlocal turns
            doing = asyncio.ensure_future(work)
            while not doing.done():
                await asyncio.sleep(0)
                turns += 1
            return await doing

        done = await other(Pace(Patience(), work_clock=ticks, clock=lambda: 0.0).run(steps()))
        return done, turns

    done, turns = asyncio.run(both())
    assert done == "done"
    assert turns >= 25


async def test_who_was_woken_meanwhile_comes_before_more_work() -> None:
    now = 0.0
    woken = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def other() -> None:
        await woken
        seen.append("other")

    def steps() -> Steps[None]:
        nonlocal now
        asyncio.get_running_loop().call_soon(woken.set_result, None)
        now += STEP_S
        yield
        seen.append("more work")

    waiting = asyncio.create_task(other())
    await asyncio.sleep(0)
    await Pace(Patience(), work_clock=lambda: now, clock=lambda: 0.0).run(steps())
    await waiting
    assert seen == ["other", "more work"]
