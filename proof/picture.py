"""The picture of the chat: the installed program in a pseudo-terminal, drawn as its screen is.

    python -m proof.picture      writes docs/pictures/chat.svg

Demo app, program, approval and status line are the real ones; the model's words are scripted, by
a vendor on loopback, so that the picture is the same each time.
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pexpect
import pyte
from pyte.screens import Char
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from support.person import environment
from support.shell import PROGRAM
from support.vendors.answers import Call, Says, says
from support.vendors.server import Vendor

__all__ = ["PICTURE", "picture"]

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "chat.svg"
COLUMNS, LINES = 100, 36
WAIT_S = 60.0
ARCHIVE = Call(
    "slop_invoke", {"app": "desk", "path": "/inbox/msg-103", "action": "archive", "params": {}}
)
ANSWERS = (
    says(
        "Two messages are unread:\n\n"
        "- **Launch moved to Thursday**, from Priya Raman, 09:12: the most important one.\n"
        "- **Lunch at 12:30?**, from Jonas Berg, 08:47."
    ),
    Says(calls=(ARCHIVE,)),
    says("Archived. One message is unread now: *Launch moved to Thursday*."),
)


class Screen(pyte.Screen):
    """A terminal that says where its cursor is when it is asked, and nothing else about itself."""

    answer: Callable[[str], object] = str

    def write_process_input(self, data: str) -> None:
        """Take what a terminal answers."""
        if data.endswith("R"):
            self.answer(data)


def shown(directory: Path) -> pyte.Screen:
    """Have the conversation; give the screen as it stands at the end."""
    screen = Screen(COLUMNS, LINES)
    stream = pyte.Stream(screen)
    with Vendor(*ANSWERS) as vendor:
        child = pexpect.spawn(
            PROGRAM, ["chat", "--demo"], encoding="utf-8", dimensions=(LINES, COLUMNS),
            cwd=str(directory), env=environment(directory, vendor, SIGHTLINE_MODEL="ollama:demo"),
        )  # fmt: skip
        screen.answer = child.send

        def sees(*texts: str) -> None:
            while not all(text in "\n".join(map(str.rstrip, screen.display)) for text in texts):
                stream.feed(child.read_nonblocking(4096, timeout=WAIT_S))

        sees("/help lists commands")
        child.send("What is unread?\r")
        sees("Jonas Berg", "08:47.")
        child.send("Archive the one about lunch.\r")
        sees("do it?")
        child.send("y")
        sees("One message is unread now", "Launch moved to Thursday.")
        child.send("/context\r")
        sees("kept for the answer\n>")
        child.send("\x04")
        child.close()
    return screen


def drawn(screen: pyte.Screen) -> str:
    """Draw a screen as SVG that needs no font from elsewhere."""
    form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code", "ui-monospace").replace("arial", "system-ui")
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for number in range(LINES):
        console.print(_line(screen, number), no_wrap=True, overflow="crop")
    return console.export_svg(
        title="sightline chat --demo", theme=DIMMED_MONOKAI, code_format=form, unique_id="chat"
    )


def _line(screen: pyte.Screen, number: int) -> Text:
    cells = [screen.buffer[number][column] for column in range(COLUMNS)]
    line = Text()
    for style, run in groupby(cells, _style):
        line.append("".join(cell.data for cell in run), style)
    return line


def _style(cell: Char) -> Style:
    return Style(
        color=_colour(cell.fg), bgcolor=_colour(cell.bg), bold=cell.bold, italic=cell.italics,
        underline=cell.underscore, reverse=cell.reverse,
    )  # fmt: skip


def _colour(name: str) -> str | None:
    """Give a colour as rich names it; one of 256 is six hexadecimal digits here."""
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return name.replace("bright", "bright_").replace("brown", "yellow")


def picture(directory: Path) -> str:
    """Have the conversation, and draw how it ended; what is another's each time is one name."""
    svg = re.sub(r"slop-\w{8}/", "slop-x3k9q2vf/", drawn(shown(directory)))
    return re.sub(r"\(user&#160;\d+\)", "(user&#160;1000)", svg)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture(Path(home)), "utf-8")
