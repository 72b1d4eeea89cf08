"""What slots have beyond the seed: stability, keep, slack; tool units; bad options; the receipt."""

from __future__ import annotations

from typing import Any

import pytest

from context.slots.slot_examples import kept, letters, render, said, text, tool_round, warnings
from sightline.context.dialects.request import slot_names
from sightline.context.messages.parts import (
    File,
    Input,
    Message,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.slots.options import SlotOptions
from sightline.context.slots.prompt import Prompt, Receipt
from sightline.context.slots.slots import Budget, Slots
from sightline.context.tokens.tokens import counter_for
from sightline.errors import DoesNotFit, InvalidInput, InvalidSlot

FIVE = [said(10, letter) for letter in "abcde"]


def test_volatile_slots_render_behind_the_boundary_whatever_their_position() -> None:
    prompt = render(
        100,
        ("state", "s", {"stability": "volatile", "position": -9}),
        ("system", "y", {"stability": "frozen"}),
        ("memos", "m", {"stability": "volatile", "position": -10}),
        ("history", "h", {"stability": "append"}),
    )
    assert letters(prompt) == "yhms"
    assert prompt.boundary == prompt.receipt.boundary == 2
    assert [message.text for message in prompt.tail] == ["m", "s"]


def test_a_slot_that_says_nothing_about_stability_is_in_the_prefix() -> None:
    assert render(100, ("a", "a", {}), ("b", "b", {})).tail == ()


@pytest.mark.parametrize(
    ("keep", "stays"), [("tail", "cde"), ("head", "abc"), ("middle-out", "ade")]
)
def test_keep_says_which_end_outlives_trimming(keep: str, stays: str) -> None:
    assert letters(render(30, ("history", FIVE, {"keep": keep}))) == stays


@pytest.mark.parametrize(
    ("keep", "stays"), [("tail", "6789abcd"), ("head", "01234567"), ("middle-out", "0123…bcd")]
)
def test_keep_says_which_end_of_a_text_outlives_trimming(keep: str, stays: str) -> None:
    prompt = render(2, ("text", "0123456789abcd", {"keep": keep, "trim_behavior": "char"}))
    assert [message.text for message in prompt.messages] == [stays]


def test_middle_out_leaves_a_text_alone_that_fits() -> None:
    prompt = render(9, ("text", "0123456789", {"keep": "middle-out", "trim_behavior": "char"}))
    assert [message.text for message in prompt.messages] == ["0123456789"]


def cut_points(slack: float, turns: int) -> list[int]:
    """Where the history begins at each turn of a growing conversation."""
    history: list[Message] = []
    first_kept = []
    for turn in range(turns):
        history += [Message.of("user", f"{turn:04}" + "x" * 36), said(10, "r", "assistant")]
        prompt = render(400, ("history", history, {"slack": slack}), ("input", text(20), {}))
        offered = prompt.receipt.slot("history").messages
        first_kept.append(next(n for n, line in enumerate(offered) if line.kept))
    return first_kept


def test_without_slack_the_cut_moves_every_turn() -> None:
    points = cut_points(0, 60)[20:]
    assert len(set(points)) == len(points)


def test_with_slack_the_cut_holds_still_for_several_turns() -> None:
    points = cut_points(0.2, 60)[20:]
    assert len(set(points)) <= len(points) // 3


def test_a_fold_is_a_function_of_the_content_and_not_of_the_past() -> None:
    history = [Message.of("user", f"{n:04}" + "x" * 36) for n in range(60)]
    options = {"slack": 0.2}
    after_many_turns = [render(400, ("h", history[:n], options)) for n in range(60, 39, -1)]
    alone = render(400, ("h", history, options))
    assert after_many_turns[0].messages == alone.messages


def test_a_fold_cuts_a_multiple_of_the_grid_and_no_more_than_one_step_ahead() -> None:
    history = [said(10, "x") for _ in range(60)]
    for length in range(41, 60):
        line = render(400, ("h", history[:length], {"slack": 0.2})).receipt.slot("h")
        needed = line.offered - 400
        assert line.cut % 80 == 0
        assert needed <= line.cut < needed + 80


def test_slack_is_named_as_the_rule_that_cut() -> None:
    line = render(40, ("h", FIVE, {"slack": 0.5})).receipt.slot("h")
    assert [message.rule for message in line.messages] == [
        "budget",
        "slack",
        "kept",
        "kept",
        "kept",
    ]


def test_slack_never_folds_a_slot_away_or_below_its_minimum() -> None:
    assert letters(render(17, ("h", FIVE, {"slack": 0.9}))) == "e"
    folded = render(40, ("h", FIVE, {"slack": 0.5, "min_tokens": 35}))
    assert kept(folded) == {"h": 40}


def test_a_char_trimmed_slot_folds_inside_its_text() -> None:
    lengths = {
        len(
            render(100, ("t", "x" * (4 * n), {"slack": 0.2, "trim_behavior": "char"}))
            .messages[0]
            .text
        )
        - 4 * n
        for n in range(101, 121)
    }
    assert lengths == {-80}


def test_every_character_of_a_tool_unit_may_go_but_its_structure_stays() -> None:
    call = Message("assistant", (Reasoning("hmmm"), Text("looking"), ToolCall("1", "find", {})))
    answer = Message("tool", (ToolResult("1", text(20, "r"), raw=Raw("openai", {"content": "…"})),))
    prompt = render(10, ("history", [call, answer], {"trim_behavior": "char"}))
    assert prompt.messages == (
        Message("assistant", (Reasoning("hmmm"), ToolCall("1", "find", {}))),
        Message("tool", (ToolResult("1", text(7, "r")),)),
    )
    assert prompt.receipt.total == 10
    assert render(3, ("history", [call, answer], {"trim_behavior": "char"})).messages == ()


def test_parallel_answers_in_one_message_belong_to_both_calls() -> None:
    calls = [Message("assistant", (ToolCall(i, "find", {}),)) for i in "12"]
    both = Message("tool", (ToolResult("1", text(3)), ToolResult("2", text(3))))
    assert render(9, ("history", [*calls, both], {})).messages == ()
    assert len(render(12, ("history", [*calls, both], {})).messages) == 3


def test_a_vendor_that_reuses_call_ids_still_gets_units_of_one_round() -> None:
    history = [*tool_round("same", 3, "a"), *tool_round("same", 3, "b")]
    prompt = render(6, ("history", history, {}))
    assert [message.role for message in prompt.messages] == ["assistant", "tool"]
    assert prompt.messages[1].tool_results[0].content.startswith("b")


def test_minimum_by_characters_is_met_to_the_grapheme() -> None:
    low = ("low", text(50), {"min_tokens": 7, "trim_behavior": "char"})
    high = ("high", [said(93)], {"priority": 1})
    assert kept(render(100, low, high)) == {"low": 7, "high": 93}
    family = ("low", "👩‍👩‍👧" * 9, {"min_tokens": 2, "trim_behavior": "char"})
    assert kept(render(100, family, ("high", [said(98)], {"priority": 1}))) == {
        "low": 2,
        "high": 98,
    }


def test_a_minimum_that_whole_messages_cannot_meet_is_reported() -> None:
    low = ("low", [said(30)], {"min_tokens": 10})
    high = ("high", [said(75)], {"min_tokens": 70, "priority": 1})
    prompt = render(100, low, high)
    assert kept(prompt) == {"low": 0, "high": 75}
    assert ("minimum_not_honoured", "low") in warnings(prompt)


def test_a_slot_left_empty_for_the_sake_of_others_is_reported() -> None:
    prompt = render(10, ("low", [said(5)], {}), ("high", [said(10)], {"priority": 1}))
    assert warnings(prompt) == [("slot_left_empty", "low")]
    assert "more protected slots needed the room" in prompt.receipt.warnings[0].message


def test_tools_are_counted_and_never_cut() -> None:
    tools = [{"name": "find", "description": "x" * 60}]
    slots = Slots(40, "chars/4", tools=tools)
    slots.add("input", text(30), trim_behavior="char")
    prompt = slots.render()
    assert prompt.tools == tuple(tools)
    assert prompt.receipt.tools > 15
    assert prompt.receipt.total == 40
    with pytest.raises(DoesNotFit, match=r"\(tools\) = \d+ tokens, which must stay"):
        Slots(9, "chars/4", tools=tools).render()


def test_the_frame_of_a_request_counts_against_the_budget() -> None:
    slots = Slots(10, "gpt-4o")
    slots.add("input", "hello world")
    assert slots.render().receipt.total == 3 + 3 + 2
    assert slots.render().receipt.overhead == 3
    with pytest.raises(DoesNotFit, match=r"3 \(request frame\) = 3 tokens"):
        Slots(2, "gpt-4o").render()


def test_no_slots_make_an_empty_prompt() -> None:
    prompt = Slots(0, "chars/4").render()
    assert (prompt.messages, prompt.receipt.free) == ((), 0)


def test_rendering_changes_nothing() -> None:
    slots = Slots(100, "chars/4")
    slots.add("a", "a")
    first = slots.render()
    assert slots.render() == first
    slots.add("b", "b")
    assert letters(slots.render()) == "ab"


def test_a_list_changed_after_it_was_added_changes_nothing() -> None:
    history = [said(1, "a")]
    slots = Slots(100, "chars/4")
    slots.add("history", history)
    history.append(said(1, "b"))
    assert letters(slots.render()) == "a"


def test_the_table_names_slots_boundary_rules_and_warnings() -> None:
    prompt = render(
        30,
        ("history", FIVE, {"max_ratio": 0.7}),
        ("state", text(9), {"stability": "volatile", "priority": 1}),
        ("gone", [said(90)], {}),
    )
    table = prompt.receipt.table().splitlines()
    assert table[0].split() == ["slot", "priority", "offered", "kept", "cut", "messages", "why"]
    assert table[1].split() == ["history", "0", "50", "20", "30", "2/5", "max_ratio"]
    assert "boundary" in table[3]
    assert "29 of 30 tokens (chars/4), 1 free" in table
    assert table[-1].startswith("warning: slot 'gone' is left empty")


def test_the_table_marks_estimates_and_shows_the_frame() -> None:
    slots = Slots(100, "claude-opus-5-5")
    slots.add("input", "hello")
    table = slots.render().receipt.table()
    assert "(frame, tools)" in table
    assert "(claude-opus-5-5, estimated)" in table


def test_a_slot_of_the_receipt_is_found_by_name() -> None:
    receipt = render(9, ("a", "a", {})).receipt
    assert receipt.slot("a").kept == 1
    assert receipt.to_dict()["slots"][0]["name"] == "a"
    with pytest.raises(KeyError):
        receipt.slot("b")


def test_a_prompt_and_its_receipt_survive_storage() -> None:
    slots = Slots(12, "chars/4", tools=[{"name": "find"}])
    slots.add("history", [*tool_round("1", 2), said(9)])
    prompt = slots.render()
    assert Prompt.decode(prompt.encode()) == prompt
    assert Receipt.decode(prompt.receipt.encode()) == prompt.receipt
    assert (
        prompt.receipt.slot("history").messages[1:] == prompt.receipt.slot("history").messages[1:3]
    )
    for kind in (Prompt, Receipt):
        with pytest.raises(InvalidInput, match="not a"):
            kind.decode(b"{}")


def test_provenance_is_said_per_message() -> None:
    photo = File("file:///a.png", "image/png")
    slots = Slots(5000, "o200k_base")
    slots.add("input", [Message.of("user", "hi"), Message("user", (Text("see"), photo))])
    lines = slots.render().receipt.slot("input").messages
    assert [line.provenance for line in lines] == ["counted", "estimated"]


def with_input(*contents: Any) -> Prompt:
    slots = Slots(1000, "chars/4", input=Input("now"))
    for number, content in enumerate(contents):
        slots.add(f"slot{number}", content)
    return slots.render()


EARLIER = [Message.of("user", "before"), Message.of("assistant", "yes")]


def test_an_input_that_was_left_out_is_added_once_at_the_end_of_the_prefix() -> None:
    slots = Slots(1000, "chars/4", input=Input("now"))
    slots.add("state", "tick", stability="volatile")
    slots.add("history", EARLIER)
    prompt = slots.render()
    assert [message.text for message in prompt.messages] == ["before", "yes", "now", "tick"]
    assert warnings(prompt) == [("input_added", "input")]


@pytest.mark.parametrize(
    "contents",
    [
        (EARLIER, Input("now")),
        (EARLIER, "now"),
        ([*EARLIER, Message.of("user", "now")],),
        ([*EARLIER, Message.of("user", "now")], Input("now")),
        (Input("now"), [*EARLIER, Message.of("user", "now")]),
        (EARLIER, Input("now"), Input("now")),
        (EARLIER, [Message.of("user", "now")], [Message.of("user", "now")]),
    ],
)
def test_the_input_is_in_the_prompt_once_and_never_twice(contents: tuple[Any, ...]) -> None:
    said_now = [m.text for m in with_input(*contents).messages].count("now")
    assert said_now == 1


def test_an_input_under_another_role_is_still_the_input() -> None:
    slots = Slots(1000, "chars/4", input=Input("now"))
    slots.add("input", Input("now"), role="system")
    assert [message.role for message in slots.render().messages] == ["system"]


def test_an_input_of_nothing_is_not_added() -> None:
    slots = Slots(1000, "chars/4", input=Input(""))
    slots.add("a", None)
    slots.add("b", Input(""))
    assert slots.render().messages == ()


def test_an_input_that_repeats_an_old_one_is_still_added() -> None:
    history = [Message.of("user", "now"), Message.of("assistant", "done")]
    assert [m.text for m in with_input(history).messages] == ["now", "done", "now"]


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("max_ratio", 1.5, "1.5 is not between 0 and 1"),
        ("max_ratio", -0.1, "not between"),
        ("min_ratio", float("nan"), "nan is not a number"),
        ("min_ratio", float("inf"), "inf is not a number"),
        ("max_ratio", "half", "'half' is not a number"),
        ("max_ratio", True, "True is not a number"),
        ("min_tokens", -1, "-1 is negative"),
        ("min_tokens", 1.5, "1.5 is not a whole number"),
        ("priority", "high", "'high' is not a whole number"),
        ("priority", True, "True is not a whole number"),
        ("position", 1.0, "1.0 is not a whole number"),
        ("role", "robot", "'robot' is not one of system, user, assistant, tool"),
        ("trim_behavior", "word", "'word' is not one of message, char"),
        ("stability", "solid", "'solid' is not one of frozen, append, volatile"),
        ("keep", "best", "'best' is not one of tail, head, middle-out"),
        ("slack", 1, "leaves nothing"),
        ("slack", float("nan"), "nan is not a number"),
    ],
)
def test_a_bad_option_names_the_slot_and_the_option(option: str, value: Any, reason: str) -> None:
    slots = Slots(100, "chars/4")
    with pytest.raises(InvalidSlot, match=f"^slot 'history', {option}: .*{reason}") as caught:
        slots.add("history", "hi", **{option: value})
    assert (caught.value.slot, caught.value.option) == ("history", option)
    assert slots.render().messages == ()


