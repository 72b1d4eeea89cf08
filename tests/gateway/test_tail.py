"""The live tail: the agent's bytes with state between them, the same again, and never stale."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.conftest import Start
from gateway.test_observer import passing as answered_request
from gateway.test_proxy import UPGRADE
from sightline.agent.host.journal import Journal
from sightline.agent.host.sight import SightRules
from sightline.context.ledger import Ledger
from sightline.context.projection.tail import render_state
from sightline.errors import Unreachable
from sightline.gateway.bodies import APIS, Api
from sightline.gateway.observer import Observer, Passing
from sightline.gateway.report import line_of
from sightline.gateway.tail import LiveTail, Mode, Spliced
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support.edits import grown, next_world
from support.loopback import listening
from support.share import share
from support.shown import known, read
from support.vendors.answers import Fails, Refuses, says
from support.vendors.server import Vendor

AT = datetime(2026, 11, 16, 8, tzinfo=UTC)
RULES = SightRules(1_000_000, "text", {}, 1_000_000)
LISTS = {"anthropic": "messages", "openai-chat": "messages", "openai-responses": "input",
         "gemini": "contents"}  # fmt: skip
MODELS = {"anthropic": "claude-haiku-4-5", "openai-chat": "gpt-5.5", "openai-responses": "gpt-5.5",
          "gemini": "gemini-3.8-flash"}  # fmt: skip
OURS = ("Live state of the apps", "Data from apps:")


class Live:
    """A tail whose apps and clock stand still until somebody moves them."""

    def __init__(self, mode: Mode, world: World, journal: Journal | None = None) -> None:
        self.world, self.now = world, AT
        self.tail = LiveTail(mode, lambda: self.world, len, RULES, journal, lambda: self.now)

    def send(
        self, api: Api, body: Any, headers: dict[str, str] | None = None, *, answered: bool = True
    ) -> Spliced:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = f"/v1beta/models/{MODELS[api]}:generateContent"
        passing = Passing(api, path, headers or {"session-id": "s"}, data, 0.0, 0.0)
        found = self.tail.splice_into(self.world, passing, "http://127.0.0.1")
        if answered:
            passing.feed(b'{"id": "resp_%d"}' % len(data))
            self.tail.answered(found, passing)
        return found


def one_app(number: int = 1) -> World:
    items = [Node.of(f"item-{at}", "item", properties={"label": f"item {at}"}) for at in range(20)]
    tree = Node.of("r", "root", children=items, properties={"n": number})
    return World((AppState("a", "A", tree=tree),))


def text_of(message: Any) -> str:
    """The text of a message of one text, in any API's form; empty for others."""
    if not isinstance(message, dict):
        return ""
    content = message.get("content", message.get("parts"))
    if isinstance(content, str):
        return content
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        return str(content[0].get("text", ""))
    return ""


def is_ours(message: Any) -> bool:
    return text_of(message).startswith(OURS)


def states(api: Api, data: bytes) -> list[str]:
    """What was put into a request, in order."""
    messages = json.loads(data)[LISTS[api]]
    return [text_of(one) for one in messages if is_ours(one)] if isinstance(messages, list) else []


def known_from(texts: list[str]) -> Any:
    """What a reader of these texts knows of the apps, who has nothing else."""
    apps: Any = {}
    for text in texts:
        apps = read(apps, text[text.index("<slop-state ") :])
    return {key: (known(app), below) for key, (app, below) in apps.items()}


# Bodies as agents write them.


def user(rng: random.Random, api: Api, text: str) -> dict[str, Any]:
    if api == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    kind = "input_text" if api == "openai-responses" else "text"
    blocks = [{"type": kind, "text": text}]
    return {"role": "user", "content": rng.choice([text, blocks])}


