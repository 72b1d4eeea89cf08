"""The OpenAI Agents SDK: one current state in every request, none kept; the ledger as session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import agents
import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, RunState, Session
from agents.memory import SessionSettings
from openai import AsyncOpenAI

from adapters import writers
from adapters.shop import INSTRUCTIONS, TURNS, act, check_requests, said_in, shelf, what_is_said
from examples import openai_agents_loop
from sightline import Hub, Ledger
from sightline.adapters.openai_agents import LedgerSession, LiveApps
from sightline.context.messages.parts import Message, Reasoning, Text, ToolCall, ToolResult
from sightline.errors import InvalidInput
from sightline.slop.app.local import local_dial
from support.many_writers import EACH, WRITERS, write_from_many
from support.vendors.answers import Sends
from support.vendors.server import KEY, Vendor


@pytest.fixture(autouse=True)
def _traces_stay_here() -> None:
    agents.set_tracing_disabled(True)


@pytest.fixture
async def shop() -> AsyncIterator[tuple[Hub, dict[str, int]]]:
    app, stock = shelf()
    async with Hub() as hub:
        hub.add("shop", local_dial(app))
        await hub.ready()
        yield hub, stock
    await app.close()


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger(":memory:") as opened:
        yield opened


def reply(number: int, *items: dict[str, Any]) -> Sends:
    response = {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "model": "m",
        "output": items, "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
        "status": "completed",
    }  # fmt: skip
    return Sends(json.dumps(response).encode(), 200, "application/json")


def calls(number: int, **arguments: Any) -> dict[str, Any]:
    return {
        "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
        "name": "slop_invoke", "arguments": json.dumps(arguments), "status": "completed",
    }  # fmt: skip


def thinks(number: int) -> dict[str, Any]:
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAA"}


def says(number: int, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {
        "type": "message", "id": f"msg_{number}", "role": "assistant", "content": content,
        "status": "completed",
    }  # fmt: skip


@asynccontextmanager
async def model_of(*replies: Sends) -> AsyncIterator[tuple[OpenAIResponsesModel, Vendor]]:
    with Vendor(*replies) as vendor:
        async with AsyncOpenAI(api_key=KEY, base_url=f"{vendor.url}/v1", max_retries=0) as client:
            yield OpenAIResponsesModel("m", client), vendor


async def test_every_request_of_twenty_turns_ends_with_the_one_current_state(
    shop: tuple[Hub, dict[str, int]], ledger: Ledger
) -> None:
    hub, _ = shop
    replies = [
        sent
        for turn in range(TURNS)
        for sent in (
            reply(turn, thinks(turn), calls(turn, **act("add", count=1))),
            reply(turn, says(turn, f"answer {turn}")),
        )
    ]
    apps, session = LiveApps(hub, budget=1_000), LedgerSession(ledger, "thread 1")
    async with model_of(*replies) as (model, vendor):
        agent = Agent("keeper", instructions=INSTRUCTIONS, tools=[*apps.tools()], model=model)
        for turn in range(TURNS):
            done = await Runner.run(
                agent,
                f"question {turn}",
                session=session,
                run_config=RunConfig(call_model_input_filter=apps),
            )
            assert done.final_output == f"answer {turn}"
            assert "slop-state" not in json.dumps(done.to_input_list())
    bodies = [json.loads(request.body) for request in vendor.requests]
    assert len(bodies) == 2 * TURNS
    check_requests(
        [
            ([body["tools"], body["instructions"], *body["input"][:-1]], body["input"][-1])
            for body in bodies
        ]
    )
    said = [line for line in said_in(ledger, "thread 1") if line != ("assistant", "")]
    assert said == what_is_said()
    stored = await session.get_items()
    assert [item.get("type") for item in stored[:5]] == [
        None, "reasoning", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert bodies[-1]["input"][:-1] == stored[:-1]


async def test_what_an_app_calls_dangerous_interrupts_the_run_and_runs_as_it_was_shown(
    shop: tuple[Hub, dict[str, int]],
) -> None:
    hub, stock = shop
    await hub.tools().call("slop_invoke", act("add", count=3))
    apps = LiveApps(hub)
    answers = [reply(n, calls(n, **act("clear"))) for n in range(4)]
    outputs: list[Any] = []
    async with model_of(*answers, reply(5, says(5, "Well."))) as (model, vendor):
        agent = Agent("keeper", tools=[*apps.tools()], model=model)
        config = RunConfig(call_model_input_filter=apps)
        result = await Runner.run(agent, "Clear it.", run_config=config)

        async def answered(*, yes: bool, always: bool = False) -> Any:
            [item] = result.interruptions
            state: RunState[Any, Any] = result.to_state()
            if yes:
                state.approve(item, always_approve=always)
            else:
                state.reject(item)
            later = await Runner.run(agent, state, run_config=config)
            items: list[Any] = [*later.to_input_list()]
            outputs.append([item["output"] for item in items if "output" in item][-1])
            return later

        [asked] = [apps.question(item) for item in result.interruptions]
        assert str(asked) == "shop: clear on /shelf (The shelf)"
        result = await answered(yes=False)
        assert stock == {"apples": 3}
        await hub.tools().call("slop_invoke", act("add", count=1))
        result = await answered(yes=True)
        assert 'its "apples": 3 → 4' in outputs[1]
        result = await answered(yes=True)
        assert (outputs[2], stock) == ("Done.\ncleared", {"apples": 0})
        result = await answered(yes=True, always=True)
        assert result.final_output == "Well."
    assert len(vendor.requests) == 5


async def test_a_yes_to_all_calls_and_a_yes_from_another_process_are_none_to_this_one(
    shop: tuple[Hub, dict[str, int]],
) -> None:
    hub, stock = shop
    await hub.tools().call("slop_invoke", act("add", count=3))
    answers = [reply(n, calls(n, **act("clear"))) for n in range(2)]
    async with model_of(*answers, reply(2, says(2, "Well."))) as (model, _):
        agent = Agent("keeper", tools=[*LiveApps(hub).tools()], model=model)
        state: RunState[Any, Any] = (await Runner.run(agent, "Clear it.")).to_state()
        another = Agent("keeper", tools=[*LiveApps(hub).tools()], model=model)
        state = await RunState.from_json(another, state.to_json())
        state.approve(state.get_interruptions()[0], always_approve=True)
        result = await Runner.run(another, state)
        assert result.final_output == "Well."
        items: list[Any] = [*result.to_input_list()]
        outputs = [item["output"] for item in items if "output" in item]
        assert [text.startswith("Not done. The user was not asked") for text in outputs] == [
            True
        ] * 2
    assert stock == {"apples": 3}


async def test_the_example_asks_and_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, stock = shelf()
    stock["apples"] = 3
    answers = [reply(0, calls(0, **act("clear"))), reply(1, says(1, "None are left."))]
    questions: list[str] = []

    def yes(asked: str) -> str:
        questions.append(asked)
        return "y"

    monkeypatch.setattr("builtins.input", yes)
    async with model_of(*answers) as (model, vendor):
        agents.set_default_openai_client(model._client, use_for_tracing=False)
        async with app.serving(unix=tmp_path / "shop.sock", discoverable=False):
            said = await openai_agents_loop.answer(
                f"unix:{tmp_path}/shop.sock", "Clear it.", str(tmp_path / "l.db")
            )
    assert (said, stock, len(vendor.requests)) == ("None are left.", {"apples": 0}, 2)
    assert questions == ["shop: clear on /shelf (The shelf)? [y/N] "]
    with Ledger(tmp_path / "l.db") as kept:
        assert said_in(kept, "my thread") == [
            ("user", "Clear it."),
            ("assistant", "slop_invoke clear"),
            ("tool", "Done.\ncleared"),
            ("assistant", "None are left."),
        ]


@pytest.mark.parametrize(
    "kept",
    [
        {"previous_response_id": "resp_0"},
        {"conversation_id": "conv_0"},
        {"auto_previous_response_id": True},
    ],
    ids=lambda kept: next(iter(kept)),
)
async def test_a_history_that_the_vendor_keeps_gets_no_state(
    kept: dict[str, Any], shop: tuple[Hub, dict[str, int]]
) -> None:
    apps = LiveApps(shop[0])
    config = RunConfig(call_model_input_filter=apps)
    async with model_of(reply(0, says(0, "Never said."))) as (model, vendor):
        agent = Agent("keeper", model=model)
        with pytest.raises(InvalidInput, match="the vendor keeps the history"):
            await Runner.run(agent, "hello", run_config=config, **kept)
        with pytest.raises(InvalidInput, match="the vendor keeps the history"):
            async for _ in Runner.run_streamed(
                agent, "hello", run_config=config, **kept
            ).stream_events():
                pass
    assert vendor.requests == []


LONG = "A long text that is not kept twice: " + "word " * 40
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "hello"},
    {"content": LONG, "role": "user", "type": "message"},
    {"role": "developer", "content": [{"type": "input_text", "text": LONG}]},
    {"role": "user", "content": [
        {"type": "input_image", "image_url": "https://x.test/a.png", "detail": "high"},
        {"type": "input_file", "file_id": "file_1"},
    ]},
    says(1, LONG),
    {**says(2, "no"), "content": [{"type": "refusal", "refusal": "no"}], "phase": "final_answer"},
    thinks(1),
    {**thinks(2), "summary": [{"type": "summary_text", "text": LONG}], "status": None},
    {**calls(1), "arguments": '{ "b":1,\n"a": 2.50 }'},
    {**calls(2), "arguments": "not json"},
    {"type": "function_call_output", "call_id": "call_1", "output": LONG},
    {"output": [{"type": "input_text", "text": LONG}], "type": "function_call_output",
     "call_id": "call_2"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed",
     "action": {"type": "search", "query": LONG, "sources": None}},
    {"type": "computer_call_output", "call_id": "c", "output": {"image_url": "data:,AA=="}},
    {"type": "item_reference", "id": "msg_9"},
    {"type": "some_later_item", "what": [1, 2.5, True, None, {"deep": ["er"]}], "ü": "ﬀ"},
]  # fmt: skip


async def test_items_come_back_byte_for_byte_in_their_order(ledger: Ledger) -> None:
    assert isinstance(LedgerSession(ledger, "items"), Session)
    session: Any = LedgerSession(ledger, "items")
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items([])
    await session.add_items(ITEMS)
    assert json.dumps(await session.get_items()) == json.dumps(ITEMS)
    assert json.dumps(await session.get_items(3)) == json.dumps(ITEMS[-3:])
    session.session_settings = SessionSettings(limit=2)
    assert json.dumps(await session.get_items()) == json.dumps(ITEMS[-2:])
    assert await session.get_items(0) == []
    (await session.get_items())[0]["id"] = "changed by its reader"
    popped = [await session.pop_item() for _ in range(len(ITEMS) - 1)]
    assert json.dumps(popped[::-1]) == json.dumps(ITEMS[1:])
    assert await session.get_items() == ITEMS[:1]
    await session.clear_session()
    assert await session.get_items() == []
    assert ledger.verify().ok


def test_a_text_is_in_the_ledger_once(ledger: Ledger) -> None:
    asyncio.run(LedgerSession(ledger, "items").add_items(ITEMS))  # type: ignore[arg-type]
    for entry in ledger.messages(ledger.sessions.named("items").id):
        stored = ledger.query(
            f"SELECT content || coalesce(parts, '') FROM messages WHERE id = {entry.id}",
            session_id=None,
        )
        assert str(stored.rows[0][0]).count(LONG) <= 1


async def test_no_key_and_no_state_gets_into_the_ledger(ledger: Ledger) -> None:
    session = LedgerSession(ledger, "secrets")
    key = "sk-ant-api03-" + "a1B2" * 20
    block = '<slop-state generated_at="x" format="y">\napples=1\n</slop-state>'
    said = f"Before.\x00\udcff {key} {block}"
    later: Any = {"type": "some_later_item", "what": said}
    await session.add_items([{"role": "user", "content": said}, later])
    stored = json.dumps(await session.get_items())
    assert "Before." in stored
    assert not [secret for secret in (key, "apples", "u0000") if secret in stored]


async def test_a_conversation_of_another_program_is_read_and_popped_item_by_item(
    ledger: Ledger,
) -> None:
    id_ = ledger.sessions.named("chat").id
    call = ToolCall("c", "look", {"at": 1})
    reply = Message("assistant", (Reasoning("hm"), Text("I look."), call))
    result = Message("tool", (ToolResult("c", "nothing"),))
    ledger.append(id_, [Message("user", "look"), reply, result])
    session = LedgerSession(ledger, "chat")
    items = await session.get_items()
    assert items == [
        {"content": "look", "role": "user"},
        {"content": "I look.", "role": "assistant"},
        {"arguments": '{"at":1}', "call_id": "c", "name": "look", "type": "function_call"},
        {"call_id": "c", "output": "nothing", "type": "function_call_output"},
    ]
    for number in (3, 2, 1, 0):
        assert await session.pop_item() == items[number]
        assert await session.get_items() == items[:number]


def test_eight_processes_lose_nothing_and_pop_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "crowd.db"
    write_from_many(writers.add_items, path, "crowd")
    with Ledger(path) as ledger:
        session = LedgerSession(ledger, "crowd")
        items: list[Any] = asyncio.run(session.get_items())
        for number in range(WRITERS):
            theirs = [item for item in items if item["content"].startswith(f"{number} ")]
            assert [item["content"] for item in theirs] == [f"{number} {at}" for at in range(EACH)]
        assert len(items) == WRITERS * EACH
        write_from_many(writers.pop_items, path, "crowd", each=25)
        left = asyncio.run(session.get_items())
        popped: list[Any] = []
        for number in range(WRITERS):
            popped += asyncio.run(LedgerSession(ledger, f"crowd {number}").get_items())
        assert left == items[: -25 * WRITERS]
        gone = items[-25 * WRITERS :]
        assert sorted(map(json.dumps, popped)) == sorted(map(json.dumps, gone))
        assert ledger.verify().ok
