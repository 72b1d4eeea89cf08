"""Replay: what of a conversation is said again, and when its results become shorter."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.messages.entry_values import result_entry, text_entry
from sightline.context.messages.parts import Entry
from sightline.context.messages.replay import Tiers, fresh_groups, replay, truncate
from sightline.context.messages.window import Window

LONG = "line of output\n" * 200


def talk(groups: int) -> list[Entry]:
    """A conversation whose every group has one long tool result."""
    entries: list[Entry] = []
    for group in range(groups):
        entries.append(text_entry(len(entries), "user", f"question {group}", group=group))
        entries.append(result_entry(len(entries), LONG, group=group))
    return entries


@pytest.mark.parametrize("window", [Window(4, slack=3), Window(1, slack=1), Window(5, slack=8)])
def test_settled_and_between_folds_a_replay_begins_with_the_previous_one(window: Window) -> None:
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


def is_trace(entries: list[Entry]) -> list[bool]:
    return [len(r.content) < 500 for entry in entries for r in entry.message.tool_results]


def test_a_group_that_is_over_keeps_a_trace_of_its_results_whatever_the_slack() -> None:
    for window in (Window(9), Window(9, slack=9), Window(0), Window(0, slack=9)):
        assert is_trace(replay(talk(4), window, Tiers())) == [True, True, True, False]


def test_settled_groups_keep_their_results_until_the_window_folds() -> None:
    settled = Tiers(settle=True)
    assert not any(is_trace(replay(talk(7), Window(4, slack=3), settled)))
    assert is_trace(replay(talk(8), Window(4, slack=3), settled)) == [True, True, True, False]


@pytest.mark.parametrize("slack", [0, 5])
def test_what_the_window_shows_is_truncated_exactly(slack: int) -> None:
    entries = talk(9)
    shown = Window(3, slack).shown(9)
    assert replay(entries, Window(3, slack), Tiers()) == truncate(entries[-2 * shown :], Tiers())
    assert replay(entries, Window(0, slack), Tiers()) == truncate(entries, Tiers())
    assert replay([], Window(3, slack), Tiers()) == []


def test_the_newest_groups_are_enough_if_the_total_is_told() -> None:
    window, entries = Window(4, slack=3), talk(13)
    newest = entries[-2 * window.shown(13) :]
    assert replay(newest, window, Tiers(), total=13) == replay(entries, window, Tiers())


def test_a_window_of_everything_never_folds() -> None:
    assert fresh_groups(Window(0, slack=5), 99) == 99
    assert fresh_groups(Window(0), 99) == 1
    assert fresh_groups(Window(3), 0) == 0


@given(st.integers(0, 2**32))
def test_settled_and_with_kept_tails_what_stood_before_the_first_stays_until_a_fold(
    seed: int,
) -> None:
    """A turn of some rounds; after each the state has changed, and the tail moves, or has not."""
    chance = random.Random(seed)
    window, tiers = Window(3, slack=4), Tiers(settle=True)
    entries: list[Entry] = []
    loose: dict[int, int] = {}
    before: list[Entry] = []
    for group in range(1, 14):
        entries.append(text_entry(len(entries) + 1, "user", "q", group=group))
        kept_since = len(entries)
        for request in range(chance.randint(1, 4)):
            if request:
                entries.append(result_entry(len(entries) + 1, LONG, group=group))
                kept_since = len(entries) if chance.random() < 0.4 else kept_since
            shown = replay(entries, window, tiers, loose=loose)
            if request or fresh_groups(window, group) > 1:
                assert shown[: len(before)] == before
            behind = len(entries) - kept_since
            loose[group] = entries[kept_since].id if behind else 0
            before = shown[: len(shown) - behind]
    entries.append(text_entry(len(entries) + 1, "user", "q", group=14))
    for entry in replay(entries, window, tiers, loose=loose):
        first = loose.get(entry.group_id, 0)
        if first and entry.id >= first:
            assert all(len(result.content) < 500 for result in entry.message.tool_results)


def test_a_running_turn_keeps_its_results_and_a_finished_one_those_that_were_in_a_prefix() -> None:
    entries = [text_entry(1, "user", "q", group=1)]
    entries += [result_entry(number, LONG, group=1) for number in (2, 3, 4)]
    window, tiers = Window(3, slack=4), Tiers(settle=True)

    def cut(loose: int) -> list[bool]:
        shown = replay(entries, window, tiers, loose={1: loose})
        return [len(r.content) < 500 for entry in shown for r in entry.message.tool_results]

    assert cut(103) == [False, False, False]
    entries.append(text_entry(5, "user", "q", group=2))
    assert cut(103) == [False, True, True]
    assert cut(0) == [False, False, False]
