"""A filter is what was typed: read, written and read again it is the same."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sightline.errors import InvalidInput
from sightline.inspector.turns import (
    LONGEST,
    STATUSES,
    UNITS,
    FilterTerm,
    TurnFilter,
    parse_filter,
)

texts = st.text(st.characters(exclude_characters='"', exclude_categories=["Cc", "Cs", "Z"])).filter(
    lambda text: text.strip("-") == text
)
words = st.lists(texts.filter(bool), min_size=1).map(" ".join)
figures = st.integers(0, 10**6).map(lambda n: n / 1_000)
terms = st.one_of(
    st.builds(FilterTerm, words, is_not=st.booleans()),
    st.builds(FilterTerm, words, st.sampled_from(["tool", "model"]), st.just(":"), st.booleans()),
    st.builds(
        FilterTerm, st.sampled_from(STATUSES), st.just("status"), st.just(":"), st.booleans()
    ),
    st.builds(
        FilterTerm,
        figures,
        st.sampled_from(list(UNITS)),
        st.sampled_from(["<", "<=", ">", ">=", "="]),
        st.booleans(),
    ),
)


@given(
    st.lists(terms)
    .map(lambda some: TurnFilter(tuple(some)))
    .filter(lambda wanted: len(str(wanted)) <= LONGEST)
)
def test_what_is_written_is_read_as_it_was(wanted: TurnFilter) -> None:
    assert parse_filter(str(wanted)) == wanted


@given(st.text())
@example('cache<50% "half a quote')
@example('a"b:c "" -"" --x -"-y"')
def test_any_text_is_a_filter_or_is_refused_in_words(text: str) -> None:
    with suppress(InvalidInput):
        found = parse_filter(text)
        assert parse_filter(str(found)) == found


KNOWN = {
    "status": "answered", "model": frozenset({"openai-chat:gpt-6.1-luna"}), "cache": 40.0,
    "cost": 0.2, "time": 2.5, "tokens": 3_000, "requests": 2, "turn": 7, "": True, "tool": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_listed"),
    [
        ("", True),
        ("cache<50%", True),
        ("cache<40", False),
        ("cost>0.1 time>=2500ms tokens>2.9k requests=2 turn=7", True),
        ("cost>$0.1 cost<0.15", False),
        ("-status:failed model:LUNA", True),
        ("status:failed", False),
        ("deploy tool:rollback", True),
        ("deploy -tool:rollback", False),
    ],
)
def test_a_turn_is_listed_that_has_all_that_is_asked_for(text: str, is_listed: bool) -> None:
    assert all(term.admits(KNOWN[term.field]) for term in parse_filter(text).terms) == is_listed


def test_what_nobody_knows_is_neither_more_nor_less() -> None:
    for text in ("cost>0", "cost<=0"):
        [term] = parse_filter(text).terms
        assert not term.admits(None)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("statsu:failed", "did you mean 'status'"),
        ("status:faild", "answered, running"),
        ("http://x", 'As text it is written "http://x"'),
        ("cache:50", "cache<50%"),
        ("cost>3s", "cost is compared with a number"),
        ("tool>3", "tool:rollback"),
        ("tool:", "tool:rollback"),
        ("x" * 2_000, "at most 1,000"),
    ],
)
def test_what_is_no_filter_is_answered_with_one(text: str, named: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_filter(text)
    assert named in str(refused.value)
