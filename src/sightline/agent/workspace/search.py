"""Look for a text in many files, for a bounded time and over a bounded number of bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from sightline.agent.workspace.inside import Inside, Parts, shown
from sightline.agent.workspace.text import is_binary
from sightline.errors import ActionError

__all__ = ["SearchResult", "search"]

MAX_MATCHES: Final = 200
MAX_FILE: Final = 2 * 1024 * 1024
MAX_BYTES: Final = 128 * 1024 * 1024
LIMIT_S: Final = 8.0
_LINE_CHARS: Final = 240


@dataclass(frozen=True, slots=True)
class SearchResult:
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
    limit = max(1, min(limit, MAX_MATCHES))
    deadline = time.monotonic() + LIMIT_S
    lines: list[str] = []
    searched = read = 0
    for parts in files:
        path = "/".join(parts)
        if glob and not fnmatchcase(path, glob):
            continue
        if time.monotonic() > deadline or read > MAX_BYTES:
            return SearchResult(
                tuple(lines), searched, "the search took too long: narrow it by glob"
            )
        try:
            with inside.file(parts) as (file, status):
                if status.st_size > MAX_FILE:
                    continue
                data = file.read(MAX_FILE + 1)
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
