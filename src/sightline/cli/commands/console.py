"""Where a command writes and whom it asks, and what it writes: lines of styled pieces.

A line is a sequence of `(style, text)`; a style is a name such as `dim` or `slot.history`.
A terminal paints them, a pipe and a test read the text. The pair is also what prompt_toolkit
takes as formatted text.

`Console` is the whole outside of a command; the terminal has one, a pipe has one, and tests have
one. Text given to a console may come from anywhere: making it harmless is the console's job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias
from unicodedata import east_asian_width

from sightline.cli.clean import clean, clean_line
from sightline.cli.out import Writable

Piece: TypeAlias = tuple[str, str]
Line: TypeAlias = tuple[Piece, ...]

_GAP = "  "


def line_of(text: str, style: str = "") -> Line:
    """Make a styled line of one text, made harmless."""
    return ((style, clean_line(text)),)


def text_of(line: Iterable[Piece]) -> str:
    """Read a line without its styles."""
    return "".join(text for _, text in line)


def width_of(text: str) -> int:
    """Count the columns that a text takes: wide characters take two."""
    return len(text) if text.isascii() else sum(map(cells, text))


def cut(text: str, width: int) -> str:
    """Shorten a text to so many columns, with a sign where something is missing."""
    if width_of(text) <= width:
        return text
    kept, used = [], 1
    for char in text:
        used += cells(char)
        if used > width:
            break
        kept.append(char)
    return "".join(kept) + "…" if width > 0 else ""


def columns(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Align rows of cells, from anywhere; the columns in `right` at their right edge."""
    cells = [[clean_line(cell) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(*cells, strict=True)]
    to_the_right = set(right)
    return [
        _GAP.join(
            _padded(cell, width, left=index in to_the_right)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _padded(cell: str, width: int, *, left: bool) -> str:
    space = " " * (width - width_of(cell))
    return space + cell if left else cell + space


def cells(char: str) -> int:
    """Count the columns of one character."""
    return 2 if east_asian_width(char) in "WF" else 1


def pieces_of(text: str, first: int, room: int) -> Iterator[str]:
    """Cut a line into pieces of so many columns; together they are the line."""
    start, used, left = 0, 0, first
    for index, char in enumerate(text):
        used += cells(char)
        if used > left:
            yield text[start:index]
            start, used, left = index, cells(char), room
    yield text[start:]


class Console(Protocol):
    """Where a slash command writes, shows what is long, and asks."""

    @property
    def width(self) -> int:
        """How many columns there are."""

    def write(self, text: str) -> None:
        """Write a text, which may have several lines."""

    def draw(self, lines: Iterable[Line]) -> None:
        """Write styled lines."""

    async def page(self, text: str) -> None:
        """Show a text that may be longer than the screen."""

    async def ask(self, question: str) -> bool:
        """Ask for a yes; without anybody to ask it is a no."""

    async def edit(self, text: str, suffix: str = ".md") -> str | None:
        """Let the user change a text; None if nothing came of it."""


class PlainConsole:
    """Writes plain text to a stream. There is nobody to ask: `yes` answers in advance."""

    def __init__(self, out: Writable, *, width: int = 80, yes: bool = False) -> None:
        self._out = out
        self._width = width
        self._yes = yes

    @property
    def width(self) -> int:
        return self._width

    def write(self, text: str) -> None:
        self._out.write(f"{clean(text)}\n")

    def draw(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.write(text_of(line).rstrip())

    async def page(self, text: str) -> None:
        self.write(text)

    async def ask(self, question: str) -> bool:
        return self._yes

    async def edit(self, text: str, suffix: str = ".md") -> str | None:
        return None
