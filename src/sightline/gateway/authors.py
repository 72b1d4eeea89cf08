"""Find the author of a change in a text: the first row of `causes` that fits (pure).

    author_of(old, new)         cause of a change in instructions or in a message
    result_author(old, new)     cause of a change in a tool's result
    block_author(text)          cause of a whole text that was added or removed
    is_summary_text(text)       True if the text replaces an earlier conversation

The first different line of a text decides. Agents write dates, reminders and descriptions of the
machine in special forms: a label, a tag, or lines below a heading. A text without such a form was
written by a person or a model, and its cause is empty. A sentence about a form has no cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sightline.context.dialects.drift import common_start
from sightline.gateway.causes import ROWS, Row

HEAD_CHARS: Final = 400  # characters of a text that show its form
SUMMARY_CHARS: Final = 2_000  # characters of a summary that show its form
LINE_CHARS: Final = 600  # maximum size of a line, and of the part around its first difference
AROUND_CHARS: Final = 200
WINDOW_CHARS: Final = 20_000  # characters before a change that are searched for headings


def author_of(old: str, new: str, *, role: str = "") -> str:
    """Return the cause of a change in instructions, or in a message with a role, or `""`."""
    if role and role not in _MODEL:
        return _cause("reminder" if is_reminder_text(new or old) else "message", old, new)
    return _cause("model" if role else "instructions", old, new)


def result_author(old: str, new: str) -> str:
    """Return the cause of a change in a result, or `""` if its own words changed."""
    return "spaced" if is_spaced(old, new) else _cause("result", old, new)


def block_author(text: str) -> str:
    """Return the cause of a whole text that was added or removed, or `""`."""
    return _cause("part", "", text)


def is_reminder_text(text: str) -> bool:
    """Return True if a text begins as reminders do."""
    return _without_opening(text, ROWS) != text


def is_summary_text(text: str) -> bool:
    """Return True if a text replaces the conversation before it."""
    return bool(_cause("summary", "", text))


def is_spaced(old: str, new: str) -> bool:
    """Return True if two texts differ only in white space."""
    return old != new and "".join(old.split()) == "".join(new.split())


def _cause(location: str, old: str, new: str) -> str:
    row = find_row(location, old, new)
    return row.cause if row else ""


def find_row(location: str, old: str, new: str, rows: Sequence[Row] = ROWS) -> Row | None:
    """Return the first row that fits a change at a location of a request, or None."""
    above, was, now = _changed_lines(old, new)
    head = (new or old).lstrip()[: SUMMARY_CHARS if location == "summary" else HEAD_CHARS]
    lines = _first_pair(was, now)
    if location == "part":
        above, lines = "", ("", _first(_without_opening(head, rows)))
    is_paragraph = new.startswith(old) and not now.split("\n", 1)[0].strip()
    change = TextChange(location, rows, old, new, head, above, lines, is_paragraph)
    fits = (row for row in rows if location in row.locations and TESTS[row.test](row, change))
    return next(fits, None)


@dataclass(frozen=True)
class TextChange:
    """A text before and after a change, with the parts that rows are tested on."""

    location: str
    rows: Sequence[Row]
    old: str
    new: str
    head: str  # how the text begins
    above: str  # the common lines before the change
    lines: tuple[str, str]  # the first different lines
    is_paragraph: bool  # added at the end

    @cached_property
    def section(self) -> Row | None:
        """The row of the heading that the changed line is, or is below."""
        old, new = self.lines
        return _heading(new, self.rows) or _heading(old, self.rows) or _section(self)

    def values(self, cause: str) -> re.Pattern[str]:
        """Match each value of a cause."""
        rows = (row for row in self.rows if (row.cause, row.test) == (cause, "value"))
        return re.compile("|".join(row.pattern for row in rows), re.IGNORECASE)


# The different lines.


def _changed_lines(old: str, new: str) -> tuple[str, str, str]:
    """Return the lines before the first different line, and both texts until they meet again."""
    one, other = old.splitlines(), new.splitlines()
    start = _count_alike(one, other)
    above = "\n".join(one[:start])[-WINDOW_CHARS:]
    end = _count_alike(one[start:][::-1], other[start:][::-1])
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    found = {line: index for index, line in reversed(list(enumerate(other))) if line.strip()}
    alike = next((index for index, line in enumerate(one) if line in found), None)
    if alike is not None:
        one, other = one[:alike], other[: found[one[alike]]]
    return above, "\n".join(one), "\n".join(other)


def _count_alike(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _first(lines: str) -> str:
    return next((line for line in lines.splitlines() if line.strip()), "")


def _first_pair(was: str, now: str) -> tuple[str, str]:
    """Return the first different lines. A long line is cut to the part around the difference."""
    old, new = _first(was), _first(now)
    if max(len(old), len(new)) <= LINE_CHARS:
        return old, new
    start, end = _common_ends(old, new)
    first, after = max(0, start - AROUND_CHARS), max(0, end - AROUND_CHARS)
    one, other = (line[first : len(line) - after][:LINE_CHARS] for line in (old, new))
    return one, other


def _common_ends(old: str, new: str) -> tuple[int, int]:
    """Count the characters that two texts share at their beginning and at their end."""
    start = common_start(old, new)
    return start, common_start(old[start:][::-1], new[start:][::-1])


def _without_opening(text: str, rows: Sequence[Row]) -> str:
    """Return a text without the opening of a reminder."""
    opens = (r.regex for r in rows if (r.cause, r.test) == ("reminder", "opens"))
    return next((text[m.end() :] for p in opens if (m := p.match(text[:HEAD_CHARS]))), text)


# The tests of rows.


def _opens(row: Row, change: TextChange) -> bool:
    heads = () if change.location == "result" else (change.head,)
    lines = change.lines if change.location in ("message", "result") else ()
    return any(map(row.regex.search, (*heads, *lines)))


def _is_value(row: Row, change: TextChange) -> bool:
    """Return True if the first difference is in a value, and the rest differs only in numbers."""
    at = common_start(*change.lines)
    found = (m for line in change.lines for m in row.regex.finditer(line))
    if not all(change.lines) or not any(m.start() <= at <= m.end() for m in found):
        return False
    old, new = (_WORN.sub("", change.values(row.cause).sub("", line)) for line in change.lines)
    return old == new


def _is_label(row: Row, change: TextChange) -> bool:
    """Return True if lines differ after a label, or if one line has a label and a value."""
    labels = [found for line in change.lines if (found := row.regex.match(line))]
    if not all(change.lines):
        return bool(labels) and bool(change.values(row.cause).search(labels[0].string))
    ends = [label.end() for label in labels]
    return len(ends) == len(change.lines) and common_start(*change.lines) >= min(ends) - 1


def _is_count(row: Row, change: TextChange) -> bool:
    old, new = (_NUMBER.sub("\0", line) for line in change.lines)
    return old == new and all(map(row.regex.search, change.lines))


def _is_around(row: Row, change: TextChange) -> bool:
    has_tag = row.regex.search(change.old) or row.regex.search(change.new)
    return bool(has_tag) and _outside(row, change.old) == _outside(row, change.new)


def _outside(row: Row, text: str) -> str:
    """Return a text without the elements that a row's opening tag begins."""
    kept, at = [], 0
    while found := row.regex.search(text, at):
        end = text.find(f"</{found[1]}>", found.end())
        if end < 0:
            break
        kept.append(text[at : found.start()].rstrip())
        at = text.index(">", end) + 1
    return "".join([*kept, text[at:].strip()])