def replied(rng: random.Random, api: Api, number: int) -> list[dict[str, Any]]:
    """What the model said, and a result or words of the user's behind it."""
    words, call = f"reply {number}", f"c{number}"
    result = f'result {rng.random()} "\\ [{{'
    if rng.random() < 0.4:
        role = "model" if api == "gemini" else "assistant"
        said = {"role": role, "parts": [{"text": words}]} if api == "gemini" else {
            "role": role, "content": words}  # fmt: skip
        return [said, user(rng, api, f"user {number}")]
    if api == "anthropic":
        used = {"type": "tool_use", "id": call, "name": "t", "input": {}}
        back = {"type": "tool_result", "tool_use_id": call, "content": result}
        more = [{"type": "text", "text": "and this"}] * rng.choice([0, 1])
        found = [
            {"role": "assistant", "content": [used]},
            {"role": "user", "content": [back, *more]},
        ]
        return found + [{"role": "system", "content": "a hook said"}] * rng.choice([0, 0, 1])
    if api == "openai-responses":
        return [
            {"type": "function_call", "call_id": call, "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call, "output": result},
            *[{"role": "developer", "content": "a hook said"}] * rng.choice([0, 0, 1]),
        ]
    if api == "gemini":
        return [
            {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": call, "response": {}}}]},
        ]  # fmt: skip
    function = {"name": "t", "arguments": "{}"}
    return [
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": call, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call, "content": rng.choice([result, ""])},
    ]  # fmt: skip


def respelt(rng: random.Random, message: dict[str, Any]) -> dict[str, Any]:
    """Write it otherwise, the same for the vendor: a mark moves, a text becomes blocks."""
    content = message.get("content")
    if message.get("role") != "user" or rng.random() < 0.5:
        return message
    if isinstance(content, str) and message.get("type") is None:
        return {**message, "content": [{"type": "text", "text": content}]}
    if isinstance(content, list) and content[-1].get("type") == "text":
        mark = {"cache_control": {"type": "ephemeral"}}
        return {**message, "content": [*content[:-1], {**content[-1], **mark}]}
    return message


def written(rng: random.Random, api: Api, messages: list[dict[str, Any]]) -> bytes:
    """Write a body: any order of fields, any white space, escapes or not."""
    fields = {
        "model": MODELS[api], LISTS[api]: [respelt(rng, one) for one in messages],
        "tools": [{"name": "t", "messages": [{"role": "user"}]}], "stream": True, "n\\\"[": 1.50,
        "metadata": {"messages": messages[:1], "x": "\u2028 \"messages\": ["},
    }  # fmt: skip
    names = list(fields)
    rng.shuffle(names)
    return json.dumps(
        {name: fields[name] for name in names}, indent=rng.choice([None, None, 1]),
        ensure_ascii=rng.random() < 0.5,
    ).encode()  # fmt: skip


def check_bytes(api: Api, data: bytes, forwarded: bytes) -> list[Any]:
    """Check that nothing but our messages was added; return all messages as they went on."""
    given_body, body = json.loads(data), json.loads(forwarded)
    messages = body.pop(LISTS[api])
    assert [one for one in messages if not is_ours(one)] == given_body.pop(LISTS[api])
    assert body == given_body
    rest = forwarded
    for one in filter(is_ours, messages):
        piece = b"," + json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode()
        assert rest.count(piece) == 1
        rest = rest.replace(piece, b"")
    assert rest == data
    return list(messages)


@pytest.mark.parametrize("mode", ["whole", "session"])
@pytest.mark.parametrize("api", APIS)
@settings(max_examples=share(150))
@given(seed=st.integers(0, 2**32))
def test_law_a_request_is_as_it_came_with_the_state_in_its_place(
    api: Api, mode: Mode, seed: int
) -> None:
    """Whatever a conversation does: it goes on, goes back, is sent again, is spelt otherwise."""
    rng = random.Random(seed)
    tree = grown(rng, Node.of("r", "root"), 8)
    live = Live(mode, World((AppState("a", "A", tree=tree),)))
    messages = [user(rng, api, "begin")]
    before: list[Any] = []
    for step in range(6):
        live.now += timedelta(seconds=1)
        data = written(rng, api, messages)
        sent = live.send(api, data, answered=False)
        forwarded = check_bytes(api, data, sent.data)
        texts = states(api, sent.data)
        whole = render_state(live.world, live.now)
        if live.world.apps or before:
            assert known_from(texts) == known_from([whole]), sent.plan.words
        if mode == "whole":
            assert len(texts) == bool(live.world.apps)
        else:
            kept = [(at, one) for at, one in enumerate(before) if is_ours(one)]
            assert kept == [one for one in enumerate(forwarded) if is_ours(one[1])][: len(kept)]
        if " of " in sent.plan.words:
            while api == "anthropic" and forwarded[-1]["role"] == "system":
                forwarded.pop()
            assert is_ours(forwarded[-1])
        live.world = next_world(rng, live.world, 0)
        assert live.send(api, data).data == sent.data  # a retry
        before = forwarded
        if rng.random() < 0.15 and len(messages) > 3:
            del messages[-2:]
            before = []
        messages += replied(rng, api, step)


def body(api: Api = "anthropic", **more: Any) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"text": "hi"}]} if api == "gemini" else {
        "role": "user", "content": "hi"}  # fmt: skip
    return {"model": MODELS[api], LISTS[api]: [message], "tools": [{"name": "t"}], **more}


