"""A cut never falls inside what a reader sees as one character."""

from __future__ import annotations

import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.context.messages.graphemes import LONGEST, cut_at_or_after, cut_at_or_before
from support.share import share

CLUSTERS = [
    "👩‍👩‍👧",
    "👍🏽",
    "🇫🇷",
    "e\u0301\u0302",
    "\r\n",
    "각",
    "\u1100\u1161\u11a8",
    "क्षि",
    "நி",
    "ก็ำ",
    "❤\ufe0f",
    "1\ufe0f\u20e3",
    "🏴\U000e0067\U000e0062\U000e007f",
    "\u0600\u0661",
]

spicy = st.text(
    alphabet=st.one_of(
        st.sampled_from("".join(CLUSTERS) + "ab \n字가나"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_cluster_is_never_cut(cluster: str) -> None:
    text = f"a{cluster}b"
    for index in range(2, len(cluster) + 1):
        assert cut_at_or_after(text, index) == len(text) - 1
        assert cut_at_or_before(text, index) == 1


def test_flags_are_cut_between_pairs_only() -> None:
    flags = "🇫🇷🇩🇪🇯🇵"
    assert [cut_at_or_after(flags, index) for index in range(7)] == [0, 2, 2, 4, 4, 6, 6]
    assert [cut_at_or_before(flags, index) for index in range(7)] == [0, 0, 2, 2, 4, 4, 6]


def test_plain_text_may_be_cut_anywhere() -> None:
    for text in ("plain text", "中文字符", "가나다", "äöü"):
        assert all(cut_at_or_after(text, index) == index for index in range(len(text) + 1))


@settings(max_examples=share(5_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(spicy, st.integers(0, 12))
def test_every_cut_is_a_boundary_of_the_unicode_standard(text: str, index: int) -> None:
    index = min(index, len(text))
    boundaries = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}
    after, before = cut_at_or_after(text, index), cut_at_or_before(text, index)
    assert before <= index <= after
    assert {before, after} <= boundaries


@pytest.mark.parametrize("unit", ["\u0301", "👩\u200d", "🇫", "\u1161"])
def test_a_megabyte_without_a_place_to_cut_is_cut_all_the_same(unit: str) -> None:
    text = unit * 500_000
    after, before = cut_at_or_after(text, 250_001), cut_at_or_before(text, 250_001)
    assert before <= 250_001 <= after
    assert after - before <= 2 * LONGEST
