"""A wish for what a turn had anyway is the recorded prompt, whatever was set and said."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.host.helpers import hosted, invoke, turn
from sightline.config import (
    EndpointSettings,
    Settings,
    TailSettings,
    TruncationSettings,
    WindowSettings,
)
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import ToolCall
from sightline.errors import InvalidInput
from sightline.inspector.reader import RecordReader
from support.live import LiveApp

LONG = "A result that is longer than what is left of it once its turn is over. " * 30
GPT = profile_for("openai-chat", "gpt-5.5")
CLAUDE = profile_for("anthropic", "claude-sonnet-5-5")  # whose turns keep their tails
# The same, in a window that the session outgrows.
NARROW = msgspec.structs.replace(
    profile_for("mistral"), window_tokens=17_000, max_output_tokens=1_000
)


def echo(call_id: str) -> ToolCall:
    return invoke(call_id, "/", "echo", text=LONG)


SCRIPT: list[Any] = [
    [echo("a")], [ToolCall("b", "describe_db", {})], "One.",
    [echo("c")], "Two.",
    "Three.",
    ["Again.", echo("d")], "Four.",
    "Five.",
]  # fmt: skip
REQUESTS = [(4, 2), (5, 1)]
SETTLED = TruncationSettings(settle=True)
FOLDING = WindowSettings(size=3, slack=1)
# By name: what is set, and how many results of ended turns the last request has in part.
SETTINGS: dict[str, tuple[dict[str, Any], int]] = {
    "default": ({}, 4),
    "kept tails": ({}, 4),
    "translated": ({"isolate": "translate"}, 4),
    "hard cuts": ({"truncation": TruncationSettings(recent=100, inactive=50)}, 4),
    "few in full": ({"truncation": TruncationSettings(count=1)}, 4),
    "settled": ({"truncation": SETTLED}, 0),
    "settled and brief": ({"truncation": SETTLED, "tail": TailSettings(repeat="brief")}, 4),
    "settled and folding": ({"truncation": SETTLED, "window": FOLDING}, 1),
    "little state": ({"tail": TailSettings(max_share=0.0002)}, 4),
    "brief": ({"tail": TailSettings(repeat="brief")}, 4),
    "session": ({"tail": TailSettings(repeat="session")}, 4),
    "folding": ({"window": FOLDING}, 1),
    "sliding": ({"window": WindowSettings(size=2, slack=0)}, 1),
    "classic": ({"strategy": "classic"}, 4),
}


def record(directory: Path, settings: dict[str, Any], profile: Profile = GPT) -> None:
    async def talk() -> None:
        async with hosted(
            directory, SCRIPT, app=LiveApp(), profile=profile, mode="auto", **settings
        ) as (host, _):
            for text in ("first", "second", "third", "fourth", "fifth"):
                await turn(host, text, answer=lambda _: True)

    asyncio.run(talk())


def told(answer: dict[str, Any]) -> list[Any]:
    return [(one["slot"], one["role"], one["tokens"], one["parts"]) for one in answer["messages"]]


def what_if(reader: RecordReader, place: tuple[int, int], **wishes: Any) -> dict[str, Any]:
    return reader.what_if(1, *place, json.dumps(wishes).encode())


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wish_for_what_was_is_the_prompt_that_was(tmp_path: Path, name: str) -> None:
    given, cut = SETTINGS[name]
    record(tmp_path, given, CLAUDE if name == "kept tails" else GPT)
    settings = Settings(**given)
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger, settings)
        for place in REQUESTS:
            sent = reader.request(1, *place)
            for wishes in (
                {},
                {"budget": sent["receipt"]["budget"]},
                {"budget": sent["receipt"]["budget"] + 1},
                {"window": settings.window.size},
                {"window": settings.window.size, "slack": settings.window.slack},
                {"strategy": settings.strategy},
                {"model": sent["model"]},
            ):
                again = what_if(reader, place, **wishes)
                assert told(again) == told(sent), (place, wishes)
                assert again["notes"] == []
                assert again["against_recorded"]["cause"].startswith("none")
        said = json.dumps(told(reader.request(1, 5, 1)))
        assert said.count("[TRUNCATED.") == cut
        assert ("Message 3" in said) is (name != "little state")


def test_more_room_brings_back_what_was_cut_and_the_same_room_cuts_the_same(
    tmp_path: Path,
) -> None:
    given: dict[str, Any] = {
        "strategy_config": {"history_share": 0.1, "slack": 0}, "truncation": SETTLED,
    }  # fmt: skip
    record(tmp_path, given, NARROW)
    settings = Settings(**given)
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger, settings)
        sent = reader.request(1, 5, 1)
        assert sent["receipt"]["slots"][2]["cut"] > 0
        budget = sent["receipt"]["budget"]
        assert told(what_if(reader, (5, 1), budget=budget + 1)) == told(sent)
        wider = what_if(reader, (5, 1), budget=10 * budget)
        assert wider["receipt"]["slots"][2]["cut"] == 0
        first = next(one for one in told(wider) if one[0] == "history")
        assert first[3][0]["text"] == "first"
        assert json.dumps(told(wider)).count(LONG) == 6, "calls and results, whole"


def test_live_state_has_the_share_of_another_budget_that_it_had_of_its_own(
    tmp_path: Path,
) -> None:
    record(tmp_path, SETTINGS["little state"][0])
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger, Settings(**SETTINGS["little state"][0]))
        budget = reader.request(1, 5, 1)["receipt"]["budget"]
        assert "Message 3" not in json.dumps(told(what_if(reader, (5, 1), budget=budget - 1)))
        assert "Message 3" in json.dumps(told(what_if(reader, (5, 1), budget=20 * budget)))


def test_what_was_not_seen_is_seen_by_the_wish_that_stands_beside_it(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "strategy_config": {"history_share": 0.1, "slack": 0},
        "window": WindowSettings(size=4, slack=0),
        "truncation": TruncationSettings(inactive=1_500),
        "tail": TailSettings(max_tokens=160, max_share=0.009),
    }  # fmt: skip
    record(tmp_path, given, NARROW)
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger, Settings(**given))
        kinds = set()
        for place in ((4, 2), (5, 1)):
            for item in reader.unseen(1, *place)["unseen"]:
                wish = dict(item.wish)
                if not wish:
                    continue
                kinds.add(item.kind)
                if slot := wish.pop("of", None):
                    wish["slots"] = {slot: {"max_ratio": wish.pop("max_ratio")}}
                sent, other = reader.request(1, *place), what_if(reader, place, **wish)
                assert tomllib.loads(other["config"]) or "slots" in wish
                if item.kind == "result":
                    assert item.what.split()[-1].rstrip(")") not in cut_ids(other)
                    assert item.what.split()[-1].rstrip(")") in cut_ids(sent)
                elif item.kind == "turns":
                    assert offered(other, "history") > offered(sent, "history")
                else:
                    name = "state" if item.kind == "nodes" else slot
                    assert kept(other, name) > kept(sent, name)
                    assert cut(other, name) == 0
        assert kinds == {"result", "turns", "message", "nodes"}


def cut_ids(answer: dict[str, Any]) -> set[str]:
    """The messages of which a prompt has results in part."""
    return set(re.findall(r"WHERE id=(\d+)", json.dumps(told(answer))))


def offered(answer: dict[str, Any], slot: str) -> int:
    return sum(line["offered"] for line in answer["receipt"]["slots"] if line["name"] == slot)


def kept(answer: dict[str, Any], slot: str) -> int:
    return sum(line["kept"] for line in answer["receipt"]["slots"] if line["name"] == slot)


def cut(answer: dict[str, Any], slot: str) -> int:
    return sum(line["cut"] for line in answer["receipt"]["slots"] if line["name"] == slot)


OWN = {
    "own": EndpointSettings(base_url="http://127.0.0.1:9/v1", dialect="openai-chat"),
    "other": EndpointSettings(base_url="http://127.0.0.1:9/v1", model="m"),
    "openai-chat": EndpointSettings(model="gpt-5.5"),
}


def test_a_model_of_an_endpoint_in_the_settings_can_be_wished_for(tmp_path: Path) -> None:
    record(tmp_path, {})
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger, Settings(endpoints=OWN))
        assert {"own", "other", "openai-chat"} <= set(reader.choices()["models"])
        sent = reader.request(1, 5, 1)
        own = what_if(reader, (5, 1), model="own:gpt-5.5")
        assert own["model"] == "own:gpt-5.5"
        parts = [[one[3] for one in told(answer)] for answer in (own, sent)]
        assert parts[0] == parts[1], "it speaks alike"
        assert what_if(reader, (5, 1), model="other")["window_tokens"] > 0
        assert told(what_if(reader, (5, 1), model="openai-chat")) == told(sent), "its own"
        with pytest.raises(InvalidInput, match="which model"):
            what_if(reader, (5, 1), model="own")


@pytest.mark.parametrize(("isolate", "kept"), [("isolate", False), ("translate", True)])
def test_another_vendor_gets_the_calls_if_the_settings_say_so(
    tmp_path: Path, isolate: Any, kept: bool
) -> None:
    record(tmp_path, {})
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        reader = RecordReader(ledger, Settings(isolate=isolate))
        other = what_if(reader, (5, 1), model="anthropic")
        assert any(part["kind"] == "call" for one in told(other) for part in one[3]) is kept