@pytest.mark.parametrize(
    ("api", "more", "headers", "why"),
    [
        ("anthropic", {}, {"x-claude-code-agent-id": "a1"}, "a sub-agent's"),
        ("openai-responses", {}, {"x-openai-subagent": "review"}, "a sub-agent's"),
        ("anthropic", {}, {"x-claude-code-request-class": "compaction"}, "'compaction'"),
        ("openai-responses", {}, {"x-codex-turn-metadata": '{"request_kind":"x"}'}, "kind 'x'"),
        ("anthropic", {"tools": []}, {}, "no tools"),
        ("anthropic", {"max_tokens": 1}, {}, "one token"),
        ("anthropic", {"messages": []}, {}, "could not be read"),
        ("anthropic", {"messages": [{"role": "assistant", "content": "{"}]}, {}, "model began"),
        ("anthropic", {"messages": [{"role": "system", "content": "x"}]}, {}, "no message of the"),
        ("openai-responses", {"input": [{"type": "compaction_trigger"}]}, {}, "model began"),
        ("openai-chat", {"model": "qwen3-32b"}, {}, "template"),
        ("anthropic", {}, {"content-encoding": "zstd"}, "packed"),
        (
            "anthropic",
            {"messages": [{"role": "user", "content": [{"type": "text", "text":
             "Your task is to create a detailed summary of the conversation so far"}]}]},
            {},
            "a summary",
        ),
    ],
)  # fmt: skip
def test_what_is_not_the_main_line_or_takes_no_state_is_left_alone(
    api: Api, more: dict[str, Any], headers: dict[str, str], why: str
) -> None:
    given = json.dumps(body(api, **more), indent=2).encode()
    sent = Live("session", one_app()).send(api, given, headers)
    assert sent.data == given
    assert sent.plan.words.startswith("no state: ")
    assert why in sent.plan.words


def test_a_name_that_comes_twice_is_not_guessed_at() -> None:
    given = b'{"messages":[{"role":"user"}],"tools":[1],"messages":[{"role":"user"}]}'
    assert Live("whole", one_app()).send("anthropic", given).data == given


def test_no_app_no_state_and_an_app_that_is_gone_or_silent_is_labelled() -> None:
    live = Live("session", World())
    assert "no app is there" in live.send("gemini", body("gemini")).plan.words
    live.world = World((AppState("a", "A", status="disconnected", last_seen="8:00"),))
    [text] = states("gemini", live.send("gemini", body("gemini")).data)
    assert "status: disconnected, last seen 8:00" in text


async def test_an_app_that_crashed_or_says_nothing_holds_no_request_up() -> None:
    async def mute(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def crashed(*_: object) -> NoReturn:
        raise Unreachable("it crashed")

    async with listening(mute) as port, Hub() as hub:
        hub.add("mute", dial_address(f"ws://127.0.0.1:{port}/slop"))
        hub.add("crashed", crashed)
        live = LiveTail("whole", lambda: hub.world, len, RULES)
        passing = Passing("anthropic", "", {}, json.dumps(body()).encode(), 0, 0)
        [text] = states("anthropic", (await live.splice(passing, "http://127.0.0.1")).data)
    assert text.count("\nstatus: ") == 2


def test_whatever_goes_wrong_costs_the_state_and_not_the_request() -> None:
    live = Live("whole", World((None,)))  # type: ignore[arg-type]  # what no hub gives
    given = json.dumps(body()).encode()
    sent = live.send("anthropic", given)
    assert sent.data == given
    assert sent.plan.words.startswith("no state: AttributeError")


def test_a_text_alone_becomes_a_message_before_ours() -> None:
    given = b'{ "input" :  "hi \\u00e4" , "tools":[{"name":"t"}], "model":"gpt-5.5"}'
    sent = json.loads(Live("whole", one_app()).send("openai-responses", given).data)
    assert sent["input"][0] == {"role": "user", "content": "hi ä"}
    assert [is_ours(one) for one in sent["input"]] == [False, True]
    assert sent["tools"] == [{"name": "t"}]


def test_behind_a_tool_s_result_mistral_is_given_a_word_between() -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "tool", "content": "done"}]
    given = body("openai-chat", messages=said, model="mistral-large-latest")
    passing = Passing("openai-chat", "/v1/chat/completions", {}, json.dumps(given).encode(), 0, 0)
    live = Live("whole", one_app())
    sent = live.tail.splice_into(live.world, passing, "https://api.mistral.ai/v1/chat/completions")
    assert [one["role"] for one in json.loads(sent.data)["messages"]][2:] == ["assistant", "user"]


