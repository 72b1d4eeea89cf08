"""The Context API's page on slots: one test per sentence that states behaviour, quoted."""

from __future__ import annotations

import pytest

from context.slots.slot_examples import kept, letters, render, said, text, warnings
from sightline.context.messages.parts import File, Input, Message, Role, Text
from sightline.context.slots.slots import Budget, Slots

HISTORY = [said(10, "a"), said(10, "b"), said(10, "c")]


def test_strategies_add_components_and_the_runtime_composes_them() -> None:
    """Seed: "… composes them into the final prompt based on ordering rules and token budget"."""
    prompt = render(
        30, ("history", HISTORY, {"position": 2}), ("input", text(9, "i"), {"priority": 1})
    )
    assert letters(prompt) == "ibc"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a", ["a"]),
        (Message.of("assistant", "b"), ["b"]),
        ([Message.of("user", "c"), Message.of("assistant", "d")], ["c", "d"]),
        (None, []),
    ],
)
def test_content_is_a_string_a_message_an_array_or_null(content: object, expected: object) -> None:
    """Seed: "The content may be: a string, a single Message, an array of Message, null"."""
    slots = Slots(100, "chars/4")
    slots.add("slot", content)  # type: ignore[arg-type]  # every kind the parameter allows
    assert [message.text for message in slots.render().messages] == expected


def test_content_may_be_the_input_with_its_attachments() -> None:
    """The shape's fifth kind: `Input`."""
    photo = File("file:///a.png", "image/png", tokens=3)
    slots = Slots(100, "chars/4")
    slots.add("input", Input("look", (photo,)))
    assert slots.render().messages == (Message("user", (Text("look"), photo)),)
    assert slots.render().receipt.total == 4


@pytest.mark.parametrize(("role", "expected"), [(None, "user"), ("system", "system")])
def test_a_string_becomes_a_message_with_the_given_or_the_user_role(
    role: Role | None, expected: str
) -> None:
    """Seed: "… converted into a message using the specified role or the default user role"."""
    prompt = render(100, ("slot", "hi", {"role": role}))
    assert [message.role for message in prompt.messages] == [expected]


def test_the_role_of_a_message_is_its_own() -> None:
    """Seed: "Overrides the role assigned to content *when it is converted into a message*"."""
    prompt = render(100, ("slot", [Message.of("assistant", "hi")], {"role": "system"}))
    assert [message.role for message in prompt.messages] == ["assistant"]


def test_an_array_is_one_group_in_trimming() -> None:
    """Seed: "Arrays of messages are treated as a logical group and … trimming together"."""
    several = ("several", [said(10, "a"), said(10, "b")], {"max_ratio": 0.15})
    prompt = render(100, several, ("other", [said(10, "c")], {}))
    assert kept(prompt) == {"several": 10, "other": 10}


def test_in_a_char_trimmed_array_the_single_messages_are_cut() -> None:
    """Seed: "… unless char-level trimming is enabled"."""
    array = [said(10, "a"), said(10, "b")]
    prompt = render(100, ("array", array, {"max_ratio": 0.15, "trim_behavior": "char"}))
    assert [len(message.text) for message in prompt.messages] == [20, 40]


def test_higher_priority_is_preserved_before_lower() -> None:
    """Seed: "Higher priority slots are preserved before lower priority ones"."""
    prompt = render(30, ("high", HISTORY, {"priority": 100}), ("low", HISTORY, {}))
    assert kept(prompt) == {"high": 30, "low": 0}


def test_priority_is_any_integer_and_0_by_default() -> None:
    """Seed: "Range: Any integer. Default: 0"."""
    prompt = render(30, ("lower", HISTORY, {"priority": -(10**12)}), ("default", HISTORY, {}))
    assert kept(prompt) == {"lower": 0, "default": 30}


def test_at_the_same_priority_slot_order_and_older_content_decide() -> None:
    """Seed: "… trimming follows slot order and removes older content first"."""
    prompt = render(
        40,
        ("first", HISTORY, {"priority": 7}),
        ("second", [said(10, "d"), said(10, "e"), said(10, "f")], {"priority": 7}),
    )
    assert letters(prompt) == "cdef"


