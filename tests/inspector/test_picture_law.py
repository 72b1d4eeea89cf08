"""Picture agrees with Changes and with the published reuse, for 2,000 pairs of requests."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sightline.context.dialects import encode, profile_for
from sightline.context.dialects.events import Usage
from sightline.context.messages.parts import File, Message, Text, ToolCall, ToolResult
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.slots import Budget, Slots
from sightline.context.tokens.tokens import counter_for
from sightline.gateway.bodies import Api, read_body
from sightline.gateway.observer import Passed, profile_of
from sightline.inspector.agents import AgentRequest, departure, picture_of
from sightline.inspector.reader import picture_of_prompt
from sightline.inspector.wires import compared, key_of
from support.node_app import ROOT, node_program
from support.share import share

PAIRS = share(2_000)
LAW = Path(__file__).with_name("picture.law.js")
APIS: tuple[Api, ...] = ("anthropic", "openai-responses", "openai-chat", "gemini")
WORDS = ("state", "inbox", "ἄνευ", '"quoted"', "\\", "\n", "row 7", "a b", "1,204", "é")
PICTURES = ("data:image/png;base64,aGk=", "data:image/png;base64,aG8=")


def text(chance: random.Random, most: int = 30) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, most)))


# The host's requests: slots of messages.

Layout = dict[str, list[Message]]
TAIL = ("memos", "scratchpad", "state")


def layout(chance: random.Random) -> Layout:
    """Slots as the host has them; some are empty, or missing."""
    slots: Layout = {
        "system": [Message.of("system", text(chance, 90))],
        "guidelines": [Message.of("system", text(chance, 40))],
        "history": [],
        "input": [question(chance)],
        "rounds": [],
        **{name: [Message.of("user", text(chance, 60))] for name in TAIL},
    }
    for _ in range(chance.randint(0, 4)):
        slots["history"] += [question(chance), Message.of("assistant", text(chance))]
    for name in chance.sample(("guidelines", *TAIL), chance.choice((0, 0, 1, 2))):
        del slots[name]
    for _ in range(chance.choice((0, 0, 1, 2))):
        slots["rounds"] += tool_round(chance)
    return slots


def question(chance: random.Random) -> Message:
    file = [File(chance.choice(PICTURES), "image/png", "a.png")] * (chance.random() < 0.2)
    return Message("user", (Text(text(chance)), *file))


def tool_round(chance: random.Random) -> list[Message]:
    name = f"c{chance.randrange(10**9)}"
    call = ToolCall(name, "run", {"path": text(chance, 3)})
    return [Message("assistant", (call,)), Message("tool", (ToolResult(name, text(chance)),))]


def later(slots: Layout, chance: random.Random) -> Layout:
    """What a host may send next: nothing new, new state, a round, a turn, a fold, an edit."""
    now = {name: list(messages) for name, messages in slots.items()}
    for change in chance.sample(CHANGES, chance.choice((0, 1, 1, 1, 2, 3))):
        if change == "state" and "state" in now:
            old = now["state"][0].text
            now["state"] = [Message.of("user", old[: len(old) // 2] + text(chance))]
        elif change == "round":
            now["rounds"] += tool_round(chance)
        elif change == "turn":
            now["history"] += [*now["input"], *now["rounds"]]
            now["history"] += [Message.of("assistant", text(chance))] * (chance.random() < 0.8)
            now |= {"input": [question(chance)], "rounds": []}
        elif change == "fold":
            now["history"] = now["history"][2:]
        elif change == "shorter":
            now["history"] = now["history"][:-2]
        elif change == "swapped":
            now["history"] = now["history"][2:4] + now["history"][:2] + now["history"][4:]
        elif change == "system":
            now["system"] = [Message.of("system", now["system"][0].text + text(chance, 4))]
        elif change == "memos":
            now["memos"] = [Message.of("user", text(chance))]
        elif change == "file":
            words = [part for part in now["input"][0].parts if isinstance(part, Text)]
            now["input"] = [
                Message("user", (*words, File(chance.choice(PICTURES), "image/png", "a.png")))
            ]
        elif change == "gone":
            now.pop(chance.choice(TAIL), None)
    return now


CHANGES = (
    "state", "state", "state", "round", "turn", "fold", "shorter", "swapped", "system", "memos",
    "file", "gone",
)  # fmt: skip


def tools(chance: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {"name": f"t{n}", "description": text(chance), "parameters": {"type": "object"}}
        for n in range(count)
    ]


def prompt_of(slots: Layout, given: list[dict[str, Any]], budget: int) -> Prompt:
    made = Slots(Budget(budget), counter_for("estimate"), tools=given)
    for name, messages in slots.items():
        made.add(
            name,
            messages,
            priority=5 if name == "history" else 50,
            stability="volatile" if name in TAIL else "append",
        )
    return made.render()


def host_pair(chance: random.Random, endpoint: str) -> dict[str, Any]:
    profile = profile_for(endpoint)
    was, given = layout(chance), tools(chance, chance.choice((0, 1, 3)))
    now = later(was, chance)
    renewed = tools(chance, 2) if chance.random() < 0.1 else given
    budget = chance.choice((4_000, 4_000, 900))
    prompts = prompt_of(was, given, 4_000), prompt_of(now, renewed, budget)
    made = [(prompt, encode(prompt, profile)) for prompt in prompts]
    before, after = (
        {
            **picture_of_prompt(prompt, request),
            "tools": key_of(prompt.tools) if prompt.tools else "",
            "request": {"body": request.data.decode()},
        }
        for prompt, request in made
    )
    return {"before": before, "after": {**after, "drift": compared(*made)}}


# Other agents' requests: bodies.

Said = list[tuple[str, str]]


def body_of(api: Api, given: list[dict[str, Any]], system: str, said: Said) -> dict[str, Any]:
    """A request as an agent writes it to one of four APIs."""
    if api == "gemini":
        contents = [
            {"role": "model" if role == "assistant" else role, "parts": [{"text": words}]}
            for role, words in said
        ]
        held = {"systemInstruction": {"parts": [{"text": system}]}}
        declared = {"tools": [{"functionDeclarations": given}]} if given else {}
        return {**held, **declared, "contents": contents}
    messages: list[dict[str, Any]] = [{"role": role, "content": words} for role, words in said]
    if api == "anthropic":
        listed = [{"name": one["name"], "input_schema": one["parameters"]} for one in given]
        return {"model": "m", "system": system, "tools": listed, "messages": messages}
    if api == "openai-responses":
        listed = [{"type": "function", **one} for one in given]
        return {"model": "m", "instructions": system, "tools": listed, "input": messages}
    listed = [{"type": "function", "function": one} for one in given]
    first = [{"role": "system", "content": system}]
    return {"model": "m", "tools": listed, "messages": first + messages}


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """The same with a cache mark on its last message, which is no content."""
    *rest, last = body["messages"]
    block = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
    return {**body, "messages": [*rest, {**last, "content": [block]}]}


def agent_request(
    chance: random.Random, api: Api, turn: int, body: dict[str, Any], states: tuple[str, ...]
) -> AgentRequest:
    data = msgspec.json.encode(body)
    read = read_body(api, data, "/models/m:generateContent")
    assert read is not None
    used = Usage(chance.choice((0, 500, 20_000)), 9)
    passed = Passed("", api, "m", 200, len(data), 1, 2, usage=used, leaves=bool(states))
    return AgentRequest(turn, passed, data, read, states)


def agent_pair(chance: random.Random, api: Api) -> dict[str, Any]:
    given, system = tools(chance, chance.choice((0, 1, 3))), text(chance, 80)
    said = [("user", text(chance))]
    for _ in range(chance.randint(0, 4)):
        said += [("assistant", text(chance)), ("user", text(chance))]
    now = list(said)
    change = chance.choice(
        ("none", "turn", "turn", "turn", "edit", "drop", "fold", "swap", "tools")
    )
    if change == "turn":
        now += [("assistant", text(chance)), ("user", text(chance))]
    elif change == "edit":
        now[chance.randrange(len(now))] = ("user", text(chance))
    elif change == "drop":
        now = now[:-1] or now
    elif change == "fold":
        now = now[2:] or now
    elif change == "swap":
        now = now[2:4] + now[:2] + now[4:]
    listed = given[::-1] if change == "tools" else given
    words = text(chance, 80) if chance.random() < 0.2 else system
    states = [(text(chance),) if chance.random() < 0.4 else () for _ in range(2)]
    bodies = [body_of(api, given, system, said), body_of(api, listed, words, now)]
    if api == "anthropic":
        bodies = [marked(body) if chance.random() < 0.5 else body for body in bodies]
    if api == "openai-responses" and chance.random() < 0.2:
        bodies[1] |= {"previous_response_id": "r1", "input": bodies[1]["input"][-1:]}
    old, new = (
        agent_request(chance, api, at, body, state)
        for at, (body, state) in enumerate(zip(bodies, states, strict=True), 1)
    )
    answers = []
    for one in (old, new):
        assert one.body is not None
        shown = picture_of(one, one.body, profile_of(one.body))
        answers.append({**shown, "request": {"body": one.data.decode()}})
    assert new.body is not None
    drift = departure(old, new, profile_of(new.body))
    return {"before": answers[0], "after": {**answers[1], "drift": drift}}


def pairs(chance: random.Random) -> Iterator[dict[str, Any]]:
    for at in range(PAIRS):
        name = APIS[at // 2 % len(APIS)]
        made = host_pair(chance, name) if at % 2 else agent_pair(chance, name)
        yield {**made, "name": f"{'host' if at % 2 else 'agent'} {name}"}


def judged(file: Path, *options: str) -> list[str]:
    """Try the laws in the page's own modules; the first line counts the broken ones."""
    command = [node_program(), str(LAW), str(file), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    with path.open("w") as file:
        for pair in pairs(random.Random(37)):
            file.write(json.dumps(pair) + "\n")
    return path


def test_picture_agrees_with_changes_and_the_published_reuse(written: Path) -> None:
    count, *broken = judged(written)
    assert json.loads(count) == {"pairs": PAIRS, "broken": 0}, broken


def test_picture_law_finds_the_rule_that_fills_slots_from_the_front(written: Path) -> None:
    """The control: with the sum that the page used before, the law is broken."""
    assert json.loads(judged(written, "control")[0])["broken"] > PAIRS / 5
