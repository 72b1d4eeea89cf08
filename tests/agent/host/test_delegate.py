"""Tasks handed on: sessions of their own, one result each, ended with the turn that began them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.host.helpers import ALONE, check_ledger, ended, hosted, invoke, messages, of_kind, turn
from agent.host.test_recovery import go_on, kill_in
from agent.host.test_spending import PRICED
from sightline.agent.host import Host
from sightline.agent.models.scripted import Reply, ScriptedModel, Stall
from sightline.config import AppSettings, DelegateSettings, LimitSettings, Settings
from sightline.context.dialects.events import Usage
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import Request
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import ToolCall
from sightline.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    HostEvent,
    Noticed,
    SpendingAsked,
)
from sightline.inspector.reader import RecordReader
from support.live import LiveApp
from support.vendors.answers import Call, says
from support.vendors.server import Vendor

OFFERED = DelegateSettings(offer=True)


def task(number: int) -> ToolCall:
    return ToolCall(f"d{number}", "delegate", {"task": f"task {number}"})


def family(
    child: Callable[[Request, int], Any], tasks: int = 3, *, profile: Profile | None = None
) -> ScriptedModel:
    """A model that hands on tasks, and answers each of them as `child` says.

    `child` is given the request and how many results its session has had.
    """

    def answer(request: Request) -> Any:
        sent = json.loads(request.data)["messages"]
        results = sum(message["role"] == "tool" for message in sent)
        if "Another agent gave you this task" in request.data.decode():
            return child(request, results)
        calls = () if results else tuple(task(number) for number in range(1, tasks + 1))
        return Reply(text="" if calls else "Done.", calls=calls, usage=Usage(2_500, 0))

    return ScriptedModel([answer] * 40, profile=profile)


def results(directory: Path) -> dict[str, str]:
    """What came of the calls of the parent, each of which has one result."""
    check_ledger(directory)
    found = [result for message in messages(directory) for result in message.tool_results]
    calls = [call.id for message in messages(directory) for call in message.tool_calls]
    assert [result.call_id for result in found] == calls
    return {result.call_id: result.content for result in found}


def children(directory: Path) -> list[int]:
    """The sessions that the first one began; each is whole."""
    with Ledger(directory / "work.db", mode="read") as ledger:
        first, *others = ledger.sessions.family(1)
        assert {one.parent for one in others} <= {first.uuid}
    for other in others:
        check_ledger(directory, other.id)
    return [one.id for one in others]


async def test_three_work_at_once_over_the_wire_and_each_report_is_one_result(
    tmp_path: Path,
) -> None:
    calls = [Call("delegate", {"task": f"task {n}"}, id=f"call_{n}") for n in range(3)]
    answers = [says("On it.", *calls), *[says("A report.")] * 3, says("All done.")]
    with Vendor(*answers) as vendor:
        opening = Host.open(
            Settings(model="ollama:test", apps=ALONE, delegate=OFFERED),
            ledger=tmp_path / "work.db", env=vendor.environment(),
        )  # fmt: skip
        async with opening as host:
            events = await turn(host, "go")
    assert ended(events).text == "All done."
    assert len(vendor.requests) == 5
    found = results(tmp_path)
    numbers = children(tmp_path)
    assert sorted(found.values()) == [f"A report.\n(session {number})" for number in numbers]
    for number in numbers:
        question, report = messages(tmp_path, number)
        assert (question.role, report.text) == ("user", "A report.")
    tools = [{tool["function"]["name"] for tool in json.loads(seen.body)["tools"]}
             for seen in vendor.requests]  # fmt: skip
    assert ["delegate" in names for names in tools] == [True, False, False, False, True]


async def test_all_are_under_way_before_any_has_ended(tmp_path: Path) -> None:
    together = asyncio.Barrier(3)

    async def meet() -> str:
        await together.wait()
        return "Met."

    model = family(lambda *_: meet())
    async with hosted(tmp_path, model, delegate=OFFERED) as (host, _):
        assert ended(await turn(host)).outcome == "answered"
        sessions = host.ledger.sessions
        sessions.create("later")
        assert [one.session.id for one in sessions.overview()] == [5, 1]
        assert [one.session.id for one in sessions.overview(single=True)] == [5, 1, 2, 3, 4]
        shown = RecordReader(host.ledger).sessions()["sessions"]
        assert [one["title"][:2] for one in shown[1:3]] == ["hi", "↳ "]
        assert RecordReader(host.ledger).turns(2)["turns"][0]["status"] == "answered"
        sessions.delete(5, confirm="later")
        assert sessions.latest().id == 1
    assert len(results(tmp_path)) == len(children(tmp_path)) == 3


async def stopped(host: Host, model: ScriptedModel, requests: int) -> list[HostEvent]:
    """Cancel a turn once so many requests are under way."""

    async def cancel() -> None:
        while len(model.requests) < requests:
            await asyncio.sleep(0)
        host.cancel()

    cancelling = asyncio.create_task(cancel())
    events = [event async for event in host.ask("go")]
    await cancelling
    return events


async def test_stopping_the_parent_stops_them_and_their_results_say_so(tmp_path: Path) -> None:
    model = family(lambda *_: Stall("So far "))
    async with hosted(tmp_path, model, delegate=OFFERED) as (host, _):
        events = await stopped(host, model, 4)
        assert ended(events).outcome == "cancelled"
        assert model.abandoned == 3
        for number in children(tmp_path):
            assert host.ledger.work.owner(number) == ""
    for content in results(tmp_path).values():
        assert content.startswith("error: the task was not finished (session ")
        assert "): stopped by the user" in content


async def test_leaving_the_host_stops_them_too(tmp_path: Path) -> None:
    model = family(lambda *_: Stall("So far "), tasks=2)
    async with hosted(tmp_path, model, delegate=OFFERED) as (host, _):
        begun = 0
        async for event in host.ask("go"):
            begun += isinstance(event, Noticed) and event.code == "delegate"
            if begun == 2:
                break
    assert len(results(tmp_path)) == 2


async def test_a_budget_of_rounds_ends_a_task_and_not_the_turn(tmp_path: Path) -> None:
    def busy(_: Request, results: int) -> list[Any]:
        return ["Looking.", ToolCall(f"c{results}", "describe_db", {})]

    limited = replace(OFFERED, rounds=2)
    async with hosted(tmp_path, family(busy, tasks=1), delegate=limited) as (host, _):
        assert ended(await turn(host)).outcome == "answered"
    [report] = results(tmp_path).values()
    assert "a turn has 2 requests at most" in report
    assert "Its last words: Looking." in report


async def test_tokens_of_tasks_are_the_turns(tmp_path: Path) -> None:
    def spend(_: Request, results: int) -> Reply:
        calls = (ToolCall(f"c{results}", "describe_db", {}),)
        return Reply(text="Hm.", calls=calls, usage=Usage(9_000, 1_000))

    limits = LimitSettings(turn_tokens=24_000)
    async with hosted(tmp_path, family(spend, 2), limits=limits, delegate=OFFERED) as (host, model):
        end = ended(await turn(host))
    # Some 2,500 for the first request; then each task has half of what is left: one request.
    assert (end.outcome, end.code) == ("limit", "turn_tokens")
    assert all("tokens" in report for report in results(tmp_path).values())
    assert len(model.requests) == 3


def dear(_: Request, results: int) -> Reply:
    calls = (ToolCall("c1", "describe_db", {}),) if results == 0 else ()
    return Reply(text="Well.", calls=calls, usage=Usage(10, 4))


async def test_a_tasks_own_money_ends_it_without_asking(tmp_path: Path) -> None:
    chosen = replace(OFFERED, usd=3)
    model = family(dear, tasks=1, profile=PRICED)
    async with hosted(tmp_path, model, delegate=chosen) as (host, _):
        events = await turn(host)
    assert of_kind(events, SpendingAsked) == []
    [report] = results(tmp_path).values()
    assert "$4 of $3 (delegate.usd) spent in this task" in report


@pytest.mark.parametrize(
    ("agreed", "outcome", "asked"),
    [(True, "answered", [(8, 14), (16, 21)]), (False, "limit", [(8, 14)] * 3)],
)
async def test_what_tasks_spend_is_their_parents_and_a_yes_is_good_for_all(
    tmp_path: Path, agreed: bool, outcome: str, asked: list[tuple[float, float]]
) -> None:
    both = asyncio.Barrier(2)

    async def reply(request: Request, results: int) -> Reply:
        if results == 0:
            await both.wait()
        return dear(request, results)

    model = family(lambda request, results: reply(request, results), tasks=2, profile=PRICED)
    limits = LimitSettings(turn_usd=7)
    events: list[HostEvent] = []
    async with hosted(tmp_path, model, limits=limits, delegate=OFFERED) as (host, _):
        async for event in host.ask("go"):
            events.append(event)
            if isinstance(event, SpendingAsked):
                host.spend_more(agreed)
    assert ended(events).outcome == outcome
    questions = of_kind(events, SpendingAsked)
    assert {one.scope for one in questions} == {"turn"}
    assert [(round(one.spent_usd), one.raised_usd) for one in questions] == asked
    assert len(results(tmp_path)) == 2
    async with hosted(tmp_path, ["x"], session=1, limits=LimitSettings(session_usd=1)) as (host, _):
        [question] = [e for e in await spent_before(host) if isinstance(e, SpendingAsked)]
        assert question.spent_usd >= 8


async def spent_before(host: Host) -> list[HostEvent]:
    events: list[HostEvent] = []
    async for event in host.ask("hi"):
        events.append(event)
        if isinstance(event, SpendingAsked):
            host.spend_more(False)
    return events


def counting(_: Request, results: int) -> Any:
    return invoke("c1", "/", "count") if results == 0 else "Counted."


async def test_a_child_asks_the_user_through_its_parent_and_says_which_it_is(
    tmp_path: Path,
) -> None:
    asked: list[ApprovalAsked] = []
    async with hosted(tmp_path, family(counting), app=LiveApp(), delegate=OFFERED) as (host, _):
        events: list[HostEvent] = []
        async for event in host.ask("go"):
            events.append(event)
            if isinstance(event, ApprovalAsked):
                asked.append(event)
                host.answer(event.call_id, approved=True, remember=1)
        assert len(host.rules) == 1
    assert asked[0].delegate.startswith("session ")
    assert ": task " in asked[0].delegate
    answers = of_kind(events, ApprovalAnswered)
    assert [one.call_id for one in answers] == [one.call_id for one in asked]
    assert [one.ok for one in of_kind(events, CallFinished)] == [True] * 3
    assert all("Counted." in report for report in results(tmp_path).values())


async def test_an_answer_that_is_remembered_holds_for_children(tmp_path: Path) -> None:
    def answer(request: Request) -> Any:
        sent = json.loads(request.data)["messages"]
        results = sum(message["role"] == "tool" for message in sent)
        if "Another agent gave you this task" in request.data.decode():
            return counting(request, results)
        return (invoke("c0", "/", "count"), [task(1), task(2)], "", "Done.")[results]

    model = ScriptedModel([answer] * 10)
    async with hosted(tmp_path, model, app=LiveApp(), delegate=OFFERED) as (host, _):
        asked = 0
        async for event in host.ask("go"):
            if isinstance(event, ApprovalAsked):
                asked += 1
                host.answer(event.call_id, approved=True, remember=1)
    assert asked == 1
    assert ["Counted." in content for content in results(tmp_path).values()] == [False, True, True]


async def test_one_question_is_open_at_a_time(tmp_path: Path) -> None:
    open_ids: set[str] = set()
    async with hosted(tmp_path, family(counting), app=LiveApp(), delegate=OFFERED) as (host, _):
        async for event in host.ask("go"):
            if isinstance(event, ApprovalAsked):
                assert not open_ids
                open_ids.add(event.call_id)
                host.answer(event.call_id, approved=False, reason="not now")
            elif isinstance(event, ApprovalAnswered):
                open_ids.remove(event.call_id)
    assert len(results(tmp_path)) == 3


async def test_a_question_that_is_open_ends_with_the_parent(tmp_path: Path) -> None:
    async with hosted(tmp_path, family(counting), app=LiveApp(), delegate=OFFERED) as (host, _):
        events: list[HostEvent] = []
        async for event in host.ask("go"):
            events.append(event)
            if isinstance(event, ApprovalAsked):
                host.cancel()
    assert ended(events).outcome == "cancelled"
    # The two others had a question, too: after the stop it is neither shown nor answered.
    [asked] = of_kind(events, ApprovalAsked)
    [answer] = of_kind(events, ApprovalAnswered)
    assert (answer.call_id, answer.approved) == (asked.call_id, False)
    assert len(results(tmp_path)) == len(children(tmp_path)) == 3


async def test_a_task_of_nothing_is_refused_before_it_runs(tmp_path: Path) -> None:
    script = [ToolCall("d1", "delegate", {"task": " \n"}), "I see."]
    async with hosted(tmp_path, script, delegate=OFFERED) as (host, _):
        assert ended(await turn(host)).outcome == "answered"
    assert "the task is empty" in results(tmp_path)["d1"]
    assert children(tmp_path) == []


async def test_the_mode_of_the_parent_holds_for_its_children(tmp_path: Path) -> None:
    app = LiveApp()
    model = family(counting, tasks=1)
    async with hosted(tmp_path, model, app=app, mode="plan", delegate=OFFERED) as (host, _):
        events = await turn(host)
    assert of_kind(events, ApprovalAsked) == []
    [child] = children(tmp_path)
    [refused] = [r.content for m in messages(tmp_path, child) for r in m.tool_results]
    assert "mode plan" in refused


async def test_files_that_children_edit_at_once_are_the_parents_to_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    def edit(request: Request, results: int) -> Any:
        number = next(n for n in range(1, 4) if f"task {n}" in request.data.decode())
        content = {"path": f"{number}.txt", "content": f"by {number}\n"}
        if results:
            return "Written."
        return invoke("c1", "/", "create", app="workspace", **content)

    apps = AppSettings(discover=False)
    async with hosted(tmp_path, family(edit), apps=apps, delegate=OFFERED) as (host, _):
        async for event in host.ask("go"):
            if isinstance(event, ApprovalAsked):
                assert event.diff
                host.answer(event.call_id, approved=True)
        assert sorted(path.name for path in here.iterdir()) == ["1.txt", "2.txt", "3.txt"]
        restoration = await host.restoration([1])
        assert len(restoration.changes) == 3


async def test_killed_while_tasks_run_the_calls_say_so_and_the_talk_goes_on(
    tmp_path: Path,
) -> None:
    kill_in(tmp_path, "delegating")
    await go_on(tmp_path)
    assert [content.split(";")[0] for content in results(tmp_path).values()] == [
        "error: interrupted (the program ended while it ran)"
    ] * 2
    for number in children(tmp_path):
        async with hosted(tmp_path, ["Back."], session=number) as (host, _):
            assert ended(await turn(host)).text == "Back."
        check_ledger(tmp_path, number)