def _is_whole(row: Row, change: TextChange) -> bool:
    old, new = (row.regex.fullmatch(t.strip()[:HEAD_CHARS]) for t in (change.old, change.new))
    return len(change.new) < HEAD_CHARS and bool(new) and not old


def _is_cut(row: Row, change: TextChange) -> bool:
    """Return True if a part is missing, and the text that replaces it has the pattern."""
    old, new = change.old, change.new
    if len(new) * 2 <= len(old):
        return bool(row.regex.search(""))
    start, end = _common_ends(old, new)
    is_shorter = len(new) < len(old) and (start + end) * 2 >= len(new)
    return is_shorter and bool(row.regex.search(new[start : len(new) - end]))


TESTS: Final[dict[str, Callable[[Row, TextChange], bool]]] = {
    "opens": _opens, "value": _is_value, "label": _is_label, "count": _is_count,
    "around": _is_around, "whole": _is_whole, "cut": _is_cut,
    "word": lambda row, change: all(change.lines) and _is_label(row, change),
    "line": lambda row, change: any(map(row.regex.search, change.lines)),
    "heading": lambda row, change: change.section is row,
}  # fmt: skip


# Headings.


def _heading(line: str, rows: Sequence[Row]) -> Row | None:
    """Return the row of a heading, a label or an opening tag."""
    head = _HEAD.match(line.strip())
    if head is None:
        return None
    text = head[0] if head[0].startswith("<") else line.strip()
    return next((row for row in rows if row.test == "heading" and row.regex.search(text)), None)


