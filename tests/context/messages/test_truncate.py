"""The three tiers, exactly; the hint; and the mode that settles."""

from __future__ import annotations

from typing import Any

import pytest

from context.messages.entry_values import entry, result_entry, text_entry
from sightline.context.messages.parts import Message, Text, ToolResult
from sightline.context.messages.replay import Tiers, hint_for, truncate
from sightline.errors import InvalidInput

LONG = "0123456789" * 1000


def kept(shown: Any) -> list[int]:
    """How many characters of each result were kept, without the hint."""
    return [len(e.message.tool_results[0].content.removesuffix(hint_for(e.id))) for e in shown]


def test_five_newest_of_the_active_group_older_ones_and_finished_groups() -> None:
    history = [
        *(result_entry(n, LONG, group=1) for n in range(3)),
        *(result_entry(n, LONG, group=2) for n in range(3, 11)),
    ]
    assert kept(truncate(history)) == [300] * 3 + [1000] * 3 + [5000] * 5


def test_the_hint_names_the_message_as_the_seed_writes_it() -> None:
    (shown,) = truncate([result_entry(7, LONG)])
    assert shown.message.tool_results[0].content.endswith(
        '... [TRUNCATED. Use query_db(sql="SELECT content FROM messages WHERE id=107")'
        " to see full output]"
    )


def test_what_is_within_its_limit_is_left_alone() -> None:
    history = [result_entry(0, "x" * 300, group=1), result_entry(1, "y" * 5000, group=2)]
    shown = truncate(history)
    assert shown == history
    assert all(a is b for a, b in zip(shown, history, strict=True))


def test_when_the_turn_is_over_every_group_is_inactive() -> None:
    assert kept(truncate([result_entry(0, LONG)], active_group=-1)) == [300]


def test_head_and_tail_are_both_readable() -> None:
    text = "START " + "x" * 9000 + " Error: disk on fire"
    shown = truncate([result_entry(0, text)], active_group=-1)[0].message.tool_results[0].content
    assert shown.startswith("START ")
    assert "\n[…]\n" in shown
    assert "Error: disk on fire... [TRUNCATED." in shown


def test_a_tail_share_of_nothing_keeps_the_head_only() -> None:
    tiers = Tiers(tail_share=0)
    shown = truncate([result_entry(0, LONG)], tiers)[0].message.tool_results[0].content
    assert shown == LONG[:5000] + hint_for(100)


def test_nothing_but_results_is_cut() -> None:
    history = [
        text_entry(0, "user", LONG),
        entry(1, Message("tool", (Text(LONG), ToolResult("c", LONG)))),
    ]
    shown = truncate(history, active_group=-1)
    assert shown[0] is history[0]
    assert shown[1].message.parts[0] == Text(LONG)
    assert len(shown[1].message.tool_results[0].content) < 500


def test_several_results_in_one_message_count_each() -> None:
    message = Message("tool", tuple(ToolResult(f"c{n}", LONG) for n in range(7)))
    (shown,) = truncate([entry(0, message)])
    lengths = [len(r.content.removesuffix(hint_for(100))) for r in shown.message.tool_results]
    assert lengths == [1000] * 2 + [5000] * 5


def test_settings_are_settable() -> None:
    tiers = Tiers(recent=1, recent_chars=50, degraded_chars=40, inactive_chars=30)
    history = [result_entry(n, LONG, group=1 + (n > 1)) for n in range(4)]
    assert kept(truncate(history, tiers)) == [30, 30, 40, 50]
    assert kept(truncate(history, Tiers(inactive_chars=0, tail_share=0)))[0] == 0


def test_a_cut_never_splits_what_a_reader_sees_as_one_character() -> None:
    family = "👩‍👩‍👧‍👦"
    shown = truncate([result_entry(0, family * 1000)], Tiers(recent_chars=101))
    text = shown[0].message.tool_results[0].content.removesuffix(hint_for(100))
    head, tail = text.split("\n[…]\n")
    assert head == family * (len(head) // len(family))
    assert tail == family * (len(tail) // len(family))
    assert len(text) <= 101


def test_settled_results_degrade_in_batches() -> None:
    tiers = Tiers(settle=True)
    counts = {n: tiers.limits(n, active=True).count(1000) for n in (5, 9, 10, 14, 15, 20)}
    assert counts == {5: 0, 9: 0, 10: 5, 14: 5, 15: 10, 20: 15}


def test_a_settled_result_is_not_cut_again_when_its_group_ends() -> None:
    limits = Tiers(settle=True).limits(12, active=False)
    assert limits == [1000] * 5 + [300] * 7


@pytest.mark.parametrize(
    "settings",
    [{"recent": -1}, {"inactive_chars": -1}, {"tail_share": 1}, {"tail_share": -1}, {"batch": 0}],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Tiers(**settings)


def test_an_empty_history_stays_empty() -> None:
    assert truncate([]) == []