def test_slack_is_for_a_kept_tail() -> None:
    with pytest.raises(InvalidSlot, match="slot 'h', slack: only a kept tail moves"):
        render(9, ("h", "hi", {"slack": 0.1, "keep": "head"}))


def test_options_may_be_a_mapping_in_either_spelling_and_keywords_have_the_last_word() -> None:
    def added(*options: Any, **keywords: Any) -> Any:
        slots = Slots(100, "chars/4")
        slots.add("assistant", "s" * 40, *options, **keywords)
        slots.add("input", "hi")
        return slots.render()

    words = added(role="assistant", max_ratio=0.05, trim_behavior="char")
    assert words.messages[0].text == "s" * 20
    assert added({"role": "assistant", "maxRatio": 0.05, "trimBehavior": "char"}) == words
    assert (
        added({"role": "user", "max_ratio": 0.05, "trimBehavior": "char"}, role="assistant")
        == words
    )
    with pytest.raises(InvalidSlot, match="slot 'assistant', colour: there is no such option"):
        added({"colour": 1})


def test_a_call_and_its_result_in_openais_form_are_one_unit() -> None:
    slots = Slots(12, "chars/4")
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": {"q": "x"}}}
    slots.add("history", [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "f" * 80},
        {"role": "assistant", "content": "Found."},
    ])  # fmt: skip
    assert [message.text for message in slots.render().messages] == ["Found."]