def test_system_messages_are_preserved_while_all_priorities_are_default() -> None:
    """Seed: "When all slots use the default priority (0), system messages are preserved"."""
    prompt = render(10, ("system", text(10, "s"), {"role": "system"}), ("input", text(5), {}))
    assert letters(prompt) == "s"


def test_an_explicit_zero_is_the_default() -> None:
    """The same sentence: what counts is the priority, not who wrote it down."""
    system = ("system", text(10, "s"), {"role": "system", "priority": 0})
    assert letters(render(10, system, ("input", text(5), {"priority": 0}))) == "s"


def test_system_messages_take_part_once_priorities_are_assigned() -> None:
    """Seed: "If priorities are explicitly assigned, system messages participate in trimming"."""
    system = ("system", text(10, "s"), {"role": "system"})
    assert letters(render(10, system, ("input", text(5, "i"), {"priority": 1}))) == "i"


def test_max_ratio_is_the_share_a_slot_may_occupy() -> None:
    """Seed: "The maximum share … that this slot may occupy. … it will be trimmed"."""
    prompt = render(100, ("history", HISTORY, {"max_ratio": 0.25}))
    assert letters(prompt) == "bc"
    assert prompt.receipt.slot("history").messages[0].rule == "max_ratio"


def test_max_ratio_is_of_the_remaining_input_tokens() -> None:
    """Seed: "The ratio is calculated relative to: ctx.budget.remainingInputTokens"."""
    slots = Slots(Budget(120, reserved_tokens=20), "chars/4")
    slots.add("text", text(90), max_ratio=0.4, trim_behavior="char")
    assert slots.render().receipt.total == 40


def test_max_ratio_is_1_by_default() -> None:
    """Seed: "Default: 1.0"."""
    assert kept(render(30, ("history", HISTORY, {}))) == {"history": 30}


def test_ratios_of_different_slots_are_independent() -> None:
    """Seed: "If their combined maximum exceeds the available budget, … by priority"."""
    high = ("high", text(100), {"max_ratio": 0.8, "trim_behavior": "char", "priority": 1})
    low = ("low", text(100), {"max_ratio": 0.8, "trim_behavior": "char"})
    assert kept(render(100, high, low)) == {"high": 80, "low": 20}
    assert kept(render(100, low, high)) == {"low": 20, "high": 80}


def test_combined_maxima_at_one_priority_are_resolved_by_slot_order() -> None:
    """Seed: "… resolved by priority *and slot order*"."""
    first = ("first", text(100), {"max_ratio": 0.8, "trim_behavior": "char"})
    second = ("second", text(100), {"max_ratio": 0.8, "trim_behavior": "char"})
    assert kept(render(100, first, second)) == {"first": 20, "second": 80}


def test_min_ratio_is_kept_even_when_trimming_is_aggressive() -> None:
    """Seed: "Ensures the slot keeps at least a certain proportion of the prompt budget"."""
    low = ("low", text(50), {"min_ratio": 0.1, "trim_behavior": "char"})
    prompt = render(100, low, ("high", text(500), {"priority": 1, "trim_behavior": "char"}))
    assert kept(prompt) == {"low": 10, "high": 90}


def test_min_ratio_is_met_by_whole_messages() -> None:
    """The same with messages: at least, so one message more rather than less."""
    low = ("low", HISTORY, {"min_ratio": 0.11})
    prompt = render(100, low, ("high", text(500), {"priority": 1, "trim_behavior": "char"}))
    assert kept(prompt) == {"low": 20, "high": 80}


def test_min_ratio_is_0_by_default() -> None:
    """Seed: "Default: 0"."""
    prompt = render(30, ("low", HISTORY, {}), ("high", HISTORY, {"priority": 1}))
    assert kept(prompt)["low"] == 0


