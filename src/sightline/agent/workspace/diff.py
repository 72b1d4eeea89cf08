"""What changes in a file, as a unified diff.

    patching `before` with `unified(before, after, …)` gives `after`, byte for byte

Lines end at a line feed and nowhere else, so that a change of line ends, or of the last line's
missing end, is a change that can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

Opcode: TypeAlias = tuple[str, int, int, int, int]

CONTEXT: Final = 3
# More lines than this between the first change and the last are not compared with each other.
_COMPARED: Final = 4_000
_NO_END: Final = "\\ No newline at end of file\n"


def unified(before: str, after: str, old_name: str, new_name: str) -> str:
    """Write the difference between two texts; nothing if there is none."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    hunks = (line for group in _groups(old, new) for line in _hunk(old, new, group))
    return "".join((f"--- {old_name}\n", f"+++ {new_name}\n", *hunks))


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Opcode]]:
    """Find the places that changed, each with the lines around it."""
    same = _common(old, new)
    ends = min(_common(old[::-1], new[::-1]), min(len(old), len(new)) - same)
    first, after = max(0, same - CONTEXT), max(0, ends - CONTEXT)
    left, right = old[first : len(old) - after], new[first : len(new) - after]
    if len(left) + len(right) <= _COMPARED:
        groups = SequenceMatcher(None, left, right).get_grouped_opcodes(CONTEXT)
    else:
        at, tail = same - first, ends - after
        left_end, right_end = len(left) - tail, len(right) - tail
        whole: list[Opcode] = [
            ("equal", 0, at, 0, at),
            ("replace", at, left_end, at, right_end),
            ("equal", left_end, len(left), right_end, len(right)),
        ]
        groups = iter([whole])
    for group in groups:
        yield [
            (tag, a + first, b + first, c + first, d + first)
            for tag, a, b, c, d in group
            if a < b or c < d
        ]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _hunk(old: Sequence[str], new: Sequence[str], group: list[Opcode]) -> Iterator[str]:
    (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
    yield f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield from (_line(" ", line) for line in old[a:b])
        else:
            yield from (_line("-", line) for line in old[a:b])
            yield from (_line("+", line) for line in new[c:d])


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{_NO_END}"
