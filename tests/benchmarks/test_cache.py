"""What the prices of layouts rest on, and what they say. Counts, not times: the same everywhere."""

from __future__ import annotations

import random
from itertools import chain, takewhile

import numpy as np
import pytest
from benchmarks.cache import (
    BLOCK,
    DEFAULT,
    ENCODING,
    FIXED,
    LAYOUTS,
    MARKED,
    VENDORS,
    WORKS,
    Asked,
    PrefixCache,
    Reuse,
    Texts,
    Work,
    Writer,
    conversation,
    lengths,
    measure,
    price,
    state_block,
)
from benchmarks.results import load

from benchmarks import gpu
from sightline.context.dialects import encode, profile_for
from sightline.context.messages.parts import Message
from sightline.context.messages.replay import replay
from sightline.context.slots.prompt import Prompt
from sightline.context.slots.slots import Slots

CHAT, LOOPS, LARGE = WORKS
SHORT = 12


def request_of(*sizes: int, stable: int) -> Asked:
    numbers = np.arange(len(sizes))
    return Asked(
        numbers, np.cumsum(sizes), numbers + 1, stable, {name: [stable] for name in MARKED}
    )


def held(common: int, *marks: int) -> Reuse:
    return Reuse(common, {name: set(marks) for name in MARKED})


def written(texts: Texts, asked: Asked) -> list[int]:
    return [*chain.from_iterable(texts.tokens[number].tolist() for number in asked.numbers)]


@pytest.mark.parametrize("name", ["default", "settle", "slack-5", "window-10"])
@pytest.mark.parametrize("work", [CHAT, LARGE], ids=lambda work: work.name)
def test_the_history_of_a_request_is_what_the_host_would_replay(name: str, work: Work) -> None:
    layout, texts = LAYOUTS[name], Texts()
    writer = Writer(layout, texts)
    for moment in conversation(work, 24, "turn"):
        entries = [*chain.from_iterable(moment.groups)]
        shown = texts.numbers(e.message for e in replay(entries, layout.window, layout.tiers))
        assert [*np.concatenate([*writer.history(moment)])] == [*shown]


