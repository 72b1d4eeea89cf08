"""The built-in strategies, and what a strategy is given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from context.slots.slot_examples import letters, said, text
from sightline.context.messages.parts import Input, Message
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.settings import NoSettings, resolve
from sightline.context.slots.slots import Budget
from sightline.context.slots.strategies import BUILT_IN, DEFAULT
from sightline.context.slots.strategy import Context, Layers, Strategy, Turn, Utils, copy_of_state
from sightline.context.tokens.tokens import CharsPerFour, counter_for
from sightline.errors import InvalidStrategy, SightlineError

LAYERS = Layers(
    system="System",
    guidelines="Guidelines",
    memos="memos",
    anchor="Anchor",
    scratchpad="pad",
    apps="<apps>",
    state="{state}",
)
HISTORY = [said(10, "a"), said(10, "b", "assistant"), said(10, "c"), said(10, "d", "assistant")]


def turn(budget: int = 1000, history: list[Message] | None = None, **more: Any) -> Turn:
    said_before = HISTORY if history is None else history
    return Turn(Input("input"), said_before, Budget(budget), CharsPerFour(), **more)


def build(name: str, given: Turn, **settings: object) -> Prompt:
    strategy = BUILT_IN[name]
    prompt = strategy.hooks["on_context_build"](
        given.context(resolve(strategy.schema, settings), {})
    )
    assert isinstance(prompt, Prompt)
    return prompt


def test_sightline_puts_what_changes_behind_the_boundary() -> None:
    prompt = build("sightline", turn(layers=LAYERS))
    assert letters(prompt) == "SGabcdimAp<{"
    assert prompt.boundary == 7
    assert [line.name for line in prompt.receipt.slots][-5:] == [
        "memos",
        "anchor",
        "scratchpad",
        "apps",
        "state",
    ]


def test_sightline_keeps_its_prefix_while_the_state_changes_and_the_history_is_full() -> None:
    def layered(state: str) -> Layers:
        return Layers(system="System", state=state)

    long = [said(10, "x") for _ in range(200)]
    prompts = [
        build("sightline", turn(1000, long, layers=layered(text(size, "s"))))
        for size in (1, 40, 149)
    ]
    assert len({prompt.receipt.prefix_digest for prompt in prompts}) == 1
    assert prompts[0].receipt.slot("history").cut > 0


def test_sightline_folds_its_history_only_now_and_then() -> None:
    history: list[Message] = []
    starts = []
    for number in range(120):
        history += [Message.of("user", f"{number:04}" + "x" * 36), said(10, "r", "assistant")]
        starts.append(build("sightline", turn(1000, history)).prefix[0])
    changes = sum(a != b for a, b in pairwise(starts[40:]))
    assert 0 < changes <= len(starts[40:]) // 4


def test_a_budget_cut_in_a_window_of_32k_keeps_most_of_the_prefix() -> None:
    standing = Layers(system=text(786, "s"), guidelines=text(508, "g"))
    history: list[Message] = []
    before: Sequence[Message] = ()
    cuts = 0
    for number in range(120):
        for role, size in (("user", 60), ("assistant", 100), ("assistant", 300)):
            history.append(Message.of(role, f"{number:04}" + "x" * (4 * size)))  # type: ignore[arg-type]
        prefix = build("sightline", turn(24_576, history, layers=standing)).prefix
        shown = {message.text for message in prefix}
        left = [message for message in before if message.text not in {*shown, "input"}]
        if left:
            cuts += 1
            weigh = CharsPerFour().weigh
            assert sum(weigh(left)) <= 0.15 * sum(weigh(before))
        before = prefix
    assert cuts > 10


def test_classic_keeps_the_order_of_the_layers() -> None:
    prompt = build("classic", turn(layers=LAYERS))
    assert letters(prompt) == "SGAp<{abcdi"
    assert prompt.messages[0].text == "System\n\nmemos"
    assert prompt.tail == ()


def test_classic_has_a_window_of_groups() -> None:
    assert letters(build("classic", turn(), window=1)) == "cdi"
    assert letters(build("classic", turn(), window=0)) == "abcdi"


def test_minimal_is_system_history_and_input() -> None:
    assert letters(build("minimal", turn(layers=LAYERS))) == "Sabcdi"
    assert letters(build("minimal", turn(22, layers=LAYERS))) == "Sdi"


@pytest.mark.parametrize("name", BUILT_IN)
def test_an_input_larger_than_the_budget_is_cut_and_not_lost(name: str) -> None:
    given = Turn(Input(text(90, "i")), HISTORY, Budget(40), CharsPerFour())
    prompt = build(name, given)
    assert letters(prompt) == "i"
    assert prompt.receipt.total == 40


def test_sightline_cuts_long_notes_and_leaves_blocks_whole_or_out() -> None:
    layers = Layers(scratchpad=text(90, "p"), state=text(160, "s"))
    prompt = build("sightline", turn(1000, layers=layers))
    assert prompt.receipt.slot("scratchpad").kept == 40
    assert prompt.receipt.slot("state").kept == 0
    assert [warning.slot for warning in prompt.receipt.warnings] == ["state"]


def test_the_default_is_sightline() -> None:
    assert DEFAULT.name == "sightline"
    assert set(BUILT_IN) == {"classic", "minimal", "sightline"}


def test_a_context_offers_everything_about_the_turn() -> None:
    class Clock:
        def now(self) -> datetime:
            return datetime(2026, 11, 15, tzinfo=UTC)

    ctx = turn(clock=Clock()).context(resolve(NoSettings, {}), {"seen": 1})
    assert (ctx.input.text, len(ctx.history), ctx.budget.remaining_input_tokens) == (
        "input",
        4,
        1000,
    )
    assert (ctx.capabilities.vision, ctx.capabilities.structured_output) == (False, False)
    assert ctx.capabilities.tools
    assert ctx.state == {"seen": 1}
    assert (list(ctx.memory.memos("x")), list(ctx.memory.query("SELECT 1"))) == ([], [])
    assert ctx.utils.now().year == 2026
    assert ctx.utils.count("12345") == 2


def test_a_text_is_clipped_to_tokens() -> None:
    utils = turn().context(resolve(NoSettings, {}), {}).utils
    assert utils.clip("0123456789", 2) == "23456789"
    assert utils.clip("0123456789", 2, keep="head") == "01234567"
    assert utils.clip("0123", 2) == "0123"
    assert utils.clip("0123", 0) == ""


@pytest.mark.parametrize("counter", ["o200k_base", "gpt-4o", "claude-opus-5-5"])
def test_a_clipped_text_counts_what_was_asked_for(counter: str) -> None:
    utils = Utils(counter_for(counter))
    text = "word " * 50
    assert utils.count(text) > 20
    assert utils.count(utils.clip(text, 20)) == 20
    assert utils.clip(text, utils.count(text)) == text


def test_without_a_clock_time_is_refused() -> None:
    with pytest.raises(SightlineError, match="no clock"):
        turn().context(resolve(NoSettings, {}), {}).utils.now()


def test_a_strategy_may_be_an_object_a_class_or_a_module() -> None:
    class Mine:
        config = OneNumber

        def on_context_build(self, ctx: Context) -> None: ...

    assert Strategy.of(Mine).name == Strategy.of(Mine()).name == "Mine"
    assert Strategy.of(Mine).schema is OneNumber


class OneNumber(msgspec.Struct, frozen=True):
    n: float = 0


class Broken:
    def __init__(self) -> None:
        raise ValueError("no")


class NotCallable:
    on_context_build = 5


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (object(), "has no on_context_build"),
        (NotCallable, "on_context_build is not a function"),
        (Broken, "cannot be created: no"),
    ],
)
def test_a_strategy_without_its_hook_is_refused(thing: object, reason: str) -> None:
    with pytest.raises(InvalidStrategy, match=reason):
        Strategy.of(thing)


def test_a_stored_state_cannot_be_changed_from_outside() -> None:
    given = {"list": [1]}
    kept = copy_of_state(given)
    given["list"].append(2)
    assert kept == {"list": [1]}


@pytest.mark.parametrize("state", [{"x": object()}, {"x": "\ud800"}])
def test_state_is_json(state: dict[str, Any]) -> None:
    with pytest.raises(InvalidStrategy, match="JSON object"):
        copy_of_state(state)
