"""Light or dark: what the terminal says, what a variable says, and what can be read then."""

from __future__ import annotations

import os
import threading
from io import FileIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cli.chat.paint import LIGHT_STYLES, STYLES, paint_lines, paint_markdown
from sightline.cli.chat.theme import (
    SCREEN_STYLES,
    TerminalAnswer,
    answer_of,
    ask_terminal,
    ground_of,
)

KIND = b"\x1b[?62;22c"


@pytest.mark.parametrize(
    ("heard", "ground"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\" + KIND, "light"),
        (b"\x1b]11;rgb:fd/f6/e3\x07" + KIND, "light"),
        (b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\" + KIND, "dark"),
        (b"\x1b]11;rgba:0000/0000/0000/ffff\x07", "dark"),
        (KIND, None),
        (b"", None),
    ],
)
def test_what_a_terminal_says_of_its_background_is_understood(
    heard: bytes, ground: str | None
) -> None:
    assert answer_of(heard) == TerminalAnswer(ground)  # type: ignore[arg-type]
    assert answer_of(b"hel" + heard + b"lo\r").typed == b"hello\r"


@given(st.binary())
def test_whatever_comes_back_is_an_answer_or_was_typed(heard: bytes) -> None:
    answer = answer_of(heard)
    assert b"\x1b]11;rgb" in heard or answer.ground is None


@pytest.mark.parametrize(
    ("chosen", "answered", "variable", "expected"),
    [
        ("light", "dark", "15;0", "light"),
        ("dark", "light", "0;15", "dark"),
        ("auto", "light", "15;0", "light"),
        ("auto", None, "0;15", "light"),
        ("auto", None, "15;default;0", "dark"),
        ("auto", None, "", "dark"),
    ],
)
def test_the_user_decides_before_the_terminal_and_that_before_a_variable(
    chosen: str, answered: str | None, variable: str, expected: str
) -> None:
    assert ground_of(chosen, answered, {"COLORFGBG": variable}) == expected  # type: ignore[arg-type]


def test_both_grounds_have_every_style_and_light_ones_are_no_light_colours() -> None:
    assert STYLES.keys() <= LIGHT_STYLES.keys()
    assert SCREEN_STYLES["light"].keys() == SCREEN_STYLES["dark"].keys()
    for style in LIGHT_STYLES.values():
        assert not {"yellow", "white", "cyan"} & set(style.replace("_", " ").split()), style
    line = [(("warn", "careful"),)]
    assert paint_lines(line, 80, "light") != paint_lines(line, 80, "full")
    code = "```python\nx = 1\n```"
    assert paint_markdown(code, 80, "light") != paint_markdown(code, 80, "full")
    assert paint_lines(line, 80, "none") == "careful\n"


def test_a_terminal_is_asked_and_what_was_typed_meanwhile_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen, program = os.openpty()

    def answer() -> None:
        asked = b""
        while not asked.endswith(b"\x1b[c"):
            asked += os.read(screen, 1024)
        os.write(screen, b"hi\x1b]11;rgb:ffff/ffff/ffff\x1b\\" + KIND)

    answering = threading.Thread(target=answer)
    answering.start()
    with FileIO(program, "r+") as end:
        monkeypatch.setattr("sys.stdin", end)
        monkeypatch.setattr("sys.stdout", end)
        monkeypatch.setattr("sightline.cli.chat.theme._PATIENCE_S", 60.0)
        assert ask_terminal() == TerminalAnswer("light", b"hi")
    answering.join()
    os.close(screen)