def shared(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.parametrize("name", ["layers", "users", "default", "brief"])
def test_what_is_reused_is_the_longest_beginning_that_an_earlier_request_had(name: str) -> None:
    texts = Texts()
    writer, cache = Writer(LAYOUTS[name], texts), PrefixCache(texts)
    earlier: list[list[int]] = []
    for moment in conversation(CHAT, 5, "turn"):
        asked = writer.write(moment)
        tokens = written(texts, asked)
        assert len(tokens) == asked.ends[-1]
        common = (shared(tokens, old) for old in earlier)
        assert cache.reuse(asked).common == max(common, default=0)
        earlier.append(tokens)


def test_a_vendor_with_marks_takes_its_prices_for_what_was_read_written_and_neither() -> None:
    asked = request_of(1_000, 1_000, 4_000, 500, 900, stable=4)
    anthropic, gemini = VENDORS["anthropic"], VENDORS["gemini"]
    read = (anthropic.prices.cache_read or 0) / (anthropic.prices.input or 1)
    write = (anthropic.prices.cache_write or 0) / (anthropic.prices.input or 1)
    found = price("anthropic", asked, held(6_300, 2, 3))
    assert found == pytest.approx(6_000 * read + 500 * write + 900)
    assert price("anthropic", asked, held(0)) == pytest.approx(6_500 * write + 900)
    automatic = price("gemini", asked, held(6_305, 2, 3))
    cheap = (gemini.prices.cache_read or 0) / (gemini.prices.input or 1)
    assert automatic == pytest.approx(6_304 * cheap + 7_400 - 6_304)
    assert price("gemini", asked, held(4_000)) == 7_400, "below the minimum nothing is cached"


def test_a_mark_further_back_than_the_vendor_looks_is_not_found() -> None:
    asked = request_of(*[1_000] * 40, stable=39)
    near, far, none = (price("anthropic", asked, held(0, 2, *marks)) for marks in ([20], [18], []))
    assert near < far == none
    again = asked._replace(marks={**asked.marks, "anthropic": [18, 39]})
    assert price("anthropic", again, held(0, 2, 18)) < none, "unless it is marked again"
    assert price("openai", asked, held(0, 2, 18)) < price("openai", asked, held(0, 2))


@pytest.mark.parametrize(
    ("vendor", "endpoint"), [("anthropic",) * 2, ("openai", "openai-responses")]
)
def test_the_marks_are_those_of_the_requests_that_are_sent(vendor: str, endpoint: str) -> None:
    writer, profile = Writer(DEFAULT, Texts()), profile_for(endpoint, "", {"cache.min_tokens": 0})
    receipt = Slots(1_000, "chars/4").render().receipt
    for moment in conversation(LOOPS, 2, "turn"):
        marks = writer.write(moment).marks[vendor]
        shown = replay([*chain.from_iterable(moment.groups)], DEFAULT.window, DEFAULT.tiers)
        prefix = (*FIXED, *(entry.message for entry in shown))
        made = Prompt((*prefix, moment.state), len(prefix), receipt)
        request = encode(made, profile)
        _, *places = (request.wire.span_at(offset - 1) for offset, _ in request.inserts)
        assert [span.message + 1 for span in places if span] == marks


def test_the_default_costs_less_than_what_it_replaced_and_less_than_the_seed_order() -> None:
    chosen = {name: LAYOUTS[name] for name in ("layers", "settle", "default")}
    found = measure(chosen, (CHAT, LARGE), (30,))
    for cell, costs in found["default"].items():
        for vendor in VENDORS:
            assert costs[vendor] < found["settle"][cell][vendor], (cell, vendor)
            assert costs[vendor] < found["layers"][cell][vendor], (cell, vendor)
    fewer = [
        found["settle"][c]["evaluated"] < found["default"][c]["evaluated"] for c in found["settle"]
    ]
    assert all(fewer), "and evaluates more: price and tokens evaluated are two things"


def test_what_was_found_cheaper_than_the_default_shows_less_or_departs() -> None:
    rows = load()["cache"].rows
    cheaper = {row.slug: row.note for row in rows if row.more["price"] < 0.99}
    less = {slug for slug in cheaper if 0 < LAYOUTS[slug].window.size < DEFAULT.window.size}
    assert all(note.startswith("departs") for slug, note in cheaper.items() if slug not in less)


def test_a_whole_tail_costs_the_same_whenever_the_state_changes() -> None:
    for slug, layout in LAYOUTS.items():
        if not layout.depends_on_changes:
            assert layout.repeat == "whole", slug
    texts = Texts()
    sums = []
    for changes in ("turn", "seldom"):
        writer, cache = Writer(DEFAULT, texts), PrefixCache(texts)
        asked = map(writer.write, conversation(CHAT, SHORT, changes))
        sums.append(sum(cache.reuse(request).common for request in asked))
    assert sums[0] == pytest.approx(sums[1], rel=0.01)


def test_the_conversations_are_what_they_say() -> None:
    for work, requests in ((CHAT, 99), (LOOPS, 650), (LARGE, 200)):
        moments = [(m.state, len(m.groups)) for m in conversation(work, 50, "request")]
        assert len(moments) == requests
        assert len({state.text for state, _ in moments}) == requests
    states = {moment.state.text for moment in conversation(CHAT, 50, "seldom")}
    assert len(states) == 5
    tokens = len(ENCODING.encode_ordinary(state_block(random.Random(3), 7).text))
    assert 700 <= tokens <= 900


def test_a_plan_for_a_gpu_says_which_tokens_are_evaluated() -> None:
    classic, ours = (lengths(LAYOUTS[name], "chat", SHORT) for name in ("layers", "default"))
    fixed = int(Texts().weights.sum()) + sum(len(ENCODING.encode_ordinary(m.text)) for m in FIXED)
    assert [total for _, total in classic] == [total for _, total in ours]
    assert all(kept % BLOCK == 0 and kept < total for kept, total in (*classic, *ours))
    assert max(kept for kept, _ in classic) < fixed + 500, "the notes stand before the history"
    assert [kept for kept, _ in ours][-1] > 2 * fixed
    found = gpu.summary(ours, [0.01 * number for number in range(1, len(ours) + 1)])
    assert found["evaluated"] == sum(total - kept for kept, total in ours)
    assert found["p95"] == pytest.approx(0.01 * -(-95 * len(ours) // 100))
    assert 7.9e9 < gpu.SHAPES["llama-3-8b"].parameters < 8.1e9


def test_a_message_is_a_number_and_the_same_text_the_same_one() -> None:
    texts = Texts()
    first = texts.numbers([Message.of("user", "a"), Message.of("user", "b")])
    again = texts.numbers([Message.of("user", "b"), Message.of("assistant", "b")])
    assert (first[1], again[1]) == (again[0], 2)
