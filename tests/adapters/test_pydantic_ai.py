"""Pydantic AI: one current state in every request, none kept; the ledger as its store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from adapters.shop import INSTRUCTIONS, TURNS, act, check_requests, said_in, shelf, what_is_said
from examples import pydantic_ai_loop
from sightline import Hub, Ledger
from sightline.adapters.pydantic_ai import LedgerStore, LiveApps
from sightline.errors import InvalidInput
from sightline.slop.app.local import local_dial
from support.vendors.answers import Sends
from support.vendors.server import KEY, Vendor


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


def reply(**message: Any) -> Sends:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return Sends(json.dumps(body).encode(), 200, "application/json")


def calls(number: int, **arguments: Any) -> Sends:
    function = {"name": "slop_invoke", "arguments": json.dumps(arguments)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return reply(content=None, tool_calls=[call])


@asynccontextmanager
async def provider_of(*replies: Sends) -> AsyncIterator[tuple[OpenAIProvider, Vendor]]:
    with Vendor(*replies) as vendor:
        async with AsyncOpenAI(api_key=KEY, base_url=f"{vendor.url}/v1", max_retries=0) as client:
            yield OpenAIProvider(openai_client=client), vendor


async def test_every_request_of_twenty_turns_ends_with_the_one_current_state(
    shop: tuple[Hub, dict[str, int]], ledger: Ledger
) -> None:
    hub, _ = shop
    replies = [
        sent
        for turn in range(TURNS)
        for sent in (calls(turn, **act("add", count=1)), reply(content=f"answer {turn}"))
    ]
    store = LedgerStore(ledger)
    histories: list[bytes] = []
    async with provider_of(*replies) as (provider, vendor):
        model = OpenAIChatModel("m", provider=provider)
        apps = LiveApps(hub, budget=1_000)
        agent = Agent(model, instructions=INSTRUCTIONS, capabilities=[apps])
        for turn in range(TURNS):
            conversation = await store.load("t 1") or Conversation(conversation_id="t 1")
            done = await agent.run(f"question {turn}", conversation=conversation)
            assert done.output == f"answer {turn}"
            await store.save(done)
            histories.append(done.all_messages_json())
    bodies = [json.loads(request.body) for request in vendor.requests]
    assert len(bodies) == 2 * TURNS
    check_requests([([b["tools"], *b["messages"][:-1]], b["messages"][-1]) for b in bodies])
    assert bodies[-1]["messages"][0]["content"] == INSTRUCTIONS.strip()
    assert said_in(ledger, "t 1") == what_is_said()
    loaded = await store.load("t 1")
    assert loaded is not None
    assert ModelMessagesTypeAdapter.dump_json(loaded.messages) == histories[-1]
    assert b"slop-state" not in b"".join(histories)
    assert loaded.usage.requests == 2 * TURNS
    assert ledger.verify().ok


async def test_what_an_app_calls_dangerous_is_deferred_and_runs_as_it_was_shown(
    shop: tuple[Hub, dict[str, int]],
) -> None:
    hub, stock = shop
    await hub.tools().call("slop_invoke", act("add", count=3))
    apps = LiveApps(hub)
    answers = [calls(number, **act("clear")) for number in range(4)]
    async with provider_of(*answers, reply(content="Well.")) as (provider, _):
        agent = Agent(
            OpenAIChatModel("m", provider=provider),
            output_type=[str, DeferredToolRequests],
            capabilities=[apps],
        )
        done = await agent.run("Clear it.")

        async def answered(*, yes: bool, elsewhere: bool = False) -> str:
            nonlocal done
            assert isinstance(done.output, DeferredToolRequests)
            [call] = done.output.approvals
            asked = done.output.metadata[call.tool_call_id]["question"]
            assert asked == str(apps.question(call)) == "shop: clear on /shelf (The shelf)"
            if elsewhere:
                apps._live._waiting.clear()
            results = DeferredToolResults(
                approvals={call.tool_call_id: True if yes else ToolDenied("No.")}
            )
            done = await agent.run(
                message_history=done.all_messages(), deferred_tool_results=results
            )
            returned = [
                part.model_response_str()
                for message in done.all_messages()
                for part in message.parts
                if isinstance(part, ToolReturnPart)
            ]
            return returned[-1]

        assert "No." in await answered(yes=False)
        await hub.tools().call("slop_invoke", act("add", count=1))
        assert 'its "apples": 3 → 4' in await answered(yes=True)
        assert (await answered(yes=True), stock) == ("Done.\ncleared", {"apples": 0})
        assert "The user was not asked" in await answered(yes=True, elsewhere=True)
        assert done.output == "Well."


async def test_the_example_asks_and_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, stock = shelf()
    stock["apples"] = 3
    questions: list[str] = []

    def yes(asked: str) -> str:
        questions.append(asked)
        return "y"

    monkeypatch.setattr("builtins.input", yes)
    async with provider_of(calls(0, **act("clear")), reply(content="None.")) as (provider, vendor):
        monkeypatch.setattr(pydantic_ai_loop, "MODEL", OpenAIChatModel("m", provider=provider))
        async with app.serving(unix=tmp_path / "shop.sock", discoverable=False):
            said = await pydantic_ai_loop.answer(
                f"unix:{tmp_path}/shop.sock", "Clear it.", str(tmp_path / "l.db")
            )
    assert (said, stock, len(vendor.requests)) == ("None.", {"apples": 0}, 2)
    assert questions == ["shop: clear on /shelf (The shelf)? [y/N] "]
    with Ledger(tmp_path / "l.db") as kept:
        assert said_in(kept, "my thread") == [
            ("user", "Clear it."),
            ("assistant", "slop_invoke clear"),
            ("tool", "Done.\ncleared"),
            ("assistant", "None."),
        ]


@pytest.mark.parametrize(
    "kept",
    [
        {"openai_previous_response_id": "auto"},
        {"openai_conversation_id": "conv_0"},
        {"openai_transport": "websocket"},
    ],
    ids=lambda kept: next(iter(kept)),
)
async def test_a_history_that_the_vendor_keeps_gets_no_state(
    kept: dict[str, Any], shop: tuple[Hub, dict[str, int]]
) -> None:
    async with provider_of(reply(content="Never said.")) as (provider, vendor):
        apps = LiveApps(shop[0])
        models = [
            (OpenAIResponsesModel("m", provider=provider, settings=kept), None),  # type: ignore[arg-type]
            (OpenAIResponsesModel("m", provider=provider), kept),
        ]
        for model, settings in models:
            agent = Agent(model, capabilities=[apps], model_settings=settings)  # type: ignore[arg-type]
            with pytest.raises(InvalidInput, match="the vendor keeps the history"):
                await agent.run("hello")
    assert vendor.requests == []


LONG = "A long text that is not kept twice: " + "word " * 40
PICTURE = BinaryContent(b"\x00\xff", media_type="a/b")
MESSAGES: list[ModelMessage] = [
    ModelRequest([SystemPromptPart("Be brief."), UserPromptPart(LONG)], instructions="Count."),
    ModelResponse(
        [
            ThinkingPart("hm", id="t", signature="c2ln", provider_name="openai"),
            TextPart(LONG),
            ToolCallPart("look", '{ "b":1,\n"a": 2.50 }', "c1"),
            ToolCallPart("look", {"at": 1}, "c2"),
        ],
        model_name="m",
        provider_details={"finish_reason": "stop"},
    ),
    ModelRequest(
        [
            ToolReturnPart("look", {"rows": [1, None]}, "c1", metadata={"kept": "here"}),
            ToolReturnPart("look", LONG, "c2", outcome="failed"),
            UserPromptPart(
                [
                    "See:",
                    ImageUrl("https://x.test/a.png"),
                    BinaryContent(b"\x00\xff", media_type="a/b"),
                ]
            ),
        ]
    ),
    ModelResponse([]),
]


async def test_messages_come_back_as_they_were_and_can_be_read_in_the_ledger(
    ledger: Ledger,
) -> None:
    store = LedgerStore(ledger)
    assert await store.load("odd") is None
    stored = await store.save(Conversation(messages=MESSAGES, conversation_id="odd"), scope="ana")
    another = LedgerStore(ledger)
    assert (await another.read_entry(stored[1].id)).message == MESSAGES[1]
    assert [entry.id for entry in await another.load_entries("odd") or ()] == [e.id for e in stored]
    loaded = await another.load("odd")
    assert loaded is not None
    dump = ModelMessagesTypeAdapter.dump_json
    assert dump(loaded.messages) == dump(MESSAGES)
    said = [(e.role, e.message.text) for e in ledger.messages(ledger.sessions.named("odd").id)]
    assert said == [
        ("system", "Be brief."), ("user", LONG), ("assistant", LONG), ("tool", ""),
        ("user", "See:"), ("assistant", ""),
    ]  # fmt: skip
    assert await another.load("odd", scope="bob") is None
    assert [record.scope for record in await another.list_conversations(scope="ana")] == ["ana"]


async def test_no_key_and_no_state_gets_into_the_ledger(ledger: Ledger) -> None:
    key = "sk-ant-api03-" + "a1B2" * 20
    block = '<slop-state generated_at="x" format="y">\napples=1\n</slop-state>'
    said = ModelRequest([UserPromptPart(f"Before.\x00 {key} {block}")])
    store = LedgerStore(ledger)
    await store.save(Conversation(messages=[said], conversation_id="secrets"))
    loaded = await store.load("secrets")
    assert loaded is not None
    text = str(loaded.messages)
    assert "Before." in text
    assert not [secret for secret in (key, "apples", "\\x00") if secret in text]


async def test_what_a_person_takes_out_of_the_ledger_is_out_of_the_conversation(
    ledger: Ledger,
) -> None:
    store = LedgerStore(ledger)
    conversation = Conversation(conversation_id="c")
    for number in range(3):
        conversation.messages += [
            ModelRequest([UserPromptPart(f"question {number}")]),
            ModelResponse([TextPart(f"answer {number}")]),
        ]
        await store.save(conversation)
    session = ledger.sessions.named("c").id
    ledger.groups.drop(session, ledger.groups.recent(session)[1].id)
    ledger.groups.undo(session)
    loaded = await store.load("c")
    assert loaded is not None
    assert loaded.messages == conversation.messages[:2]
    loaded.messages += conversation.messages[-2:]
    await store.save(loaded)
    again = await store.load("c")
    assert again is not None
    assert again.messages == conversation.messages[:2] + conversation.messages[-2:]


async def test_of_saves_at_once_one_is_stored_and_the_others_are_told(tmp_path: Path) -> None:
    async def save(ledger: Ledger, number: int) -> None:
        store = LedgerStore(ledger)
        for at in range(4):
            while True:
                conversation = await store.load("c") or Conversation(conversation_id="c")
                said = UserPromptPart(f"{number} {at}")
                conversation.messages.append(ModelRequest([said]))
                try:
                    await store.save(conversation)
                except ConversationConflict:
                    continue
                break

    ledgers = [Ledger(tmp_path / "l.db") for _ in range(3)]
    await asyncio.gather(*(save(ledger, number) for number, ledger in enumerate(ledgers)))
    said = [text for _, text in said_in(ledgers[0], "c")]
    assert sorted(said) == [f"{number} {at}" for number in range(3) for at in range(4)]
    for number in range(3):
        theirs = [text for text in said if text.startswith(f"{number} ")]
        assert theirs == sorted(theirs)
    for ledger in ledgers:
        ledger.close()


steps = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "save", "branch", "back", "fork", "rewrite", "delete"]),
        st.integers(0, 5),
    ),
    max_size=14,
)


def test_it_does_what_the_frameworks_own_store_does() -> None:
    with Ledger(":memory:") as ledger:
        runs = count()

        @settings(max_examples=15, deadline=None)
        @given(steps)
        def law(given: list[tuple[str, int]]) -> None:
            stores = [InMemoryConversationStore(), LedgerStore(ledger)]
            number = next(runs)
            seen = [asyncio.run(_lived(store, given, f"{number}")) for store in stores]
            assert seen[0] == seen[1]

        law()
        assert ledger.verify().ok


async def _lived(store: ConversationStore, given: list[tuple[str, int]], name: str) -> list[Any]:
    """Do things with conversations; return what came of each."""
    seen: list[Any] = []
    for at, (step, number) in enumerate(given):
        conversation = await store.load(name)
        try:
            if step in ("say", "save", "rewrite"):
                conversation = conversation or Conversation(conversation_id=name)
                if step == "rewrite":
                    del conversation.messages[number:]
                if step != "save":
                    said = UserPromptPart(f"{at}", timestamp=datetime(2026, 1, 2, tzinfo=UTC))
                    conversation.messages.append(ModelRequest([said]))
                seen.append(len(await store.save(conversation)))
            elif conversation is not None and conversation.revision and step == "delete":
                await store.delete(name)
            elif conversation is not None and conversation.revision:
                revision = conversation.revision
                record = await store.read_record(name)
                assert record is not None
                if step == "branch":
                    await store.branch(name, at=number, expected_revision=revision)
                elif step == "back" and record.branches:
                    tip = record.branches[number % len(record.branches)]
                    await store.branch(name, from_entry=tip, expected_revision=revision)
                elif step == "fork":
                    forked = await store.fork(name, at=number, new_conversation_id=f"{name} {at}")
                    seen.append(forked.messages)
        except UserError as error:
            seen.append(type(error))
        for known in (name, *(f"{name} {before}" for before in range(at + 1))):
            found = await store.load(known, limit=number or None)
            seen.append(None if found is None else found.messages)
    return seen
