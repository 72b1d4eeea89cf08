"""The real runtime reuses what the layouts promise. How fast is not a test's business."""

from __future__ import annotations

import sys

import pytest
from benchmarks.harness import LeftOut
from benchmarks.local import QUICK_TURNS, run, state

from support.share import WHOLE


@pytest.mark.skipif(not WHOLE, reason="18 s; LAWS=whole runs it")
def test_a_tail_keeps_the_history_warm_and_state_before_it_does_not() -> None:
    *turns, whole, _ = run(quick=True)
    assert [row.slug for row in turns] == [f"turn-{at}" for at in range(1, QUICK_TURNS + 1)]
    tail_reused = [row.more["reused"] for row in turns]
    before_reused = [row.more["peer_reused"] for row in turns]
    # Behind the history the state leaves all of it warm; before it, only the instructions.
    assert tail_reused == sorted(set(tail_reused))
    assert len(set(before_reused[1:])) == 1
    assert tail_reused[-1] > before_reused[-1]
    for row in turns:
        assert row.ours + row.more["reused"] == row.size
    assert whole.ours == sum(row.ours for row in turns)
    assert whole.more["reused"] == sum(tail_reused)


def test_without_the_runtime_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(LeftOut, match="the embedded model needs its runtime"):
        run(quick=True)


def test_the_state_is_another_one_in_every_turn() -> None:
    assert len({state(turn) for turn in range(20)}) == 20
