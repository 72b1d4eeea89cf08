"""How much room a prompt has."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.context.slots.slots import Budget
from sightline.errors import DoesNotFit, InvalidInput


def test_what_is_reserved_is_not_remaining() -> None:
    assert Budget(8000, 1000, reserved_tokens=500).remaining_input_tokens == 7500


def test_the_window_is_shared_between_input_and_output() -> None:
    budget = Budget.for_window(128_000, 16_000, reserved_tokens=2_000)
    assert budget == Budget(112_000, 16_000, 2_000)
    assert budget.remaining_input_tokens == 110_000


def test_an_input_limit_of_its_own_holds_too() -> None:
    assert (
        Budget.for_window(1_050_000, 128_000, max_input_tokens=922_000).max_input_tokens == 922_000
    )
    assert Budget.for_window(100_000, 20_000, max_input_tokens=90_000).max_input_tokens == 80_000


@pytest.mark.parametrize("window", [512, 2_048, 8_192])
def test_a_small_window_still_leaves_a_usable_budget(window: int) -> None:
    """Some models list an output as large as their window."""
    budget = Budget.for_window(window, window)
    assert budget.remaining_input_tokens == window - window // 4
    assert budget.max_output_tokens == window // 4


def test_an_output_that_was_asked_for_is_given() -> None:
    assert Budget.for_window(8_192, 8_192, output_tokens=6_000).max_input_tokens == 2_192


def test_impossible_budgets_show_the_arithmetic() -> None:
    with pytest.raises(DoesNotFit, match=r"window 4096 - output 4000 - 200 reserved = -104"):
        Budget.for_window(4096, 4096, output_tokens=4000, reserved_tokens=200)
    with pytest.raises(DoesNotFit, match=r"\(input limit 100\) - 100 reserved = 0"):
        Budget.for_window(4096, 1000, max_input_tokens=100, reserved_tokens=100)
    with pytest.raises(DoesNotFit, match=r"5000 output tokens asked for, the model gives 4096"):
        Budget.for_window(9999, 4096, output_tokens=5000)
    with pytest.raises(DoesNotFit, match=r"100 input tokens - 101 reserved = -1"):
        Budget(100, reserved_tokens=101)


@pytest.mark.parametrize("value", [-1, 1.5, True, "12", None, float("nan")])
def test_a_budget_is_a_count(value: Any) -> None:
    with pytest.raises(InvalidInput, match="max_input_tokens"):
        Budget(value)