def test_a_call_that_nests_without_end_is_refused_in_words() -> None:
    arguments: dict[str, Any] = {}
    for _ in range(100_000):
        arguments = {"a": arguments}
    call = {"id": "1", "function": {"name": "find", "arguments": arguments}}
    with pytest.raises(InvalidSlot, match="not a message: it nests too deeply"):
        Slots(100, "chars/4").add("history", [{"role": "assistant", "tool_calls": [call]}])


@pytest.mark.parametrize("content", [5, [5], ["text"], {"role": "user"}, b"bytes"])
def test_content_of_another_kind_names_the_slot(content: Any) -> None:
    with pytest.raises(InvalidSlot, match="slot 'h', content"):
        render(9, ("h", content, {}))


def test_a_message_with_an_unknown_role_names_the_slot() -> None:
    robot = Message("robot", (Text("hi"),))  # type: ignore[arg-type]  # as bad input would be
    with pytest.raises(InvalidSlot, match="slot 'h', role: 'robot'"):
        render(9, ("h", robot, {}))


def test_text_that_no_encoding_can_carry_names_the_slot() -> None:
    for content in ("a\ud800", Message("assistant", (ToolCall("1", "x", {"q": "\ud800"}),))):
        with pytest.raises(InvalidSlot, match="slot 'h', content: has a lone surrogate"):
            render(9, ("fine", "a", {}), ("h", content, {}))
    with pytest.raises(InvalidInput, match="tool's definition"):
        Slots(9, "chars/4", tools=[{"name": "\ud800"}]).render()


