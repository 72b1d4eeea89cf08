"""The measurement of the start measures a start; how fast it is is not a test's business."""

from __future__ import annotations

from benchmarks.startup import PROMISE_S, run


def test_the_start_is_measured_against_an_interpreter_and_the_promise() -> None:
    against_python, against_promise = run(quick=True)
    assert against_python.peer is not None
    assert 0 < against_python.peer < against_python.ours
    assert against_promise.ours == against_python.ours
    assert (against_promise.peer, against_promise.bar) == (PROMISE_S, 1)
