"""Choosing a session: the list gets shorter as one types."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from sightline.cli.chat.picker import fitting, pick, pick_session
from sightline.cli.main import run
from sightline.errors import NotFound

LINES = ["1  parser tests  ~/a", "2  Parser docs  ~/b", "3  garden  ~/a", *map(str, range(4, 40))]
DOWN = "\x1b[B"


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("\r", 0),
        (f"{DOWN}{DOWN}\r", 2),
        ("PARSER\r", 0),
        (f"parser{DOWN}\r", 1),
        (f"parser{DOWN}\x7f\x7f\x7f\x7f\x7f\x7f\r", 0),
        ("docs par\r", 1),
        ("nothing fits\r\x03", None),
        ("\x03", None),
        (f"{DOWN * 99}\r", len(LINES) - 1),
    ],
)
def test_what_is_typed_chooses(keys: str, chosen: int | None) -> None:
    screen = StringIO()
    output = Vt100_Output(screen, lambda: Size(rows=24, columns=60), term="xterm")
    with create_pipe_input() as typed:
        typed.send_text(keys)
        assert pick("ID  about", LINES, input=typed, output=output) == chosen
    assert "parser tests" in screen.getvalue()


def test_every_word_must_fit() -> None:
    assert fitting(LINES, "") == list(range(len(LINES)))
    assert fitting(LINES, "~/A") == [0, 2]


def test_there_must_be_something_to_choose(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        pick_session(str(tmp_path / "l.db"))


def test_choosing_needs_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["chat", "-r"]) == 2
    assert "needs a terminal" in capfd.readouterr().err
