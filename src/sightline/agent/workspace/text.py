"""Text files: read a part of one, find a text in many, replace a passage exactly.

Nothing is guessed: a file that is not UTF-8 text is not changed, and a passage that is not
there exactly once is not replaced. A search is bounded in time and in bytes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from io import BufferedReader
from typing import Final

import msgspec

from sightline.agent.workspace.inside import Inside, Parts, name_of, shown
from sightline.errors import ActionError

MAX_EDIT: Final = 4 * 1024 * 1024
MAX_CONTENT: Final = 8 * 1024 * 1024
MAX_LINES: Final = 2_000
MAX_CHARS: Final = 100_000
_SCANNED: Final = 64 * 1024 * 1024
_LINE: Final = 64 * 1024
_SNIFFED: Final = 8_192
# As `projection.escape` writes what it cannot show as it is.
_ESCAPE: Final = re.compile(r"\\u([0-9a-f]{4})")
_MATCHES: Final = 200
_SEARCHED_FILE: Final = 2 * 1024 * 1024
_SEARCHED_BYTES: Final = 128 * 1024 * 1024
_SEARCH_S: Final = 8.0
_LINE_CHARS: Final = 240


class Excerpt(msgspec.Struct, frozen=True):
    """Some lines of a file, counted from 1. `total` is None where it was not counted."""

    text: str
    start: int
    end: int
    total: int | None
    exact: bool = True


def is_binary(beginning: bytes) -> bool:
    """Guess from the beginning of a file: text has no NUL."""
    return b"\0" in beginning[:_SNIFFED]


def read_lines(inside: Inside, parts: Parts, start: int, count: int) -> Excerpt:
    """Read some lines. Raises ActionError where there is no text to read."""
    if start < 1 or count < 1:
        raise ActionError("invalid_params", "start and lines count from 1")
    with inside.file(parts) as (file, status):
        if is_binary(file.read(_SNIFFED)):
            size = f"{status.st_size:,}"
            raise ActionError("invalid_params", f"{name_of(parts)}: a binary file of {size} bytes")
        file.seek(0)
        excerpt = _excerpt(file, start, min(count, MAX_LINES), status.st_size)
    if not excerpt.text and start > 1:
        last = "fewer" if excerpt.total is None else f"{excerpt.total:,}"
        raise ActionError("invalid_params", f"{name_of(parts)}: it has {last} lines")
    return excerpt


def _excerpt(file: BufferedReader, start: int, count: int, size: int) -> Excerpt:
    kept: list[bytes] = []
    kept_bytes = number = 0
    # A line longer than a piece comes in several; only the last of them ends it.
    for piece, ends in _pieces(file):
        if number + 1 >= start + count or kept_bytes >= MAX_CHARS:
            if size > MAX_EDIT:  # the rest would be read only to be counted
                break
        elif number + 1 >= start:
            kept.append(piece)
            kept_bytes += len(piece)
        number += ends
    data = b"".join(kept)
    text = data.decode(errors="replace")
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    total = None if file.peek(1) else number
    return Excerpt(text, start, start + lines - 1, total, text.encode() == data)


def _pieces(file: BufferedReader) -> Iterator[tuple[bytes, bool]]:
    """Give a file in pieces that end where lines do, or are as long as a piece may be."""
    while file.tell() <= _SCANNED and (piece := file.readline(_LINE)):
        yield piece, piece.endswith(b"\n") or not file.peek(1)


def content(inside: Inside, parts: Parts) -> str | bytes:
    """Read a whole file, as text if it is UTF-8. Raises ActionError if it is too large."""
    with inside.file(parts) as (file, status):
        data = file.read(MAX_CONTENT + 1)
    if len(data) > MAX_CONTENT:
        size = f"{status.st_size:,} bytes"
        raise ActionError("invalid_params", f"{name_of(parts)}: {size}; read some lines of it")
    if is_binary(data):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def replaced(name: str, text: str, old: str, new: str, every: bool) -> str:
    """Replace a passage that is given exactly and is there once, or `every` one of it.

    Raises ActionError, with the file's `name`.
    """
    old, new = _as_it_stands(text, old, new)
    if old == new or not old:
        raise ActionError("invalid_params", "old and new: one passage, and another in its place")
    at = text.find(old)
    if at < 0 or (text.find(old, at + 1) >= 0 and not every):
        why = "is not in the file" if at < 0 else "is there more than once: give more of it"
        raise ActionError("conflict", f"{name}: the passage {why}{_hint(text, old)}")
    if len(text) + text.count(old) * (len(new) - len(old)) > MAX_EDIT:
        raise ActionError("invalid_params", f"{name}: it would become too large to edit here")
    return text.replace(old, new)


def editable(name: str, data: bytes) -> str:
    """Read a file's bytes as text. Raises ActionError, with its `name`, if they are none."""
    if is_binary(data):
        raise ActionError("invalid_params", f"{name}: a binary file")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ActionError("invalid_params", f"{name}: not UTF-8 text") from None