def test_a_slot_needs_a_name() -> None:
    with pytest.raises(InvalidSlot, match="needs a name"):
        render(9, ("", "hi", {}))


def test_options_from_json_accept_both_spellings() -> None:
    given = {"maxRatio": 0.5, "min_tokens": 3, "trimBehavior": "char", "minRatio": 0.1}
    expected = SlotOptions(max_ratio=0.5, min_tokens=3, trim_behavior="char", min_ratio=0.1)
    assert SlotOptions.from_json("h", given) == expected


@pytest.mark.parametrize("given", [{"maxRation": 1}, {"maxRatio": 1, "max_ratio": 1}])
def test_options_from_json_are_known_and_given_once(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSlot, match=r"slot 'h', max"):
        SlotOptions.from_json("h", given)


@pytest.mark.parametrize("budget", [-1, 1.5, True, "many"])
def test_a_budget_must_be_a_number_of_tokens(budget: Any) -> None:
    with pytest.raises(InvalidInput, match="budget"):
        Slots(budget, "chars/4")


def test_a_budget_of_zero_keeps_nothing_and_says_so() -> None:
    prompt = render(0, ("input", "hi", {}))
    assert prompt.messages == ()
    assert warnings(prompt) == [("slot_left_empty", "input")]


def test_a_budget_may_be_a_value() -> None:
    slots = Slots(Budget(10, reserved_tokens=4), "chars/4")
    slots.add("text", text(9), trim_behavior="char")
    assert slots.render().receipt.total == 6


