"""LangChain and LangGraph: one current state in every request, none kept; the ledger as store."""

from __future__ import annotations

import asyncio
import json
import operator
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import Command, interrupt
from pydantic import SecretStr

from adapters.shop import INSTRUCTIONS, TURNS, act, check_requests, said_in, shelf, what_is_said
from examples import langchain_agent
from sightline import Hub, Ledger
from sightline.adapters.langchain import HubMiddleware, LedgerSaver
from sightline.errors import InvalidInput
from sightline.slop.app.local import local_dial
from support.many_writers import EACH, WRITERS, write_from_many
from support.vendors.answers import Sends
from support.vendors.server import KEY, Vendor

THREAD: RunnableConfig = {"configurable": {"thread_id": "thread 1"}}


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
        assert opened.verify().ok


def reply(message: dict[str, Any]) -> Sends:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Sends(json.dumps(body).encode(), 200, "application/json")


def calls(number: int, action: str, **params: Any) -> Sends:
    function = {"name": "slop_invoke", "arguments": json.dumps(act(action, **params))}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return reply({"content": None, "tool_calls": [call]})


def says(text: str) -> Sends:
    return reply({"content": text})


def model_at(vendor: Vendor, **options: Any) -> ChatOpenAI:
    key = SecretStr(KEY)
    return ChatOpenAI(model="m", api_key=key, base_url=f"{vendor.url}/v1", max_retries=0, **options)


async def test_every_request_of_twenty_turns_ends_with_the_one_current_state(
    shop: tuple[Hub, dict[str, int]], ledger: Ledger
) -> None:
    hub, _ = shop
    replies = [
        sent
        for turn in range(TURNS)
        for sent in (calls(turn, "add", count=1), says(f"answer {turn}"))
    ]
    with Vendor(*replies) as vendor:
        for turn in range(TURNS):
            # A new agent each turn: what it goes on from is in the ledger.
            agent: Any = create_agent(
                model_at(vendor),
                system_prompt=INSTRUCTIONS,
                middleware=[HubMiddleware(hub, budget=1_000)],
                checkpointer=LedgerSaver(ledger),
            )
            done = await agent.ainvoke({"messages": [("user", f"question {turn}")]}, THREAD)
            assert done["messages"][-1].text == f"answer {turn}"
            assert len(done["messages"]) == 4 * (turn + 1)
            assert "slop-state" not in str(done)
    bodies = [json.loads(request.body) for request in vendor.requests]
    assert len(bodies) == 2 * TURNS
    check_requests(
        [([body["tools"], *body["messages"][:-1]], body["messages"][-1]) for body in bodies]
    )
    assert {len(body["tools"]) for body in bodies} == {4}
    sent = [request.body for request in vendor.requests]
    for before, after in pairwise(sent):
        assert after.startswith(before[: before.rindex(b'{"content":"<slop-')])
    assert said_in(ledger, "thread 1") == what_is_said()
    for end in ("", "-wal"):
        assert b"<slop-state" not in Path(f"{ledger.path}{end}").read_bytes()


async def test_a_dangerous_action_waits_for_an_answer_and_runs_as_it_was_shown(
    shop: tuple[Hub, dict[str, int]], ledger: Ledger
) -> None:
    hub, stock = shop
    stock["apples"] = 3
    approve, refuse = {"type": "approve"}, {"type": "reject", "message": "they are ripe"}
    results: list[tuple[str, str]] = []
    with Vendor(says("")) as vendor:

        def agent() -> Any:
            apps = HubMiddleware(hub)
            return create_agent(
                model_at(vendor), middleware=[apps], checkpointer=LedgerSaver(ledger)
            )

        async def clear(number: int, answer: dict[str, str], *, meanwhile: int = 0) -> None:
            vendor.add(calls(number, "clear"), says("Well."))
            waiting = await agent().ainvoke({"messages": [("user", "Clear it.")]}, THREAD)
            [question] = waiting["__interrupt__"]
            assert question.value["tool_call_id"] == f"call_{number}"
            assert question.value["description"].startswith("shop: clear on /shelf (The shelf)")
            if meanwhile:
                await hub.tools().call("slop_invoke", act("add", count=meanwhile))
                async for world in hub.changes():
                    shown = world.apps[0].tree
                    if shown is not None and shown.at("/shelf").properties["apples"] == 5:
                        break
            # Another agent answers, as another program would.
            done = await agent().ainvoke(Command(resume=answer), THREAD)
            *_, result, last = done["messages"]
            assert last.text == "Well."
            results.append((result.status, result.text))

        await clear(1, refuse)
        await clear(2, approve, meanwhile=2)
        assert stock == {"apples": 5}
        await clear(3, approve)
        assert stock == {"apples": 0}
    refused, changed, cleared = results
    assert refused[0] == "error"
    assert "did not approve it: they are ripe" in refused[1]
    assert changed[0] == "error"
    assert "It has changed" in changed[1]
    assert cleared == ("success", "Done.\ncleared")
    assert ("tool", "Done.\ncleared") in said_in(ledger, "thread 1")