def _section(change: TextChange) -> Row | None:
    """Return the row of the heading above the changed line.

    A file of instructions ends at its closing tag or at the next heading of its level. Any other
    heading has the lines directly below it, and data after a blank line.
    """
    tags: list[tuple[str, Row | None]] = []
    heading: Row | None = None
    label: Row | None = None
    memory: Row | None = None
    level = depth = 0
    is_blank = is_parted = False
    for line in change.above.split("\n"):
        if not line.strip():
            is_blank, is_parted, label = True, True, None
            continue
        row = _heading(line, change.rows)
        marks = _MARKDOWN.match(line)
        if marks:
            if memory and len(tags) <= depth and level and len(marks[1]) <= level:
                memory = None
            heading, is_blank = row, False
        elif line.rstrip().endswith(":"):
            label = row
        if row and row.cause == "memory":
            memory, level, depth = row, len(marks[1]) if marks else 0, len(tags)
            heading, is_parted = None, False
        for is_closing, name in _TAG.findall(line):
            if not is_closing:
                tags.append((name, _heading(f"<{name}>", change.rows)))
            elif any(name == opened for opened, _ in tags):
                while tags.pop()[0] != name:
                    pass
                memory = memory if len(tags) >= depth and not _IN_FILE.match(name) else None
    is_data = any(map(_DATA.match, change.lines))
    near = [*(row for _, row in tags), label, heading if is_data or not is_blank else None]
    direct = next((row for row in near if row and row.cause != "memory"), None)
    if direct or (memory and level and change.is_paragraph and not is_parted):
        return direct  # a separate paragraph after a file that has no paragraphs is not in it
    return memory or next((row for _, row in tags if row), None)


# Parts of lines.

_MODEL: Final = frozenset({"assistant", "model"})
_IN_FILE: Final = re.compile(r"(?i).*(?:instructions|memory|rules|file|reminder)$")
_HEAD: Final = re.compile(
    r"(?i)#+ |<[\w-]+(?: [^<>]*)?>|[-=*\[(]+.*[-=*\])]:?$|.*:\**$"
    r"|(?:contents? of|from|file|source|path|instructions? (?:from|in|of))\b.*\.\w+\S*\)?$"
    r"|[A-Z][A-Z ]{7,40}$"
)
_MARKDOWN: Final = re.compile(r"\s*(#{1,6}) ")
_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
_DATA: Final = re.compile(r"\s*(?:[-*•] |[\w ./()'-]{1,40}[:=]\s|<)")
# Numbers next to a value that change with each request.
_WORN: Final = re.compile(r"\d+(?:[.,]\d+)*|[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]+)*")
_NUMBER: Final = re.compile(
    r"\$?\b\d+(?:[.,]\d+)*[kKMG]?\b%?|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,11}\b"
)