@pytest.mark.parametrize(
    ("api", "more"),
    [
        ("anthropic", {"model": "claude-opus-5-5"}),
        ("anthropic", {"cache_control": {"type": "ephemeral"}}),
        ("openai-responses", {"model": "gpt-6.1-sol"}),
    ],
)
def test_where_what_was_sent_must_stay_it_stays_and_what_changed_is_told(
    api: Api, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sightline.gateway.tail.MOST_INSERTS", 8)
    live, given = Live("whole", one_app()), body(api, **more)
    first = states(api, live.send(api, given).data)
    for number in (2, 2, 3, 4, 5, 6):
        live.world, live.now = one_app(number), live.now + timedelta(seconds=1)
        given[LISTS[api]] += [{"role": "assistant", "content": "yes"}, given[LISTS[api]][0]]
        texts = states(api, live.send(api, given).data)
        assert texts[:1] == first
        assert len(texts) == number
        assert known_from(texts) == known_from([render_state(live.world, live.now)])


def test_a_history_that_the_vendor_holds_is_told_what_changed_and_nothing_again() -> None:
    live = Live("whole", one_app())
    first = live.send("openai-responses", given := body("openai-responses"))
    reply = f"resp_{len(json.dumps(given))}"
    texts = states("openai-responses", first.data)
    held = body("openai-responses", previous_response_id=reply, user="a")
    assert live.send("openai-responses", held).plan.words == "state as told"
    live.world = one_app(2)
    held = body("openai-responses", previous_response_id=f"resp_{len(json.dumps(held))}")
    [changes] = states("openai-responses", live.send("openai-responses", held).data)
    assert changes.startswith("Data from apps:")
    assert known_from([*texts, changes]) == known_from([render_state(live.world, live.now)])
    unknown = body("openai-responses", previous_response_id="resp_elsewhere")
    [whole] = states("openai-responses", live.send("openai-responses", unknown).data)
    assert known_from([whole]) == known_from([render_state(live.world, live.now)])
    talk = body("openai-responses", conversation={"id": "conv_1"})
    assert "state of" in live.send("openai-responses", talk).plan.words
    assert live.send("openai-responses", talk).plan.words == "state as told"


def test_what_was_told_is_put_back_after_a_restart_and_is_in_the_wire_file_alone(
    tmp_path: Path,
) -> None:
    path, given = tmp_path / "l.db", body()
    with Ledger(path) as ledger:
        for number in range(1, 4):
            journal = Journal(path)
            live = Live("session", one_app(number), journal)
            live.now += timedelta(seconds=number)
            sent = live.send("anthropic", given)
            data = json.dumps(given).encode()
            passing = Passing("anthropic", "/v1/messages", {"session-id": "s"}, data, 0, 0)
            passing.status, passing.tail = 200, sent.plan.words
            passed = Observer(ledger).observe(passing)
            assert "bytes" in line_of(passed)[0]
            texts = states("anthropic", sent.data)
            assert len(texts) == number
            given["messages"] += [{"role": "assistant", "content": "y"}, given["messages"][0]]
            journal.close()
        [session] = ledger.sessions.recent()
        for kept in ledger.exchanges.list(session.id):
            assert b"slop-state" not in ledger.exchanges.request(kept.id)
        journal = Journal(path)
        journal.forget([session.id], [session.name])
        journal.close()
    assert all(b"slop-state" not in file.read_bytes() for file in tmp_path.iterdir())
    journal = Journal(path)
    live = Live("session", one_app(9), journal)
    assert len(states("anthropic", live.send("anthropic", given).data)) == 1
    journal.close()


async def test_a_retry_of_an_agent_gets_the_same_and_a_socket_is_led_to_requests(
    gateway: Start,
) -> None:
    live, given = Live("whole", one_app()), json.dumps(body()).encode()
    with Vendor(Refuses("overloaded"), Fails(), says("well then")) as vendor:
        async with gateway({"anthropic": vendor.url, "openai": vendor.url}, live.tail) as run:
            address = f"{run.base}/anthropic/v1/messages"
            for number in (1, 2, 3, 4):
                live.world = one_app(number)
                await run.client.post(address, content=given)
                passed = await run.passed.get()
                assert passed.data == given
            await run.client.post(f"{address}/count_tokens", content=given)
            upgrade = await run.client.get(f"{run.base}/openai/v1/responses", headers=UPGRADE)
    refused, failed, answered, later, counted = [one.body for one in vendor.requests]
    assert refused == failed == answered
    assert [states("anthropic", one)[0].count("n=4") for one in (answered, later)] == [0, 1]
    assert counted == given
    assert upgrade.status_code == 426


@pytest.mark.parametrize(("leaves", "read", "cause"), [
    (0, 16_000, "lost"), (0.25, 16_000, None), (0.25, 8_000, "tail"),
])  # fmt: skip
def test_a_state_that_left_is_not_blamed_on_the_vendor(
    leaves: float, read: int, cause: str | None
) -> None:
    observer, first = Observer(), body("openai-responses", instructions="x" * 9_000)
    second = {**first, "input": [*first["input"], {"role": "assistant", "content": "yes"}]}
    before = answered_request("openai-responses", first)
    before.leaves = round(leaves * len(before.data))
    observer.observe(before)
    loss = observer.observe(answered_request("openai-responses", second, read=read, at=1.0)).loss
    assert (loss.cause if loss else None) == cause
