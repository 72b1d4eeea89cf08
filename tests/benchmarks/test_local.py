"""The real runtime reuses what the layouts promise. How fast is not a test's business."""

from __future__ import annotations

import pytest
from benchmarks.local import QUICK_TURNS, main, state


def test_a_tail_keeps_the_history_warm_and_state_before_it_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--quick"]) == 0
    _, _, *rows, total = capsys.readouterr().out.splitlines()
    figures = [
        [int(cell.replace(",", "")) for cell in row.strip("| ").split(" | ")] for row in rows
    ]
    assert [row[0] for row in figures] == list(range(1, QUICK_TURNS + 1))
    tail_reused = [row[3] for row in figures]
    before_reused = [row[5] for row in figures]
    # Behind the history the state leaves all of it warm; before it, only the instructions.
    assert tail_reused == sorted(set(tail_reused))
    assert len(set(before_reused[1:])) == 1
    assert tail_reused[-1] > before_reused[-1]
    for _, prompt, evaluated, reused, *_ in figures:
        assert evaluated + reused == prompt
    assert total.startswith("| all | ")


def test_the_state_is_another_one_in_every_turn() -> None:
    assert len({state(turn) for turn in range(20)}) == 20
