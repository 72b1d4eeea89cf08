"""Nothing that a terminal obeys or a reader cannot see is left in cleaned text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cli.clean import clean, clean_line
from support.terminal_attacks import ATTACKS, FORBIDDEN

ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.text(
    st.sampled_from(sorted(FORBIDDEN) + list("ab\t\n\r[];m"))
)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_becomes_text_to_be_seen(attack: str) -> None:
    shown = clean(attack)
    assert not FORBIDDEN.intersection(shown)
    assert len(shown) == len(attack)
    assert shown != attack


@given(ANY_TEXT)
def test_no_forbidden_character_is_ever_left(text: str) -> None:
    assert not FORBIDDEN.intersection(clean(text))
    assert not (FORBIDDEN | {"\n", "\t"}).intersection(clean_line(text))


@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert clean_line(clean_line(text)) == clean_line(text)


@given(ANY_TEXT)
def test_every_character_keeps_its_place(text: str) -> None:
    assert len(clean(text)) == len(text.replace("\r\n", "\n"))


@pytest.mark.parametrize(
    "text",
    ["plain", "grüße, 你好, שלום, سلام", "👩\u200d💻 ❤\ufe0f", "a\tb\nc", "क्\u200dष", "\ufffd"],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_a_line_stays_a_line() -> None:
    assert clean_line("a\nb\tc\r\nd") == "a␊b c␊d"


def test_an_escape_is_shown_as_the_sign_for_it() -> None:
    assert clean("\x1b[2J") == "␛[2J"
