"""A bad strategy costs a warning and nothing else."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sightline.agent.plugins.run import Built, HookLimits, Left, StrategyRunner
from sightline.context.messages.parts import Input, Message
from sightline.context.slots.slots import Budget, Slots
from sightline.context.slots.strategy import Context, Layers, Strategy, Turn
from sightline.context.tokens.tokens import CharsPerFour
from sightline.errors import DoesNotFit, InvalidStrategy

HISTORY = [Message.of("user", "before"), Message.of("assistant", "answer")]
LAYERS = Layers(system="System")
FAST = HookLimits(0.2, 0.2, 0.2, 0.2)
PATIENT = HookLimits(60, 60, 60, 60)  # who answers has time enough, also on a busy machine


def turn(budget: int = 1000, **more: Any) -> Turn:
    return Turn(Input("now"), HISTORY, Budget(budget), CharsPerFour(), LAYERS, **more)


def runner(limits: HookLimits = PATIENT, **hooks: Any) -> StrategyRunner:
    return StrategyRunner(Strategy("mine", hooks), limits=limits)


def build(
    state: dict[str, Any] | None = None,
    given: Turn | None = None,
    limits: HookLimits = PATIENT,
    **hooks: Any,
) -> Built:
    return asyncio.run(runner(limits, **hooks).build(given or turn(), state or {}))


def texts(built: Built) -> list[str]:
    return [message.text for message in built.prompt.messages]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event that a hook can wait for in vain; it is let go when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_a_strategy_builds_the_prompt() -> None:
    def on_context_build(ctx: Context) -> object:
        ctx.slots.add("only", ctx.input)
        return ctx.slots.render()

    built = build(on_context_build=on_context_build)
    assert texts(built) == ["now"]
    assert built.failure is None


def test_a_strategy_may_be_async_and_return_nothing() -> None:
    async def on_context_build(ctx: Context) -> None:
        ctx.slots.add("only", ctx.input)

    assert texts(build(on_context_build=on_context_build)) == ["now"]


def test_a_strategy_that_forgets_the_input_gets_it_added() -> None:
    built = build(on_context_build=lambda ctx: ctx.slots.add("history", list(ctx.history)))
    assert texts(built) == ["before", "answer", "now"]
    assert built.prompt.receipt.warnings[0].code == "input_added"


@pytest.mark.parametrize("wrap", [list, tuple, lambda messages: {"messages": list(messages)}])
def test_a_list_of_messages_is_put_within_the_budget_and_given_the_input(wrap: Any) -> None:
    long = [Message.of("user", "x" * 400) for _ in range(9)]
    built = build(given=turn(250), on_context_build=lambda _ctx: wrap(long))
    assert built.prompt.receipt.total <= 250
    assert texts(built)[-1] == "now"


def test_a_prompt_from_other_slots_is_not_trusted_with_the_budget() -> None:
    def on_context_build(_ctx: Context) -> object:
        mine = Slots(10**6, "chars/4")
        mine.add("big", "x" * 9000)
        return mine.render()

    built = build(given=turn(100), on_context_build=on_context_build)
    assert texts(built) == ["now"]


def raising(_ctx: Context) -> None:
    raise ValueError("broken")


def leaving(_ctx: Context) -> None:
    sys.exit(3)


def stopping(_ctx: Context) -> None:
    raise StopIteration


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (raising, "ValueError: broken"),
        (leaving, "SystemExit raised"),
        (stopping, "StopIteration"),
        (lambda _ctx: 5, "returned neither a prompt"),
        (lambda _ctx: {"messages": ["text"]}, "returned neither a prompt"),
        (lambda ctx: ctx.slots.add("x", "x", max_ratio=2), "max_ratio"),
        (lambda ctx: ctx.state.update(x=object()), "JSON object"),
    ],
)
def test_a_failing_strategy_falls_back_with_a_visible_warning(hook: Any, reason: str) -> None:
    built = build({"kept": 1}, on_context_build=hook)
    assert texts(built) == ["System", "before", "answer", "now"]
    assert built.failure is not None
    assert reason in str(built.failure)
    warning = built.prompt.receipt.warnings[0]
    assert warning.code == "strategy_failed"
    assert "'sightline' took over" in warning.message
    assert built.state == {"kept": 1}


def test_a_strategy_that_takes_too_long_is_left_behind(never: threading.Event) -> None:
    def on_context_build(ctx: Context) -> None:
        ctx.state["late"] = True
        never.wait()

    built = build({"kept": 1}, limits=FAST, on_context_build=on_context_build)
    assert "took over 0.2 s" in str(built.failure)
    assert texts(built) == ["System", "before", "answer", "now"]
    assert built.state == {"kept": 1}


def test_an_async_strategy_that_blocks_its_loop_cannot_block_the_host(
    never: threading.Event,
) -> None:
    async def on_context_build(_ctx: Context) -> None:
        never.wait()

    assert "took over" in str(build(limits=FAST, on_context_build=on_context_build).failure)


def test_what_an_abandoned_hook_does_later_reaches_nobody(never: threading.Event) -> None:
    done = threading.Event()

    def on_context_build(ctx: Context) -> None:
        never.wait()
        ctx.slots.add("late", "late")
        done.set()

    async def scenario() -> Built:
        built = await runner(FAST, on_context_build=on_context_build).build(turn(), {})
        never.set()
        await asyncio.to_thread(done.wait)
        return built

    assert "late" not in texts(asyncio.run(scenario()))


def test_a_failed_attempt_leaves_nothing_in_the_slots() -> None:
    def on_context_build(ctx: Context) -> None:
        ctx.slots.add("half", "half a prompt")
        raise ValueError

    assert "half a prompt" not in texts(build(on_context_build=on_context_build))


def test_on_error_is_told_and_may_fail_itself() -> None:
    told = []

    def on_error(_ctx: Context, error: Exception) -> None:
        told.append(str(error))
        raise KeyError

    built = build(on_context_build=raising, on_error=on_error)
    assert told == [str(built.failure)]


def test_when_nothing_fits_the_arithmetic_is_raised() -> None:
    tools = [{"name": "x" * 500}]
    with pytest.raises(DoesNotFit, match=r"\(tools\)"):
        build(given=turn(10, tools=tools), on_context_build=lambda _ctx: None)


def test_state_left_by_a_hook_is_returned_and_the_given_one_untouched() -> None:
    before = {"turns": [1]}
    built = build(before, on_context_build=lambda ctx: ctx.state["turns"].append(2))
    assert built.state == {"turns": [1, 2]}
    assert before == {"turns": [1]}


def test_init_and_turn_end_may_change_the_state_or_be_missing() -> None:
    def on_init(ctx: Context) -> None:
        ctx.state["started"] = True

    async def scenario() -> list[Left]:
        mine = runner(on_context_build=raising, on_init=on_init, on_turn_end=raising)
        bare = runner(on_context_build=raising)
        return [
            await mine.start(turn(), {}),
            await mine.finish(turn(), {"n": 1}),
            await bare.start(turn(), {"n": 2}),
        ]

    started, failed, missing = asyncio.run(scenario())
    assert (started.state, started.failure) == ({"started": True}, None)
    assert failed.state == {"n": 1}
    assert "on_turn_end: ValueError: broken" in str(failed.failure)
    assert missing == Left({"n": 2})


class Echo:
    """A model that lives in the host's event loop, and checks that it does."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def call(self, prompt: str, *, max_tokens: int = 1024) -> str:
        assert asyncio.get_running_loop() is self.loop
        return f"echo {prompt}"

    async def run(self, messages: Sequence[Message], *, max_tokens: int = 1024) -> Message:
        assert asyncio.get_running_loop() is self.loop
        return messages[-1]


def test_a_strategy_may_ask_the_model_through_the_hosts_loop() -> None:
    async def on_context_build(ctx: Context) -> None:
        answer = await ctx.llm.run([Message.of("user", await ctx.llm.call("hi"))])
        ctx.slots.add("summary", answer)

    async def scenario() -> Built:
        mine = runner(on_context_build=on_context_build)
        return await mine.build(turn(llm=Echo()), {})

    built = asyncio.run(scenario())
    assert built.failure is None
    assert texts(built) == ["echo hi", "now"]


def test_without_a_model_asking_fails_the_strategy() -> None:
    async def call(ctx: Context) -> None:
        await ctx.llm.call("hi")

    async def run(ctx: Context) -> None:
        await ctx.llm.run([])

    for hook in (call, run):
        assert "no model is available" in str(build(on_context_build=hook).failure)


def test_settings_are_checked_when_the_strategy_is_set_up() -> None:
    with pytest.raises(InvalidStrategy, match="no setting 'colour'"):
        StrategyRunner(Strategy("mine", {}), {"colour": "red"})
