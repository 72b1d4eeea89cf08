"""The cache experiment holds its bar. Counts, not times: the same on every machine."""

from __future__ import annotations

import random
from pathlib import Path

from benchmarks.cache import (
    BAR,
    ENCODING,
    FIXED,
    TURNS,
    PrefixCache,
    conversation,
    measure,
    state_block,
    tokens_of,
)

import benchmarks
from sightline.context.messages.parts import Message

NOTES = Path(benchmarks.__file__).with_name("README.md").read_text(encoding="utf-8")


def test_sightline_evaluates_a_third_of_the_classic_layers_and_loses_nothing_between_folds() -> (
    None
):
    found = measure(TURNS)
    assert found["e"].evaluated * BAR <= found["c"].evaluated
    assert found["e"].worst_reuse >= 0.9
    assert found["e"].folds == 2
    assert found["d"].evaluated < found["c"].evaluated < found["b"].evaluated


def test_with_repeats_in_a_word_the_bar_holds_whether_or_not_the_state_moves_within_a_turn() -> (
    None
):
    moving, still = measure(TURNS), measure(TURNS, every_request=False)
    for found in (moving, still):
        assert found["f"].evaluated * BAR <= found["c"].evaluated
        assert found["f"].worst_reuse >= 0.9
        assert found["f"].folds == 2
    assert still["f"].price < 0.8 * still["e"].price


def test_a_state_that_is_rendered_with_every_request_cannot_hold_it_where_it_is_still() -> None:
    moments = list(conversation(TURNS, every_request=False))
    states = sum(len(tokens_of([Message.of("user", moment.state)])) for moment in moments)
    said = len(tokens_of([*FIXED, *(entry.message for entry in moments[-1].entries)]))
    third = measure(TURNS, every_request=False)["c"].evaluated // BAR
    assert f"{states:,} tokens" in NOTES
    assert f"once {said:,}," in NOTES
    assert f"{third:,.0f}" in NOTES
    assert states + said > third


def test_the_experiment_is_what_it_says() -> None:
    moments = list(conversation(TURNS))
    assert moments[-1].entries[-1].group_id == TURNS - 1
    with_tools = {e.group_id for e in moments[-1].entries if e.is_tool_traffic}
    assert len(with_tools) == TURNS // 2
    assert len({moment.state for moment in moments}) == len(moments)
    tokens = len(ENCODING.encode_ordinary(state_block(random.Random(3), 7)))
    assert 700 <= tokens <= 900


def test_the_cache_reuses_whole_blocks_of_any_earlier_request() -> None:
    cache = PrefixCache()
    assert cache.cached(range(40)) == 0
    assert cache.cached(range(40)) == 32
    assert cache.cached([*range(20), 99, *range(21, 60)]) == 16
    assert cache.cached(range(60)) == 32