@pytest.mark.parametrize(
    "held", [{"use_previous_response_id": True}, {"model_kwargs": {"previous_response_id": "r"}}]
)
async def test_a_history_that_the_vendor_keeps_is_refused(
    held: dict[str, Any], shop: tuple[Hub, dict[str, int]]
) -> None:
    with Vendor(says("Hello.")) as vendor:
        agent: Any = create_agent(model_at(vendor, **held), middleware=[HubMiddleware(shop[0])])
        with pytest.raises(InvalidInput, match="vendor keeps the history"):
            await agent.ainvoke({"messages": [("user", "hi")]})
    assert not vendor.requests


async def test_an_agent_in_another_thread_sees_and_acts_too(
    shop: tuple[Hub, dict[str, int]], ledger: Ledger
) -> None:
    hub, stock = shop
    with Vendor(calls(1, "add", count=2), says("Two.")) as vendor:
        saver = LedgerSaver(ledger)
        agent: Any = create_agent(
            model_at(vendor), middleware=[HubMiddleware(hub)], checkpointer=saver
        )
        with pytest.raises(InvalidInput, match="use ainvoke"):
            agent.invoke({"messages": [("user", "hi")]}, THREAD)
        await asyncio.to_thread(agent.invoke, {"messages": [("user", "Add two.")]}, THREAD)
        assert stock == {"apples": 2}
        assert b"apples=2" in vendor.requests[-1].body
        vendor.add(calls(2, "clear"), says("Gone."))
        await asyncio.to_thread(agent.invoke, {"messages": [("user", "Clear.")]}, THREAD)
        await asyncio.to_thread(agent.invoke, Command(resume=True), THREAD)
    assert stock == {"apples": 0}


async def test_the_example_answers_and_asks_the_person_at_the_keyboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, stock = shelf()
    stock["apples"] = 3
    monkeypatch.setattr(langchain_agent, "MODEL", "openai:m")
    monkeypatch.setattr("builtins.input", lambda question: "y" if "clear" in question else "n")
    with Vendor(calls(1, "clear"), says("Gone.")) as vendor:
        for name, value in vendor.environment().items():
            monkeypatch.setenv(name, value)
        async with app.serving(unix=tmp_path / "shop.sock", discoverable=False):
            address, ledger = f"unix:{tmp_path}/shop.sock", str(tmp_path / "agent.db")
            assert await langchain_agent.answer(address, "Clear it.", ledger) == "Gone."
    assert stock == {"apples": 0}


# The store, without a model.


def checkpoint(number: int, **values: Any) -> Checkpoint:
    made = empty_checkpoint()
    versions: dict[str, Any] = dict.fromkeys(values, number)
    return {**made, "id": f"{number:06}", "channel_values": values, "channel_versions": versions}


def put(saver: LedgerSaver, number: int, parent: int | None = None, **values: Any) -> None:
    names = {"thread_id": "thread 1", "checkpoint_ns": ""}
    names |= {} if parent is None else {"checkpoint_id": f"{parent:06}"}
    saver.put({"configurable": names}, checkpoint(number, **values), {"step": number}, {})


def got(saver: LedgerSaver, number: int | None = None) -> dict[str, Any]:
    names = {"thread_id": "thread 1"} | (
        {} if number is None else {"checkpoint_id": f"{number:06}"}
    )
    found = saver.get_tuple({"configurable": names})
    assert found is not None
    return found.checkpoint["channel_values"]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0<&"), max_size=90)
numbers = st.text("abc", min_size=1, max_size=2)
small = st.integers(-(2**63), 2**63)
call = st.fixed_dictionaries(
    {
        "name": numbers,
        "args": st.dictionaries(numbers, st.integers(-(2**63), 2**63) | texts),
        "id": numbers,
    }
)
blocks = st.lists(st.builds(lambda text: {"type": "text", "text": text, "index": 0}, texts))
anyone = st.one_of(
    st.builds(HumanMessage, texts | blocks, id=numbers),
    st.builds(SystemMessage, texts, id=numbers),
    st.builds(
        AIMessage, texts | blocks, id=numbers, tool_calls=st.lists(call, max_size=2),
        response_metadata=st.dictionaries(numbers, texts, max_size=2),
    ),
    st.builds(
        ToolMessage, texts, tool_call_id=numbers, id=numbers, artifact=st.binary() | st.none(),
        status=st.sampled_from(["success", "error"]),
    ),
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(anyone, max_size=4), min_size=1, max_size=4))
def test_every_checkpoint_shows_its_own_messages_whatever_came_before_it(
    lists: list[list[AnyMessage]],
) -> None:
    with Ledger(":memory:", redact=False) as ledger:
        saver = LedgerSaver(ledger)
        for number, messages in enumerate(lists):
            put(saver, number, number - 1 if number else None, messages=messages, other={number})
        again = LedgerSaver(ledger)
        for number, messages in enumerate(lists):
            assert got(again, number) == {"messages": messages, "other": {number}}
        assert ledger.verify().ok


