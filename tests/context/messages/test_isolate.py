"""Tool isolation: text goes along, tool traffic stays with its family, in pairs."""

from __future__ import annotations

import pytest

from context.messages.entry_values import answer_entry, call_entry, entry, text_entry
from sightline.context.messages.parts import Message, Text, ToolCall, ToolResult
from sightline.context.messages.replay import compatible, isolate, paired

HISTORY = [
    text_entry(0, "user", "q", strategy="openai"),
    call_entry(1, "a", strategy="openai"),
    answer_entry(2, "a", strategy="openai"),
    text_entry(3, "assistant", "done", strategy="openai"),
    text_entry(4, "user", "r", strategy="gemini"),
    call_entry(5, "b", strategy="gemini"),
    answer_entry(6, "b", strategy="gemini"),
    text_entry(7, "assistant", "done too", strategy="gemini"),
]


def seqs(entries: object) -> list[int]:
    return [e.seq for e in entries]  # type: ignore[attr-defined]  # entries in, places out


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [
        ("openai", [0, 1, 2, 3, 4, 7]),
        ("gemini", [0, 3, 4, 5, 6, 7]),
        ("gemini_gca", [0, 3, 4, 5, 6, 7]),
        ("anthropic", [0, 3, 4, 7]),
    ],
)
def test_text_is_kept_and_tool_traffic_only_for_its_family(strategy: str, shown: list[int]) -> None:
    assert seqs(isolate(HISTORY, strategy)) == shown


def test_translate_offers_all_of_it_to_anyone() -> None:
    assert isolate(HISTORY, "anthropic", translate=True) == HISTORY


def test_strategies_of_one_wire_form_are_one_family_and_others_are_not() -> None:
    assert compatible("openai", "openai_chat")
    assert compatible("openai_chat", "openai")
    assert not compatible("openai_chat", "openai_responses")
    assert compatible("gemini", "gemini_gca")
    assert compatible("gemini_gca", "gemini")
    assert not compatible("gemini", "openai")
    assert compatible("custom", "custom")


def test_a_call_without_its_result_leaves_and_its_text_stays() -> None:
    (shown,) = paired([call_entry(0, "a")])
    assert shown.message.parts == (Text("working"),)


def test_a_message_that_was_only_an_open_call_leaves() -> None:
    assert paired([entry(0, Message("assistant", (ToolCall("a", "ls"),)))]) == []


def test_a_result_without_its_call_leaves() -> None:
    assert paired([answer_entry(0, "a")]) == []


def test_a_result_before_its_call_is_no_pair() -> None:
    assert seqs(paired([answer_entry(0, "a"), call_entry(1, "a")])) == [1]


def test_of_two_parallel_calls_the_answered_one_stays() -> None:
    call, answer = paired([call_entry(0, "a", "b"), answer_entry(1, "b")])
    assert [part.id for part in call.message.tool_calls] == ["b"]
    assert [part.call_id for part in answer.message.tool_results] == ["b"]


def test_a_second_result_of_one_call_leaves() -> None:
    assert seqs(paired([call_entry(0, "a"), answer_entry(1, "a"), answer_entry(2, "a")])) == [0, 1]


def test_an_id_used_again_in_a_later_turn_is_another_pair() -> None:
    history = [call_entry(0, "a"), answer_entry(1, "a"), call_entry(2, "a"), answer_entry(3, "a")]
    assert paired(history) == history


def test_a_pair_split_between_strategies_leaves_whole() -> None:
    history = [call_entry(0, "a", strategy="openai"), answer_entry(1, "a", strategy="gemini")]
    shown = isolate(history, "openai")
    assert [part for e in shown for part in e.message.parts] == [Text("working")]


def test_results_inside_a_users_message_are_tool_traffic_too() -> None:
    message = Message("user", (ToolResult("a", "x"),))
    history = [call_entry(0, "a", strategy="anthropic"), entry(1, message, strategy="anthropic")]
    assert isolate(history, "anthropic") == history
    assert isolate(history, "openai") == []
