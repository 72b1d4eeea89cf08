"""The door to the screen: styles are ours, text is harmless."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.cli.chat.paint import STYLES, Colors, paint_lines, paint_markdown
from sightline.cli.commands.picture import _KNOWN, style_of
from support.share import share
from support.terminal_attacks import ATTACKS, FORBIDDEN

OURS = re.compile(r"\x1b\[[0-9;]*m")  # select graphic rendition, the only sequence we write


def foreign(painted: str) -> frozenset[str]:
    return FORBIDDEN.intersection(OURS.sub("", painted))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("colors", ["full", "none", "plain"])
def test_an_attack_in_markdown_stays_text(attack: str, colors: Colors) -> None:
    for text in (attack, f"`{attack}`", f"```python\n{attack}\n```", f"[{attack}]({attack})",
                 f"# {attack}", f"- {attack}", f"| {attack} |\n|---|\n| {attack} |",
                 f"![{attack}]({attack})", f"<{attack}>"):  # fmt: skip
        painted = paint_markdown(text, 40, colors)
        assert not foreign(painted)
        if colors == "plain":
            assert "\x1b" not in painted


@given(st.text(st.sampled_from("\x1b\x9b\x07[];m8:/`*_#<>()! \nab1.\u202e\r\b"), max_size=60))
@settings(max_examples=share(2_000))
def test_no_markdown_makes_a_sequence_of_its_own(text: str) -> None:
    assert not foreign(paint_markdown(text, 40, "full"))


def test_a_link_shows_where_it_leads_and_is_none() -> None:
    painted = paint_markdown("[good](http://evil.example)", 80, "full")
    assert "http://evil.example" in painted
    assert "\x1b]8" not in painted


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_line_that_nobody_cleaned_is_cleaned_at_the_door(attack: str) -> None:
    assert not foreign(paint_lines([(("tool", attack),)], 40, "full"))


def test_colours_can_be_left_out_and_so_can_all_styles() -> None:
    line = [(("error", "no"),)]
    assert "\x1b[1;31m" in paint_lines(line, 40, "full")
    assert "\x1b[1m" in paint_lines(line, 40, "none")
    assert paint_lines(line, 40, "plain") == "no\n"


@pytest.mark.parametrize("width", [40, 80])
def test_prose_and_tables_keep_to_the_width(width: int) -> None:
    text = "word " * 60 + "\n\n" + "- " + "item " * 40 + "\n\n| a | b |\n|---|---|\n| one | two |\n"
    painted = paint_markdown(text, width, "plain")
    assert max(len(line.rstrip()) for line in painted.splitlines()) <= width


def test_every_slot_of_the_picture_has_a_colour() -> None:
    assert {style_of(slot) for slot in _KNOWN} | {"slot.other"} <= set(STYLES)
