"""The measurement of a start measures a start; how fast it is is not a test's business."""

from __future__ import annotations

import pytest
from benchmarks.startup import PROMPT_S, REQUEST_S, run

from benchmarks import keystrokes
from support.share import WHOLE


@pytest.mark.skipif(not WHOLE, reason="6 s; LAWS=whole runs it")
def test_the_start_is_measured_against_an_interpreter_and_the_promises() -> None:
    rows = {row.slug: row for row in run(quick=True)}
    bare, promise = rows["chat"], rows["chat-promise"]
    assert bare.peer is not None
    assert 0 < bare.peer < bare.ours
    assert promise.ours == bare.ours
    assert (promise.peer, promise.bar) == (PROMPT_S, 1)
    asked = rows["ask-anthropic"]
    assert (asked.peer, asked.bar) == (REQUEST_S, 1)
    assert asked.ours > bare.peer
    assert rows["connection-openai"].peer is not None


@pytest.mark.skipif(not WHOLE, reason="12 s; LAWS=whole runs it")
def test_keys_are_measured_in_a_chat_that_streams_beside_an_app_that_floods() -> None:
    flooded, waiting = keystrokes.run(quick=True)
    assert flooded.peer == waiting.peer == keystrokes.PROMISE_S
    assert 0 < flooded.more["p50"] <= flooded.ours