def _as_it_stands(text: str, old: str, new: str) -> tuple[str, str]:
    """Undo the escapes under which a model was shown the passage, if that makes it fit.

    A model never sees `<|im_end|>` in a file, but `\\u003c|im_end|>`; it gives back what it
    saw. In the new text only what was undone in the old is undone: other escapes are meant.
    """
    if old in text:
        return old, new
    meant = _ESCAPE.sub(_unescaped, old)
    if text.count(meant) != 1:
        return old, new
    undone = set(_ESCAPE.findall(old))
    again = _ESCAPE.sub(lambda match: _unescaped(match) if match[1] in undone else match[0], new)
    return meant, again


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def _hint(text: str, old: str) -> str:
    """Say where the passage begins, if it does: then it is the rest of it that differs."""
    if old in text:
        return ""
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    for number, line in enumerate(text.splitlines(), 1):
        if first and line.strip() == first:
            return f" (its first line is line {number}; spaces and all that follows must fit too)"
    return ""


class SearchResult(msgspec.Struct, frozen=True):
    """Lines that have the text, as `path:line: text`; `stopped` says why there may be more."""

    lines: tuple[str, ...]
    searched: int
    stopped: str = ""


def search(
    inside: Inside,
    files: Iterable[Parts],
    query: str,
    *,
    glob: str = "",
    ignore_case: bool = False,
    limit: int = 50,
) -> SearchResult:
    """Find a text, taken literally, in text files. `glob` chooses paths, e.g. `src/*.py`."""
    if not query or "\n" in query:
        raise ActionError("invalid_params", "query: a text of one line to look for")
    wanted = _folded(query.encode(), ignore_case=ignore_case)
    limit = max(1, min(limit, _MATCHES))
    deadline = time.monotonic() + _SEARCH_S
    lines: list[str] = []
    searched = read = 0
    for parts in files:
        path = "/".join(parts)
        if glob and not fnmatchcase(path, glob):
            continue
        if time.monotonic() > deadline or read > _SEARCHED_BYTES:
            return SearchResult(
                tuple(lines), searched, "the search took too long: narrow it by glob"
            )
        try:
            with inside.file(parts) as (file, status):
                if status.st_size > _SEARCHED_FILE:
                    continue
                data = file.read(_SEARCHED_FILE + 1)
        except ActionError:  # a link, no file, or not ours to read: nothing to find in it
            continue
        read += len(data)
        if is_binary(data):
            continue
        searched += 1
        for number, line in _lines_with(data, wanted, ignore_case=ignore_case):
            if len(lines) >= limit:
                return SearchResult(tuple(lines), searched, f"there are more than {limit} lines")
            lines.append(f"{shown(path)}:{number}: {_short(line)}")
    return SearchResult(tuple(lines), searched)


def _lines_with(data: bytes, wanted: bytes, *, ignore_case: bool) -> Iterable[tuple[int, bytes]]:
    folded = _folded(data, ignore_case=ignore_case)
    if wanted not in folded:
        return []
    return [
        (number, line)
        for number, line in enumerate(data.splitlines(), 1)
        if wanted in _folded(line, ignore_case=ignore_case)
    ]


def _folded(data: bytes, *, ignore_case: bool) -> bytes:
    if not ignore_case:
        return data
    return data.lower() if data.isascii() else data.decode(errors="replace").casefold().encode()


def _short(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return shown(text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}…")
