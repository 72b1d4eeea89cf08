"""What commands and views write: lines of styled pieces, with no terminal in them.

A line is a sequence of `(style, text)`; a style is a name such as `dim` or `slot.history`.
A terminal paints them, a pipe and a test read the text. The pair is also what prompt_toolkit
takes as formatted text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias
from unicodedata import east_asian_width

from sightline.cli.clean import clean_line

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
