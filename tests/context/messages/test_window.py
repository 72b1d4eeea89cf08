"""Windows: sizes, slack, budgets, and what is no size."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.context.messages.window import TokenWindow, Window
from sightline.errors import InvalidInput


def test_without_slack_it_is_the_last_n_groups_exactly() -> None:
    assert [Window(3).shown(total) for total in range(6)] == [0, 1, 2, 3, 3, 3]


def test_zero_is_all_of_them() -> None:
    assert Window(0, slack=5).shown(1_000_000) == 1_000_000


def test_with_slack_it_grows_and_folds_back_at_once() -> None:
    assert [Window(2, slack=2).shown(total) for total in range(2, 10)] == [2, 3, 4, 2, 3, 4, 2, 3]


def test_a_budget_leaves_out_whole_steps() -> None:
    window = TokenWindow(1000, step=0.2)
    assert window.left_out(1000) == 0
    assert window.left_out(1001) == 200
    assert window.left_out(1200) == 200
    assert window.left_out(1201) == 400
    assert TokenWindow(1000, step=0).left_out(1001) == 1


@pytest.mark.parametrize("size", [-1, 1.5, "3", None, True, 2**40])
def test_a_window_of_no_size_is_refused(size: Any) -> None:
    with pytest.raises(InvalidInput, match="a window's size"):
        Window(size)
    with pytest.raises(InvalidInput, match="a window's slack"):
        Window(1, slack=size)
    with pytest.raises(InvalidInput, match="a window's budget"):
        TokenWindow(size)


def test_a_budget_and_its_step_have_bounds() -> None:
    with pytest.raises(InvalidInput, match="positive"):
        TokenWindow(0)
    for step in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidInput, match="share of its budget"):
            TokenWindow(10, step=step)
