"""What followed the input in a turn stands behind it, wherever the strategy put the input."""

from __future__ import annotations

import pytest

from sightline.agent.plugins.run import StrategyRunner
from sightline.context.messages.parts import Input, Message, ToolCall, ToolResult
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.slots import Budget, Slots
from sightline.context.slots.strategies import BUILT_IN
from sightline.context.slots.strategy import Layers, Turn
from sightline.context.tokens.tokens import counter_for

ASKED = Input("the question")


def rounds(count: int, size: int = 40) -> list[Message]:
    return [
        message
        for n in range(count)
        for message in (
            Message("assistant", (ToolCall(f"c{n}", "look", {}),)),
            Message("tool", (ToolResult(f"c{n}", f"{n} " + "x" * size),)),
        )
    ]


def rendered(count: int, budget: int = 10_000, *, size: int = 40) -> Prompt:
    slots = Slots(budget, "chars/4", input=ASKED, rounds=rounds(count, size))
    slots.add("system", "s", role="system", priority=100)
    slots.add("history", [Message.of("user", "before"), Message.of("assistant", "yes")])
    slots.add("input", ASKED, priority=80)
    slots.add("state", "now", stability="volatile", priority=70)
    return slots.render()


def test_they_stand_between_the_input_and_the_tail() -> None:
    prompt = rendered(2)
    texts = [message.text or message.role for message in prompt.messages]
    assert texts == ["s", "before", "yes", "the question", "assistant", "tool", "assistant",
                     "tool", "now"]  # fmt: skip
    assert prompt.boundary == 8
    assert prompt.receipt.slot("rounds").kept > 0


def test_a_request_of_the_loop_begins_with_the_one_before() -> None:
    assert rendered(3).prefix[: rendered(2).boundary] == rendered(2).prefix


def test_without_any_there_is_no_slot() -> None:
    assert "rounds" not in {slot.name for slot in rendered(0).receipt.slots}


def test_a_long_loop_loses_its_oldest_rounds_and_never_the_question() -> None:
    prompt = rendered(40, budget=1_000, size=200)
    texts = [message.text for message in prompt.messages]
    assert "the question" in texts
    assert texts[-1] == "now"
    line = prompt.receipt.slot("rounds")
    assert line.cut > 0
    assert prompt.messages[-2].tool_results[0].call_id == "c39"
    assert len([m for m in prompt.messages if m.tool_calls]) == len(
        [m for m in prompt.messages if m.tool_results]
    )


def test_an_input_that_nobody_placed_has_them_behind_it_too() -> None:
    slots = Slots(10_000, "chars/4", input=ASKED, rounds=rounds(1))
    slots.add("history", [Message.of("user", "before")])
    roles = [message.role for message in slots.render().messages]
    assert roles == ["user", "user", "assistant", "tool"]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
async def test_every_built_in_strategy_places_them(name: str) -> None:
    turn = Turn(
        input=ASKED, history=[Message.of("user", "before")], budget=Budget(10_000),
        counter=counter_for("chars/4"), layers=Layers(system="s", state="now"), rounds=rounds(1),
    )  # fmt: skip
    built = await StrategyRunner(BUILT_IN[name]).build(turn, {})
    assert built.failure is None
    texts = [message.text for message in built.prompt.messages]
    at = texts.index("the question")
    assert [m.role for m in built.prompt.messages[at + 1 : at + 3]] == ["assistant", "tool"]
