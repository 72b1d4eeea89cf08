"""The decisions on slots where the seed is silent: one test per row of the table, at least."""

from __future__ import annotations

import pytest

from context.slots.slot_examples import (
    Added,
    kept,
    letters,
    render,
    said,
    text,
    tool_round,
    warnings,
)
from sightline.context.messages.parts import Message, ToolCall, ToolResult
from sightline.errors import DoesNotFit

HISTORY = [said(10, "a"), said(10, "b"), said(10, "c")]


def test_a_string_is_said_by_the_user_whatever_the_slot_is_called() -> None:
    prompt = render(100, ("system", "be kind", {}))
    assert [message.role for message in prompt.messages] == ["user"]


def test_slots_stand_by_position_and_without_one_by_the_number_of_their_call() -> None:
    prompt = render(
        100,
        ("a", "a", {"position": 2}),
        ("b", "b", {}),  # 1
        ("c", "c", {}),  # 2, after a, which said 2 first
        ("d", "d", {"position": -1}),
        ("e", "e", {"position": 1}),  # after b
    )
    assert letters(prompt) == "dbeac"


def test_an_empty_slot_still_counts_as_a_call() -> None:
    prompt = render(100, ("a", None, {}), ("b", "b", {}), ("c", "c", {"position": 0}))
    assert letters(prompt) == "cb"


def test_the_lowest_priority_is_trimmed_first() -> None:
    slots = [(name, HISTORY, {"priority": p}) for name, p in (("high", 9), ("low", -1), ("mid", 3))]
    assert kept(render(70, *slots)) == {"high": 30, "low": 10, "mid": 30}
    assert kept(render(40, *slots)) == {"high": 30, "low": 0, "mid": 10}


def test_at_equal_priority_the_slot_that_stands_first_is_trimmed_first() -> None:
    first_added_stands_last = ("late", HISTORY, {"position": 5})
    prompt = render(40, first_added_stands_last, ("early", HISTORY, {"position": 1}))
    assert kept(prompt) == {"early": 10, "late": 30}


def test_inside_a_slot_the_oldest_content_is_trimmed_first() -> None:
    assert letters(render(20, ("history", HISTORY, {}))) == "bc"


def test_with_all_defaults_history_yields_before_the_input() -> None:
    prompt = render(25, ("history", HISTORY, {}), ("input", text(15, "i"), {}))
    assert letters(prompt) == "ci"


def test_with_all_defaults_system_messages_are_never_trimmed() -> None:
    prompt = render(
        12,
        ("system", text(8, "s"), {"role": "system", "max_ratio": 0.1}),
        ("history", [said(3, "a"), said(2, "r", "system"), said(2, "b")], {"max_ratio": 0.4}),
        ("input", text(2, "i"), {}),
    )
    assert letters(prompt) == "sri"
    assert [line.messages[0].rule for line in prompt.receipt.slots] == [
        "protected",
        "max_ratio",
        "kept",
    ]


def test_what_is_protected_counts_towards_the_maximum_of_its_slot() -> None:
    mixed = [said(3, "s", "system"), said(3, "u")]
    assert letters(render(10, ("mixed", mixed, {"max_ratio": 0.5}))) == "s"
    assert letters(render(10, ("mixed", mixed, {"max_ratio": 0.6}))) == "su"


def test_a_system_message_in_a_tool_round_of_another_slot_is_not_trimmed() -> None:
    call, answer = tool_round("1", 5)
    ordered = Message("system", call.parts)
    prompt = render(20, ("rules", [ordered], {}), ("late", [answer, said(90)], {}))
    assert [message.role for message in prompt.messages] == ["system", "tool"]


def test_with_all_defaults_system_messages_over_the_budget_raise_with_the_arithmetic() -> None:
    system = ("system", text(8), {"role": "system"})
    rules: Added = ("rules", [said(5, role="system")], {})
    with pytest.raises(DoesNotFit, match=r"8 \(.*'system'\) \+ 5 \(.*'rules'\) = 13 .* is 12$"):
        render(12, system, rules, ("input", "hi", {}))


def test_with_any_priority_system_messages_are_trimmed_like_others() -> None:
    prompt = render(
        10, ("system", text(8, "s"), {"role": "system"}), ("input", text(9, "i"), {"priority": 1})
    )
    assert letters(prompt) == "i"


def test_message_trimming_removes_whole_messages() -> None:
    assert letters(render(29, ("history", HISTORY, {}))) == "bc"
    assert render(29, ("history", HISTORY, {})).receipt.total == 20


def test_a_tool_call_and_its_results_are_one_unit() -> None:
    call = Message("assistant", (ToolCall("1", "find", {}), ToolCall("2", "find", {})))
    answers = [Message("tool", (ToolResult(i, text(3, i)),)) for i in "12"]
    history = [call, *answers, said(3, "z")]
    assert letters(render(10, ("history", history, {}))) == "z"
    assert len(render(12, ("history", history, {})).messages) == 4


def test_a_tool_unit_that_spans_slots_stays_or_goes_as_a_whole() -> None:
    call, answer = tool_round("1", 5)
    slots: list[Added] = [("history", [said(9, "a"), call], {}), ("input", [answer], {})]
    both = render(8, *slots)
    assert [message.role for message in both.messages] == ["assistant", "tool"]
    assert render(6, *slots).messages == ()