def test_min_ratio_larger_than_max_ratio_is_clamped() -> None:
    """Seed: "… the runtime clamps minRatio to maxRatio"."""
    low = ("low", text(90), {"min_ratio": 0.8, "max_ratio": 0.3, "trim_behavior": "char"})
    prompt = render(100, low, ("high", text(90), {"priority": 1, "trim_behavior": "char"}))
    assert kept(prompt) == {"low": 30, "high": 70}


@pytest.mark.parametrize(("budget", "expected"), [(1000, 100), (100, 30)])
def test_of_both_minima_the_larger_is_preserved(budget: int, expected: int) -> None:
    """Seed: "… the runtime preserves whichever results in a larger retained size"."""
    low = ("low", text(900), {"min_ratio": 0.1, "min_tokens": 30, "trim_behavior": "char"})
    high = ("high", text(9000), {"priority": 1, "trim_behavior": "char"})
    assert kept(render(budget, low, high))["low"] == expected


def test_min_tokens_is_a_floor_for_very_small_budgets() -> None:
    """Seed: "Acts as a safety floor for very small prompt budgets"."""
    low = ("low", text(50), {"min_ratio": 0.1, "min_tokens": 8, "trim_behavior": "char"})
    prompt = render(10, low, ("high", text(50), {"priority": 1, "trim_behavior": "char"}))
    assert kept(prompt) == {"low": 8, "high": 2}


def test_lower_positions_stand_earlier() -> None:
    """Seed: "Lower values appear earlier in the prompt"."""
    prompt = render(9, ("a", "a", {"position": 10}), ("b", "b", {"position": -10}))
    assert letters(prompt) == "ba"


def test_without_positions_the_order_is_that_of_the_calls() -> None:
    """Seed: "Default: Follows the order of add() calls"."""
    assert letters(render(9, *((name, name, {}) for name in "cab"))) == "cab"


def test_at_the_same_position_the_earlier_call_stands_first() -> None:
    """Seed: "If two slots share the same position, the earlier add() call appears first"."""
    assert letters(render(9, *((name, name, {"position": 4}) for name in "cab"))) == "cab"


def test_trimming_is_by_messages_by_default() -> None:
    """Seed: "Default: message. … Removes entire messages starting from the oldest entries"."""
    assert letters(render(19, ("history", HISTORY, {}))) == "c"


def test_char_trimming_changes_content_and_neither_roles_nor_structure() -> None:
    """Seed: "… only affects message content and does not alter message roles or structure"."""
    photo = File("file:///a.png", "image/png", tokens=1)
    message = Message("assistant", (Text(text(5, "a")), photo, Text(text(5, "b"))))
    prompt = render(8, ("slot", message, {"trim_behavior": "char"}))
    assert prompt.messages == (
        Message("assistant", (Text(text(2, "a")), photo, Text(text(5, "b")))),
    )


def test_render_returns_messages() -> None:
    """Seed: "Renders the final prompt. … The result is returned as: { messages: Message[] }"."""
    assert render(9, ("input", "hi", {})).messages == (Message.of("user", "hi"),)


def test_the_documented_example_keeps_the_input() -> None:
    """The page's own usage: system, half the budget of history, the input."""
    slots = Slots(40, "chars/4")
    slots.add("system", text(7, "s"), role="system", priority=100)
    slots.add("history", HISTORY, trim_behavior="message", max_ratio=0.5)
    slots.add("input", Input(text(9, "i")))
    assert letters(slots.render()) == "sbci"


def test_minima_over_the_budget_fall_back_to_priority() -> None:
    """Seed: "… falls back to priority-based trimming and ignores minRatio and minTokens"."""
    low = ("low", text(50), {"min_ratio": 0.6, "trim_behavior": "char"})
    high = ("high", text(50), {"min_tokens": 9, "trim_behavior": "char", "priority": 1})
    prompt = render(20, low, high)
    assert kept(prompt) == {"low": 0, "high": 20}
    assert ("minima_ignored", "") in warnings(prompt)
