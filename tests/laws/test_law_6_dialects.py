"""Law 6, in every dialect: a request up to its boundary is the beginning of the next one.

A thousand random conversations per dialect, each sent at every point where a host would
send it: after a user's input and after every round of tools, with another tail each time.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from context.projection.requirements import proves
from sightline.context.dialects import Options, encode, endpoints, profile_for
from sightline.context.dialects.drift import drift
from sightline.context.dialects.profile import Profile
from sightline.context.messages.parts import (
    File,
    Message,
    Part,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.tail import render_tail
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.slop.protocol.world import World
from support.share import share

CONVERSATIONS = share(1_000)
WORDS = ("state", "inbox", "☃", "ἄνευ", '"quoted"', "\\", "\n", "</slop-state>", "0", "a b")
RAWS = {
    "anthropic": {"type": "thinking", "thinking": "t", "signature": "s"},
    "openai_responses": {"type": "reasoning", "id": "r", "summary": []},
    "bedrock": {"reasoningText": {"text": "t", "signature": "s"}},
    "openai_chat": {"field": "reasoning_content"},
    "ollama": {"field": "thinking"},
}
TOOLS = tuple({"name": name, "parameters": {"type": "object"}} for name in ("a.b", "A", "run"))
RECEIPT = Receipt(1, "", "counted", 0, 0, 0, 1, 0, "", ())
PICTURE = File("data:image/png;base64,aGk=", "image/png")


def text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))


def requests(chance: random.Random) -> Iterator[tuple[Message, ...]]:
    """Grow a conversation; yield what is stored each time the model is asked."""
    stored = [Message.of("system", text(chance))] if chance.random() < 0.8 else []
    for turn in range(chance.randint(1, 3)):
        said: list[Part] = [Text(text(chance))]
        if chance.random() < 0.2:
            said.append(PICTURE)
        stored.append(Message("user", tuple(said)))
        if chance.random() < 0.1:
            stored.append(Message.of("system", text(chance)))
        yield tuple(stored)
        for number in range(chance.choice((0, 0, 1, 2))):
            stored += tool_round(chance, f"{turn}/{number}")
            yield tuple(stored)
        stored.append(Message("assistant", (*thoughts(chance), Text(text(chance)))))


def thoughts(chance: random.Random) -> tuple[Part, ...]:
    if chance.random() < 0.5:
        return ()
    strategy = chance.choice(list(RAWS))
    return (Reasoning("t", Raw(strategy, RAWS[strategy])),)


def tool_round(chance: random.Random, place: str) -> list[Message]:
    count = chance.randint(1, 3)
    calls = [
        ToolCall(f"call {place}/{i}", chance.choice(("a.b", "A", "gone"))) for i in range(count)
    ]
    results = [ToolResult(c.id, text(chance), c.name, chance.random() < 0.2) for c in calls]
    said = (Text(text(chance)),) if chance.random() < 0.5 else ()
    asked = Message("assistant", (*thoughts(chance), *said, *calls))
    if chance.random() < 0.5:
        return [asked, Message("tool", tuple(results))]
    return [asked, *(Message("tool", (result,)) for result in results)]


def prompt(stored: tuple[Message, ...], chance: random.Random) -> Prompt:
    tail = [Message.of("user", text(chance)) for _ in range(chance.choice((0, 1, 1, 2)))]
    return Prompt((*stored, *tail), len(stored), RECEIPT, TOOLS)


def check(profile: Profile, conversations: int, seed: int) -> None:
    chance = random.Random(seed)
    options = Options(conversation="c")
    for _ in range(conversations):
        previous = None
        for stored in requests(chance):
            request = encode(prompt(stored, chance), profile, options)
            if previous is not None:
                assert request.wire.data.startswith(previous.prefix)
                if chance.random() < 0.1:
                    assert drift(previous.wire, request.wire).expected
            previous = request


REFERS = re.compile(r"unchanged since observation (\d+) of this turn")


def check_kept_tails(profile: Profile, conversations: int, seed: int) -> None:
    """The same where tails stay for a turn; and what a tail refers to is in the request."""
    chance = random.Random(seed)
    moods = [render_tail(World(), parse_moment(f"2026-11-15T06:00:0{n}Z")).text for n in (0, 1)]
    moods.append(moods[0].replace("(no app is connected)", "something else"))
    referred = 0
    for _ in range(conversations):
        previous = None
        for stored in requests(chance):
            sent = previous.sent if previous is not None else ()
            told = Options(conversation="c", thinking="turn_append", repeat="brief", sent=sent)
            tail = Message.of("user", chance.choice(moods))
            made = Prompt((*stored, tail), len(stored), RECEIPT, TOOLS)
            request = encode(made, profile, told)
            if previous is not None:
                assert request.wire.data.startswith(previous.prefix)
                assert drift(previous.wire, request.wire).expected
            body = request.data.decode()
            for number in REFERS.findall(body):
                referred += 1
                assert f"Observation {number} of this turn; it replaces" in body
            previous = request
    assert referred > conversations / 4


@pytest.mark.parametrize("endpoint", endpoints())
def test_so_it_does_where_tails_stay_in_place_for_a_turn(endpoint: str) -> None:
    check_kept_tails(profile_for(endpoint), 100, seed=46)


# The wire formats; the others are Chat Completions with other data.
OWN = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock", "ollama")


@proves("CI-X")
@pytest.mark.parametrize("endpoint", OWN)
def test_a_request_begins_with_the_previous_one_up_to_its_boundary(endpoint: str) -> None:
    check(profile_for(endpoint), CONVERSATIONS, seed=6)


@pytest.mark.parametrize("endpoint", [name for name in endpoints() if name not in OWN])
def test_so_it_does_with_every_compatible_profile(endpoint: str) -> None:
    check(profile_for(endpoint), 100, seed=16)


MODELS = [
    ("bedrock", "meta.llama4-maverick"),
    ("bedrock", "us.amazon.nova-pro"),
    ("openai-chat", "gpt-4o"),
    ("anthropic", "claude-haiku-4-5"),
    ("llama.cpp", "gemma-3"),
    ("vllm", "mistral-small"),
]


@pytest.mark.parametrize(("endpoint", "model"), MODELS)
def test_so_it_does_with_models_that_have_their_own_ways(endpoint: str, model: str) -> None:
    check(profile_for(endpoint, model), 100, seed=26)


@pytest.mark.parametrize("endpoint", ["openai-chat", "anthropic", "gemini"])
def test_without_cache_marks_the_bytes_sent_are_the_bytes_compared(endpoint: str) -> None:
    profile = profile_for(endpoint, overrides={"cache.style": "automatic"})
    chance = random.Random(36)
    for stored in requests(chance):
        request = encode(prompt(stored, chance), profile)
        assert request.data == request.wire.data