def test_a_tool_unit_that_spans_slots_is_held_by_the_most_protected() -> None:
    call, answer = tool_round("1", 5)
    history: Added = ("history", [call], {"max_ratio": 0.1})
    assert len(render(20, history, ("input", [answer], {})).messages) == 2
    assert render(20, ("input", [call], {}), ("late", [answer], {"max_ratio": 0.1})).messages == ()
    first: Added = ("first", [call], {"priority": 1})
    assert len(render(20, first, ("late", [answer], {"max_ratio": 0.1})).messages) == 2


def test_char_trimming_cuts_from_the_start_of_the_oldest_and_keeps_the_tail() -> None:
    history = [Message.of("user", "0123456789abcdef"), Message.of("assistant", "yes!")]
    prompt = render(3, ("history", history, {"trim_behavior": "char"}))
    assert [message.text for message in prompt.messages] == ["89abcdef", "yes!"]


def test_char_trimming_never_splits_a_grapheme() -> None:
    family = "👩‍👩‍👧"  # five code points
    prompt = render(2, ("text", f"{family}{family}", {"trim_behavior": "char"}))
    assert [message.text for message in prompt.messages] == [family]
    assert render(1, ("text", f"{family}{family}", {"trim_behavior": "char"})).messages == ()


def test_a_message_cut_to_nothing_leaves_and_the_receipt_says_so() -> None:
    prompt = render(1, ("history", [said(2, "a"), said(1, "b")], {"trim_behavior": "char"}))
    assert letters(prompt) == "b"
    gone = prompt.receipt.slot("history").messages[0]
    assert (gone.offered, gone.kept, gone.cut, gone.rule) == (2, 0, 2, "budget")


def test_ratios_are_of_the_remaining_budget_rounded_down() -> None:
    slot = ("text", text(100), {"trim_behavior": "char", "max_ratio": 0.29})
    assert kept(render(100, slot)) == {"text": 29}
    assert kept(render(99, slot)) == {"text": 28}


def test_min_ratio_is_clamped_to_max_ratio() -> None:
    prompt = render(100, ("a", text(90), {"min_ratio": 0.9, "max_ratio": 0.2, "priority": 1}))
    line = prompt.receipt.slot("a")
    assert (line.minimum, line.maximum) == (20, 20)


@pytest.mark.parametrize(("min_tokens", "expected"), [(10, 20), (30, 30)])
def test_the_larger_of_the_two_minima_holds(min_tokens: int, expected: int) -> None:
    low = ("low", text(90), {"trim_behavior": "char", "min_ratio": 0.2, "min_tokens": min_tokens})
    prompt = render(100, low, ("high", text(200), {"trim_behavior": "char", "priority": 9}))
    assert kept(prompt) == {"low": expected, "high": 100 - expected}


def test_minima_that_together_exceed_the_budget_are_all_ignored() -> None:
    prompt = render(
        100,
        ("low", text(90, "l"), {"trim_behavior": "char", "min_tokens": 60}),
        ("high", text(90, "h"), {"trim_behavior": "char", "min_ratio": 0.5, "priority": 1}),
    )
    assert kept(prompt) == {"low": 10, "high": 90}
    assert ("minima_ignored", "") in warnings(prompt)


def test_a_minimum_over_its_own_maximum_concerns_that_slot_alone() -> None:
    prompt = render(
        100,
        ("odd", text(90), {"trim_behavior": "char", "min_tokens": 500, "max_ratio": 0.1}),
        ("low", text(90), {"trim_behavior": "char", "min_tokens": 40}),
        ("high", text(90), {"trim_behavior": "char", "priority": 1}),
    )
    assert kept(prompt) == {"odd": 10, "low": 40, "high": 50}
    assert warnings(prompt) == [("minimum_over_maximum", "odd")]


def test_what_one_slot_does_not_use_is_there_for_the_others() -> None:
    prompt = render(
        60,
        ("history", HISTORY, {}),
        ("input", text(5), {"min_tokens": 40, "max_ratio": 0.9}),
    )
    assert kept(prompt) == {"history": 30, "input": 5}


def test_a_cut_slot_is_refilled_when_later_trimming_frees_room() -> None:
    # The history is trimmed away first; then the input, one message, leaves and frees 50.
    prompt = render(40, ("history", HISTORY, {}), ("input", text(50, "i"), {}))
    assert kept(prompt) == {"history": 30, "input": 0}
    assert letters(prompt) == "abc"


def test_a_refilled_slot_stays_under_its_maximum() -> None:
    prompt = render(40, ("history", HISTORY, {"max_ratio": 0.6}), ("input", text(50), {}))
    assert kept(prompt) == {"history": 20, "input": 0}


def test_a_single_message_over_its_maximum_leaves_with_a_warning() -> None:
    prompt = render(100, ("document", text(50), {"max_ratio": 0.4}), ("input", "hi", {}))
    assert kept(prompt) == {"document": 0, "input": 1}
    assert warnings(prompt) == [("slot_left_empty", "document")]
    assert "50 tokens offered, its maximum is 40" in prompt.receipt.warnings[0].message
