"""What if: a turn is assembled again from what it saw, by the strategies that are here."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host.helpers import NOW, hosted, invoke, turn
from sightline.config import Settings, WindowSettings
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger
from sightline.context.slots.slots import Budget
from sightline.errors import InvalidInput
from sightline.inspector import reader as inspector_reader
from sightline.inspector.reader import RecordReader
from sightline.inspector.whatif import Wishes
from support.live import LiveApp

SUPPORT = """
name = "support"


def on_context_build(ctx):
    ctx.slots.add("policy", "Never promise a refund.", role="system", stability="frozen")
    ctx.slots.add("talk", ctx.history.groups(50))
    ctx.slots.add("input", ctx.input)
    ctx.state["turns"] = ctx.state.get("turns", 0) + 1
    ctx.slots.add("count", f"turn {ctx.state['turns']}", stability="volatile")
"""
QUESTIONS = ("first", "second", "third", "fourth")
SCRIPT = ["One.", ["Counting.", invoke("c1", "/", "count")], "Two.", "Three.", "Four."]


def record(directory: Path, **settings: Any) -> None:
    """Four turns, the second of them with a call."""

    async def talk() -> None:
        async with hosted(directory, SCRIPT, app=LiveApp(), **settings) as (host, _):
            for text in QUESTIONS:
                await turn(host, text, answer=lambda _: True)

    asyncio.run(talk())


@contextmanager
def reading(directory: Path, settings: Settings | None = None) -> Iterator[RecordReader]:
    with Ledger(directory / "work.db", mode="read") as ledger:
        yield RecordReader(ledger, settings)


def texts(answer: dict[str, Any], *slots: str) -> list[str]:
    return [
        part["text"]
        for message in answer["messages"]
        if message["slot"] in slots
        for part in message["parts"]
    ]


def what_if(reader: RecordReader, turn_number: int = 4, **wishes: Any) -> dict[str, Any]:
    return reader.what_if(1, turn_number, 1, json.dumps(wishes).encode())


def test_as_it_was_has_the_history_that_was_sent_and_nothing_to_tell(tmp_path: Path) -> None:
    record(tmp_path)
    with reading(tmp_path) as reader:
        again = what_if(reader)
        assert again["strategy"] == "sightline"
        assert again["notes"] == []
        assert texts(again, "history") == texts(reader.request(1, 4, 1), "history")


@pytest.mark.parametrize("away", ["drop", "remove"])
def test_a_turn_keeps_the_history_it_saw_whatever_became_of_it(tmp_path: Path, away: str) -> None:
    record(tmp_path)
    with reading(tmp_path) as reader:
        sent = texts(reader.request(1, 4, 1), "history")
        assert any("second" in text for text in sent)
        assert what_if(reader, window=10)["notes"] == []
        assert texts(what_if(reader, window=10), "history") == sent
    with Ledger(tmp_path / "work.db") as ledger:
        second = ledger.groups.recent(1)[1].id
        getattr(ledger.groups, away)(1, second)
    with reading(tmp_path) as reader:
        for wishes in ({"window": 10}, {"budget": 20_000}, {"model": "anthropic"}):
            again = what_if(reader, **wishes)
            assert any("second" in text for text in texts(again, "history")), wishes
            assert any("ledger has changed since: 1 of the 3" in note for note in again["notes"])
        assert texts(what_if(reader, window=10), "history") == sent


def test_a_group_that_the_turn_did_not_see_stays_out(tmp_path: Path) -> None:
    async def talk() -> None:
        async with hosted(tmp_path, ["One.", "Two.", "Three."]) as (host, _):
            await turn(host, "first")
            await turn(host, "second")
            second = host.ledger.groups.recent(1)[1].id
            host.ledger.groups.drop(1, second)
            await turn(host, "third")
            host.ledger.groups.restore(1, second)

    asyncio.run(talk())
    with reading(tmp_path) as reader:
        assert texts(what_if(reader, 3, window=10), "history") == ["first", "One."]


def test_a_wider_window_than_the_turn_had_says_where_the_rest_is_from(
    tmp_path: Path,
) -> None:
    record(tmp_path, window=WindowSettings(size=2, slack=0))
    with reading(tmp_path) as reader:
        assert "first" not in texts(reader.request(1, 4, 1), "history")
        wider = what_if(reader, window=10, slack=0)
        assert texts(wider, "history")[0] == "first"
        assert any("further back" in note for note in wider["notes"])


def test_the_configured_strategy_is_offered_by_its_name_and_run_as_the_host_runs_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "support.py"
    file.write_text(SUPPORT, encoding="utf-8")
    record(tmp_path, strategy=str(file))
    with reading(tmp_path, Settings(strategy=str(file))) as reader:
        assert {"support.py", "sightline", "classic", "minimal"} <= set(
            reader.choices()["strategies"]
        )
        sent = reader.request(1, 4, 1)
        again = what_if(reader)
        assert again["strategy"] == "support.py"
        for slots in (("policy",), ("talk",), ("count",), ("input",)):
            assert texts(again, *slots) == texts(sent, *slots)
        assert texts(again, "count") == ["turn 5"], "a request each, and one more for the call"
        ours = what_if(reader, strategy="sightline")
        assert texts(ours, "history") == texts(sent, "talk")
        assert texts(ours, "input") == ["fourth"]


@pytest.mark.parametrize(
    ("option", "value"), [("priority", 7), ("min_tokens", 20), ("max_ratio", 1), ("slack", 0.2)]
)
def test_every_option_of_a_slot_that_the_page_offers_can_be_tried(
    tmp_path: Path, option: str, value: float
) -> None:
    record(tmp_path)
    with reading(tmp_path) as reader:
        made = what_if(reader, slots={"history": {option: value}})
        assert made["notes"] == []
        assert f"# slot history: {option} = {value} " in made["config"]


def test_a_strategy_can_only_be_named_as_it_is_offered(tmp_path: Path) -> None:
    file = tmp_path / "support.py"
    file.write_text(SUPPORT, encoding="utf-8")
    record(tmp_path)
    for settings in (Settings(), Settings(strategy=str(file))):
        with reading(tmp_path, settings) as reader:
            for name in (str(file), "os", "../support.py", "sightline.agent.plugins.run"):
                with pytest.raises(InvalidInput, match="there is no strategy"):
                    what_if(reader, strategy=name)


def test_a_strategy_that_fails_says_so_and_the_built_in_layout_is_shown(
    tmp_path: Path,
) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def on_context_build(ctx):\n    raise ValueError('no luck')\n")
    record(tmp_path)
    with reading(tmp_path, Settings(strategy=str(file))) as reader:
        again = what_if(reader, strategy="broken.py")
        assert any("no luck" in note for note in again["notes"])
        assert texts(again, "input") == ["fourth"]


def test_a_turn_whose_strategy_is_gone_says_so(tmp_path: Path) -> None:
    file = tmp_path / "support.py"
    file.write_text(SUPPORT, encoding="utf-8")
    record(tmp_path, strategy=str(file))
    with reading(tmp_path) as reader:
        again = what_if(reader)
        assert again["strategy"] == "sightline"
        assert any("support.py" in note for note in again["notes"])


@given(st.integers(100, 2_000_000), st.integers(0, 200_000))
def test_a_wish_written_as_configuration_is_read_as_that_wish(budget: int, output: int) -> None:
    wishes = Wishes(budget=budget, window=7, slack=2, strategy="classic", model="mine:m/1")
    read = tomllib.loads(wishes.config("mine:m/1", output))
    room = read["profiles"]["mine:m/1"]
    assert Budget.for_window(**room).max_input_tokens == budget
    assert read["window"] == {"size": 7, "slack": 2}
    assert (read["strategy"], read["model"]) == ("classic", "mine:m/1")


def test_a_budget_for_an_endpoint_s_own_model_is_written_for_that_model(tmp_path: Path) -> None:
    record(tmp_path)
    with reading(tmp_path) as reader:
        made = what_if(reader, model="anthropic", budget=20_000)
    profiles = tomllib.loads(made["config"])["profiles"]
    assert list(profiles) == [f"anthropic:{profile_for('anthropic').model}"]


def test_what_is_looked_at_again_is_dated_as_the_host_dates_it(tmp_path: Path) -> None:
    record(tmp_path, clock=lambda: NOW.replace(microsecond=629_603))
    with reading(tmp_path) as reader:
        shown = "".join(texts(what_if(reader, budget=50_000), "state"))
    assert 'generated_at="2026-04-28T10:30:00Z"' in shown


def test_all_turns_together_are_the_sum_of_each_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path)
    with reading(tmp_path) as reader:
        wishes = {"window": 1, "slack": 0}
        every = reader.what_if_all(1, json.dumps(wishes).encode())
        last = [(1, 1), (2, 2), (3, 1), (4, 1)]
        sent = [reader.request(1, *numbers)["receipt"]["total"] for numbers in last]
        body = json.dumps(wishes).encode()
        other = [reader.what_if(1, *numbers, body)["receipt"]["total"] for numbers in last]
        assert every["tokens"] == (sum(sent), sum(other))
        assert every["summary"].startswith("3 of 4 turns lose history")
        assert tomllib.loads(every["config"]) == {"window": {"size": 1, "slack": 0}}
        tight = reader.what_if_all(1, b'{"budget":1}')
        assert tight["summary"] == "4 of 4 turns do not fit"
        assert reader.request(1, 1, 1)["model"] in tomllib.loads(tight["config"])["profiles"]
        monkeypatch.setattr(inspector_reader, "MOST_TURNS", 1)
        assert reader.what_if_all(1, body)["notes"] == ["only the newest 1 of 4 turns"]
