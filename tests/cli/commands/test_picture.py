"""The picture of the window: true to the receipt, readable without colours, at any width."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cli.commands.console import Line, text_of, width_of
from sightline.cli.commands.picture import BOUNDARY, cells_of, draw, picture_of
from sightline.context.slots.prompt import Receipt
from sightline.context.slots.slots import Budget, Slots
from sightline.context.tokens.tokens import counter_for


def receipt(*, strategy_slot: str = "") -> Receipt:
    """A real one: slots of known sizes, in the default order."""
    slots = Slots(Budget(1000), counter_for("chars/4"))
    add = slots.add
    add("system", "s" * 400, role="system", priority=100, stability="frozen")
    add("history", "h" * 800, max_ratio=0.1, trim_behavior="char")
    add("input", "i" * 40, priority=80)
    if strategy_slot:
        add(strategy_slot, "o" * 80)
    add("memos", "m" * 40, stability="volatile")
    add("state", "z" * 200, stability="volatile")
    return slots.render().receipt


def texts(lines: list[Line]) -> list[str]:
    return [text_of(line) for line in lines]


@given(st.lists(st.integers(0, 10**7), max_size=20), st.integers(0, 300))
def test_cells_add_up_and_whoever_has_tokens_has_a_cell(tokens: list[int], width: int) -> None:
    cells = cells_of(tokens, width)
    present = [amount > 0 for amount in tokens]
    assert len(cells) == len(tokens)
    assert sum(cells) == (width if any(present) else 0)
    if sum(present) <= width:
        assert [cell > 0 for cell in cells] == present


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=12))
def test_more_tokens_never_have_fewer_cells_than_less(tokens: list[int]) -> None:
    cells = cells_of(tokens, 200)
    ranked = sorted(range(len(tokens)), key=lambda index: tokens[index])
    assert all(cells[a] <= cells[b] + 1 for a, b in pairwise(ranked))


def test_slots_stand_in_prompt_order_with_boundary_free_and_reserve() -> None:
    lines = texts(draw(picture_of(receipt(), 1250), 40))
    bar = "".join(lines[1:4])
    assert len(bar) == 120
    letters = "".join(dict.fromkeys(bar))
    assert letters == f"SHI{BOUNDARY}MV·░"


def test_the_figures_are_those_of_the_receipt() -> None:
    account = receipt()
    lines = texts(draw(picture_of(account, 1250), 100))
    assert lines[0].startswith(f"{account.total:,} of 1,250 tokens")
    history = account.slot("history")
    [shown] = [line for line in lines if line.startswith("H history")]
    assert f"{history.kept:,}" in shown
    assert f"{history.cut:,} cut" in shown
    assert "/context window N" in shown
    [reserve] = [line for line in lines if line.startswith("░ reserve")]
    assert "250" in reserve


def test_the_boundary_stands_before_the_tail() -> None:
    lines = texts(draw(picture_of(receipt(), 1000), 80))
    names = [line.split()[1] for line in lines[4:] if line[:1].isalpha() or "boundary" in line]
    at = names.index("boundary:")
    assert names[at - 1] == "input"
    assert names[at + 1] == "memos"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    limit = max(width, 40)
    for line in texts(draw(picture_of(receipt(), 1250), width)):
        assert width_of(line) <= limit


def test_a_slot_of_another_strategy_gets_a_letter_nobody_has() -> None:
    picture = picture_of(receipt(strategy_slot="summary\x1b[2J"), 1000)
    [other] = [share for share in picture.shares if share.name.startswith("summary")]
    letters = [share.letter for share in picture.shares]
    assert other.letter == "U"  # S and M are taken
    assert len(set(letters)) == len(letters)
    assert "\x1b" not in "".join(texts(draw(picture, 80)))


def test_an_empty_window_can_be_drawn() -> None:
    slots = Slots(Budget(100), counter_for("chars/4"))
    slots.add("input", "")
    lines = texts(draw(picture_of(slots.render().receipt, 100), 40))
    assert lines[0].startswith("0 of 100 tokens")