def test_a_result_cut_to_nothing_is_told_to_be_there() -> None:
    call = ToolCall("call0", "find", {"q": 0})
    history = [
        Message("assistant", (Text("a"), call)),
        Message("tool", (ToolResult("call0", "b" * 4),)),
    ]
    slots = Slots(counter_for("chars/4").weigh(history)[0], "chars/4")
    slots.add("history", history, trim_behavior="char", keep="head")
    prompt = slots.render()
    assert [message.role for message in prompt.messages] == ["assistant", "tool"]
    line = prompt.receipt.slot("history").messages[1]
    assert (line.kept, line.cut, line.emptied, line.is_present) == (0, 1, True, True)
    assert Receipt.decode(prompt.receipt.encode()) == prompt.receipt
    assert "2/2" in prompt.receipt.table()
    assert slot_names(prompt) == ["history"] * 2


def test_a_minimum_never_keeps_a_part_that_weighs_more_than_the_whole() -> None:
    slots = Slots(10, "gpt-4o")
    slots.add("low", "aaae\u0301", min_tokens=5, trim_behavior="char", keep="middle-out")
    prompt = slots.render()
    assert [message.text for message in prompt.messages] == ["aaae\u0301"]
    [line] = prompt.receipt.slots
    assert (line.offered, line.kept, line.cut) == (6, 6, 0)
