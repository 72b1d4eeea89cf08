"""A turn can be cancelled at any point, in any way, and leaves a conversation that goes on."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from agent.host.helpers import check_ledger, ended, hosted, invoke, turn
from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel, Stall
from sightline.context.messages.parts import ToolCall
from sightline.errors import NotFound
from sightline.events import ApprovalAsked, HostEvent, TurnEnded
from support.live import LiveApp


def script() -> list[object]:
    """A turn with everything in it: words, reads side by side, an approval, an answer."""
    return [
        [
            "I look ",
            ToolCall("q1", "slop_query", {"app": "live"}),
            ToolCall("q2", "query_db", {"sql": "SELECT 1"}),
            invoke("c1", "/", "count"),
        ],
        ["and again", ToolCall("q3", "describe_db", {})],
        "all done",
    ]


async def ask(host: Host, events: list[HostEvent], cancel_at: int = -1) -> None:
    async for event in host.ask("go"):
        events.append(event)
        if len(events) - 1 == cancel_at:
            host.cancel()
        if isinstance(event, ApprovalAsked):
            with contextlib.suppress(NotFound):  # cancelled meanwhile
                host.answer(event.call_id, approved=True)


async def check_that_it_goes_on(host: Host, model: ScriptedModel, directory: Path) -> None:
    assert not host.busy
    session = host.session.id
    if host.ledger.sessions.get(session).groups:
        check_ledger(directory, session)
    model._script.clear()
    model.add("still here")
    assert ended(await turn(host, "are you there?")).text == "still here"
    check_ledger(directory, session)
    model._script.clear()
    await host.new_session()


async def test_after_every_event(tmp_path: Path) -> None:
    async with hosted(tmp_path, app=LiveApp()) as (host, model):
        model.add(*script())  # type: ignore[arg-type]  # entries
        whole: list[HostEvent] = []
        await ask(host, whole)
        assert ended(whole).text == "all done"
        await host.new_session()
        for index in range(len(whole) - 1):
            model.add(*script())  # type: ignore[arg-type]  # entries
            events: list[HostEvent] = []
            await ask(host, events, cancel_at=index)
            assert [type(e) for e in events].count(TurnEnded) == 1
            # The machine may be ahead of its reader: at the very end there is nothing to cancel.
            assert ended(events).outcome in ("cancelled", "answered")
            await check_that_it_goes_on(host, model, tmp_path)


POINTS = [*range(12), *range(12, 60, 6), 100, 200, 400, 800, 1600, 3200]


@pytest.mark.parametrize("how", ["host", "task"])
async def test_after_any_number_of_steps_of_the_loop(tmp_path: Path, how: str) -> None:
    async with hosted(tmp_path, app=LiveApp()) as (host, model):
        for steps in POINTS:
            model.add(*script())  # type: ignore[arg-type]  # entries
            events: list[HostEvent] = []
            task = asyncio.create_task(ask(host, events))
            for _ in range(steps):
                await asyncio.sleep(0)
            if how == "host":
                host.cancel()
                await task
                assert [type(e) for e in events].count(TurnEnded) == 1
                assert isinstance(events[-1], TurnEnded)
            else:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await check_that_it_goes_on(host, model, tmp_path)


async def test_closing_the_host_ends_its_turn(tmp_path: Path) -> None:
    async with hosted(tmp_path, [Stall("I was ")]) as (host, model):
        stream = host.ask("go")
        async for event in stream:
            if type(event).__name__ == "TextDelta":
                break
        session = host.session.id
    assert model.abandoned == 1
    check_ledger(tmp_path, session)
    await stream.aclose()  # type: ignore[attr-defined]  # a generator has it
