"""Replay: between two folds nothing that was sent changes."""

from __future__ import annotations

import pytest

from context.entry_values import result_entry, text_entry
from sightline.context.entries import Entry
from sightline.context.replay import fresh_groups, replay
from sightline.context.truncate import Tiers, truncate
from sightline.context.window import Window

LONG = "line of output\n" * 200


def talk(groups: int) -> list[Entry]:
    """A conversation whose every group has one long tool result."""
    entries: list[Entry] = []
    for group in range(groups):
        entries.append(text_entry(len(entries), "user", f"question {group}", group=group))
        entries.append(result_entry(len(entries), LONG, group=group))
    return entries


@pytest.mark.parametrize("window", [Window(4, slack=3), Window(1, slack=1), Window(5, slack=8)])
def test_between_folds_a_replay_begins_with_the_previous_one(window: Window) -> None:
    previous = replay(talk(1), window, Tiers(settle=True))
    folds = 0
    for groups in range(2, 40):
        current = replay(talk(groups), window, Tiers(settle=True))
        if fresh_groups(window, groups) == 1:
            folds += 1
            assert len({entry.group_id for entry in current}) == window.size
        else:
            assert current[: len(previous)] == previous
        previous = current
    assert folds == (39 - window.size) // (window.slack + 1)


def test_at_a_fold_finished_groups_keep_a_trace_of_their_results() -> None:
    shown = replay(talk(8), Window(4, slack=3), Tiers())
    lengths = [len(r.content) for entry in shown for r in entry.message.tool_results]
    assert [length < 500 for length in lengths] == [True, True, True, False]


def test_a_window_without_slack_is_the_exact_truncation() -> None:
    entries = talk(9)
    assert replay(entries, Window(3), Tiers()) == truncate(entries[-6:], Tiers())
    assert replay(entries, Window(0), Tiers()) == truncate(entries, Tiers())
    assert replay([], Window(3), Tiers()) == []


def test_the_newest_groups_are_enough_if_the_total_is_told() -> None:
    window, entries = Window(4, slack=3), talk(13)
    newest = entries[-2 * window.shown(13) :]
    assert replay(newest, window, Tiers(), total=13) == replay(entries, window, Tiers())


def test_a_window_of_everything_never_folds() -> None:
    assert fresh_groups(Window(0, slack=5), 99) == 99
    assert fresh_groups(Window(0), 99) == 1
    assert fresh_groups(Window(3), 0) == 0