def test_what_was_said_is_stored_once_and_keys_nowhere(ledger: Ledger) -> None:
    saver, key = LedgerSaver(ledger), "sk-ant-api03-" + "a1B2" * 24
    hello, secret = HumanMessage("hello", id="1"), HumanMessage(f"my key is {key}", id="2")
    put(saver, 1, messages=[hello])
    put(saver, 2, 1, messages=[hello, secret], __start__={"messages": [secret]})
    saver.put_writes({"configurable": {"thread_id": "thread 1", "checkpoint_id": "000002"}},
        [("messages", [secret])], "task")  # fmt: skip
    read = got(saver)["messages"]
    assert "[redacted" in read[1].content
    # What goes on from there says nothing anew.
    put(LedgerSaver(ledger), 3, 2, messages=[*read, HumanMessage("hello", id="3")])
    put(saver, 4, 2, messages=[read[1]])
    assert [text for _, text in said_in(ledger, "thread 1")] == ["hello", read[1].content, "hello"]
    for end in ("", "-wal"):
        assert key.encode() not in Path(f"{ledger.path}{end}").read_bytes()
    # What the user drops is in no checkpoint any more.
    session = ledger.sessions.resolve("thread 1").id
    ledger.groups.drop(session, ledger.groups.recent(session)[0].id)
    assert got(saver, 2)["messages"] == read[1:]


class Counted(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]


def counting(saver: LedgerSaver) -> Any:
    def inner_step(state: Counted) -> dict[str, Any]:
        assert state
        return {"count": interrupt("how many?"), "messages": [AIMessage("inside", id="i")]}

    inner = StateGraph(Counted)
    inner.add_node("step", inner_step)
    inner.add_edge(START, "step")

    def answer(state: Counted) -> dict[str, Any]:
        return {"messages": [AIMessage(f"so far {state['count']}")]}

    outer = StateGraph(Counted)
    outer.add_node("inner", inner.compile())
    outer.add_node("answer", answer)
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "answer")
    outer.add_edge("answer", END)
    return outer.compile(checkpointer=saver)


async def test_a_graph_goes_on_back_in_time_and_with_graphs_inside_it(ledger: Ledger) -> None:
    def graph() -> Any:
        return counting(LedgerSaver(ledger))

    def question(number: int) -> dict[str, Any]:
        return {"messages": [HumanMessage(f"question {number}", id=f"q{number}")]}

    await graph().ainvoke(question(1), THREAD)
    inside = graph().get_state(THREAD, subgraphs=True).tasks[0].state
    assert inside.config["configurable"]["checkpoint_ns"].startswith("inner:")
    done = await graph().ainvoke(Command(resume=2), THREAD)
    texts = [message.text for message in done["messages"]]
    assert texts == ["question 1", "inside", "so far 2"]

    await graph().ainvoke(question(2), THREAD)
    await graph().ainvoke(Command(resume=3), THREAD)
    history = [state async for state in graph().aget_state_history(THREAD)]
    [then] = [state for state in history if not state.next and state.values["count"] == 2]
    assert [message.text for message in then.values["messages"]] == texts
    assert graph().get_state(THREAD).values["count"] == 7

    # Another future of the same past, and messages that are taken back.
    await graph().aupdate_state(then.config, {"messages": [RemoveMessage("i")], "count": 10})
    values = graph().get_state(THREAD).values
    assert [message.text for message in values["messages"]] == ["question 1", "so far 2"]
    assert values["count"] == 12
    assert [text for _, text in said_in(ledger, "thread 1")] == [
        "question 1", "inside", "so far 2", "question 2", "so far 7",
    ]  # fmt: skip

    await LedgerSaver(ledger).adelete_thread("thread 1")
    assert graph().get_state(THREAD).values == {}
    assert ledger.sessions.list() == []


async def write_checkpoints(number: int, each: int, path: str) -> None:
    """Go on in one thread by two messages at a time; the clock stands still for everybody."""
    with Ledger(path, clock=lambda: datetime(2026, 1, 2, tzinfo=UTC)) as ledger:
        saver = LedgerSaver(ledger)
        config: RunnableConfig = {"configurable": {"thread_id": "thread 1", "checkpoint_ns": ""}}
        messages = [HumanMessage(f"{number} {step}", id=f"{number}-{step}") for step in range(each)]
        for last in range(1, each, 2):
            made = checkpoint(number * each + last, messages=messages[max(last - 2, 0) : last + 1])
            config = await saver.aput(config, made, {"step": last}, {})


def test_eight_processes_lose_nothing_and_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    write_from_many(write_checkpoints, path)
    with Ledger(path) as ledger:
        texts = [text.split() for _, text in said_in(ledger, "thread 1")]
        for number in range(WRITERS):
            steps = [step for writer, step in texts if writer == str(number)]
            assert steps == list(map(str, range(EACH)))
            shown = got(LedgerSaver(ledger), number * EACH + EACH - 1)["messages"]
            assert [message.text.split() for message in shown] == [
                [str(number), step] for step in steps[-3:]
            ]
        assert len(ledger.threads.keys("thread 1")) == WRITERS * EACH // 2
        assert ledger.verify().ok
