"""An answer is given out block by block, loses nothing, and keeps the model's state apart."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cli.chat.blocks import Blocks
from sightline.context.messages.state import extract_state

PIECES = st.lists(
    st.sampled_from(
        ["text ", "\n", "\n\n", "```\n", "```python\n", "~~~~\n", "- item\n", "  more\n",
         "1. one\n", "# Title\n", "### STATE\n", " ### State:\n", "Goal: x\n", "## Next\n",
         "| a | b |\n", "`",
         "\r\n", "    "]
    )
)  # fmt: skip


def fed(*pieces: str) -> tuple[list[str], str, str]:
    """Feed pieces; return the blocks that were given on the way, the rest, and the state."""
    blocks = Blocks()
    given_out = [block for piece in pieces for block in blocks.feed(piece)]
    ending = blocks.finish()
    return given_out, ending.text, ending.state


@given(PIECES)
def test_nothing_is_lost_or_added_without_a_state(pieces: list[str]) -> None:
    pieces = [re.sub("(?i)### STATE", "### Other", piece) for piece in pieces]
    given_out, rest, state = fed(*pieces)
    assert "".join(given_out) + rest == "".join(pieces)
    assert state == ""


@given(PIECES)
def test_with_a_state_everything_is_in_one_of_the_two(pieces: list[str]) -> None:
    given_out, rest, state = fed(*pieces)
    shown = "".join(given_out) + rest
    assert sorted(shown + state) == sorted("".join(pieces))
    if state:
        assert extract_state(state) == extract_state("".join(pieces))


@given(PIECES, st.integers(1, 7))
def test_how_the_answer_is_chopped_makes_no_difference(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    chopped = [text[start : start + size] for start in range(0, len(text), size)]
    one, other = fed(text), fed(*chopped)
    assert "".join(one[0]) + one[1] == "".join(other[0]) + other[1]
    assert one[2] == other[2]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("one\n\ntwo\n\nthree", ["one\n\n", "two\n\n"]),
        ("```\na\n\nb\n```\nafter\n\nx", ["```\na\n\nb\n```\n", "after\n\n"]),
        ("- a\n\n- b\n\n  still b\n\nafter\n\nx", ["- a\n\n- b\n\n  still b\n\n", "after\n\n"]),
        ("# Title\ntext\n\nx", ["# Title\n", "text\n\n"]),
        ("text\n```\ncode\n```\n", ["text\n", "```\ncode\n```\n"]),
        ("1. a\n   ```\n   code\n   ```\n2. b\n\nx\n", ["1. a\n   ```\n   code\n   ```\n2. b\n\n"]),
    ],
)
def test_a_block_is_given_once_nothing_can_change_it(text: str, blocks: list[str]) -> None:
    assert fed(text)[0] == blocks


def test_what_is_not_given_yet_can_be_previewed() -> None:
    blocks = Blocks()
    assert blocks.feed("one\n\ntwo is un") == ["one\n\n"]
    assert blocks.rest == "two is un"
    assert blocks.feed("finished\n\nthree") == ["two is unfinished\n\n"]
    assert blocks.rest == "three"


def test_the_state_is_held_back_and_is_what_the_ledger_will_find() -> None:
    text = "Done.\n\n### STATE\nGoal: mail\nContext: inbox\n"
    given_out, rest, state = fed(*text)
    assert "".join(given_out) + rest == "Done.\n\n"
    assert state.strip() == extract_state(text)


def test_a_list_right_before_the_state_is_no_part_of_it() -> None:
    given_out, rest, state = fed("- one\n- two\n### STATE\nGoal: x\n")
    assert "".join(given_out) + rest == "- one\n- two\n"
    assert state == "### STATE\nGoal: x\n"


def test_what_follows_the_state_is_shown() -> None:
    given_out, rest, state = fed("### STATE\nGoal: x\n\n## After\nmore\n")
    assert "After" in "".join(given_out) + rest
    assert state == ""


def test_a_state_in_a_fence_is_an_example() -> None:
    given_out, rest, state = fed("```\n### STATE\nGoal: x\n```\n")
    assert "### STATE" in "".join(given_out) + rest
    assert state == ""


def test_a_fence_that_was_never_closed_hides_no_state() -> None:
    given_out, rest, state = fed("```python\nx = 1\n~~~\n### State:\nGoal: x\n")
    assert [*given_out, rest] == ["```python\nx = 1\n~~~\n"]
    assert state == "### State:\nGoal: x\n"


def test_while_the_state_is_written_nothing_is_previewed() -> None:
    blocks = Blocks()
    blocks.feed("Hi.\n\n### STATE\nGoal: se")
    assert blocks.rest == ""
