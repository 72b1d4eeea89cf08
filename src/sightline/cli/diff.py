"""A unified diff as a person reads it: coloured, changed words marked, every character visible.

Each line stands behind a bar, as all text of models does, so that none can pass for one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Final

from sightline.cli.clean import BAR, visible
from sightline.cli.commands.console import Line, Piece, cells

_TAB: Final = "⇥   "
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@$")
_WORDS: Final = re.compile(r"\w+|\s+|[^\w\s]")
_MARKED_CHARS: Final = 400
_LINE_CHARS: Final = 600
_ALIKE: Final = 0.5
_STYLES: Final = {"+": "diff.new", "-": "diff.old", "@": "dim", "\\": "dim", " ": ""}


def diff_lines(diff: str, width: int, limit: int | None, hint: str = "") -> list[Line]:
    """Draw a diff. What does not go into so many lines is counted; `hint` says where it is."""
    if not diff:
        return []
    lines = diff.removesuffix("\n").split("\n")
    shown = lines if limit is None or len(lines) <= limit + 1 else lines[:limit]
    begun = shown if limit is None else [line[:_LINE_CHARS] for line in shown]
    drawn: list[Line] = []
    for whole, first, pieces in zip(shown, begun, _styled(begun), strict=True):
        drawn += _rows(pieces, max(10, width - len(BAR)))
        if left := len(whole) - len(first):
            drawn.append((("warn", f"{BAR}… {left:,} more characters of the line{hint}"),))
    if more := len(lines) - len(shown):
        drawn.append((("warn", f"{BAR}… {more:,} more lines of the diff{hint}"),))
    return drawn


def _styled(lines: Sequence[str]) -> Iterator[list[Piece]]:
    """Give each line its style: heads, and hunks as long as they say they are."""
    at = 0
    while at < len(lines):
        hunk = _HUNK.match(lines[at])
        yield [("bold" if hunk is None else "dim", lines[at])]
        at += 1
        if hunk is not None:
            end = _end(lines, at, *(int(count or 1) for count in hunk.groups()))
            yield from _body(lines[at:end])
            at = end


def _end(lines: Sequence[str], at: int, old: int, new: int) -> int:
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith("\\")):
        old -= lines[at][:1] in {"-", " "}
        new -= lines[at][:1] in {"+", " "}
        at += 1
    return at


def _body(lines: Sequence[str]) -> Iterator[list[Piece]]:
    """Style the lines of a hunk; where lines took the place of others, the words that differ."""
    runs = [(sign, list(run)) for sign, run in groupby(lines, lambda line: line[:1])]
    pairs: list[tuple[list[Piece], list[Piece]]] = []
    for (sign, run), (after, other) in zip(runs, [*runs[1:], ("", [])], strict=True):
        if sign == "-" and after == "+" and len(run) == len(other):
            pairs = [_marked(*pair) for pair in zip(run, other, strict=True)]
            yield from (old for old, _ in pairs)
        elif sign == "+" and pairs:
            yield from (new for _, new in pairs)
            pairs = []
        else:
            yield from ([(_STYLES.get(sign, ""), line)] for line in run)


def _marked(old: str, new: str) -> tuple[list[Piece], list[Piece]]:
    """Mark the words in which two lines differ, where they are alike enough for that to help."""
    before, after = _WORDS.findall(old[1:]), _WORDS.findall(new[1:])
    plain = [("diff.old", old)], [("diff.new", new)]
    if len(old) + len(new) > _MARKED_CHARS:
        return plain
    found = SequenceMatcher(None, before, after, autojunk=False)
    if found.ratio() < _ALIKE:
        return plain
    left: list[Piece] = [("diff.old", "-")]
    right: list[Piece] = [("diff.new", "+")]
    for tag, a, b, c, d in found.get_opcodes():
        mark = "" if tag == "equal" else ".word"
        left.append((f"diff.old{mark}", "".join(before[a:b])))
        right.append((f"diff.new{mark}", "".join(after[c:d])))
    return left, right


def _rows(pieces: Sequence[Piece], room: int) -> Iterator[Line]:
    """Wrap a styled line, each row behind the bar."""
    row: list[Piece] = [("dim", BAR)]
    used = 0
    for style, text in pieces:
        written = _TAB.join(visible(part) for part in text.split("\t"))
        start = 0
        for index, char in enumerate(written):
            if used + cells(char) > room:
                row.append((style, written[start:index]))
                yield tuple(row)
                row, used, start = [("dim", BAR)], 0, index
            used += cells(char)
        row.append((style, written[start:]))
    yield tuple(row)
