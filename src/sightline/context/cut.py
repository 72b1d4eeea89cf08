"""Cut text between characters as a reader sees them.

`boundary_before(text, at)` is the nearest place at or before `at` where no
user-perceived character (grapheme cluster, UAX #29) is torn apart. The rules are
those of UAX #29 on the classes that the standard library can tell, on the safe
side where it cannot: every place returned is a real boundary, a few real ones in
rare scripts are passed over.
"""

from __future__ import annotations

import unicodedata
from typing import Final

__all__ = ["boundary_after", "boundary_before", "head_and_tail"]

_ZWJ: Final = "\u200d"
_ZWNJ: Final = "\u200c"
_VIRAMA: Final = 9  # canonical combining class
# Marks join what they follow; what this Python's Unicode tables do not know yet may be one.
_JOINED_TO_BASE: Final = {"Mn", "Me", "Mc", "Cn"}
# Format characters that begin a cluster with what follows them (Prepend), and letters
# that behave like it; no property in the standard library tells them apart.
_PREPEND: Final = frozenset(
    """
    0600 0601 0602 0603 0604 0605 06DD 070F 0890 0891 08E2 0D4E 110BD 110CD 111C2 111C3 113D1 1193F
    11941 11A3A 11A84 11A85 11A86 11A87 11A88 11A89 11D46 11F02
    """.split()  # noqa: SIM905 - a text is the readable form of this list
)
# What runs together into clusters of any length is looked at this far back at most; a
# longer run (a text of combining marks only) is cut where it stands.
_REACH: Final = 256


def boundary_before(text: str, at: int) -> int:
    """Return the nearest safe place to cut at or before `at`."""
    if at >= len(text):
        return len(text)
    position = max(at, 0)
    while position > 0 and at - position < _REACH:
        if not _joined(text, position):
            return position
        position -= 1
    return position if position == 0 else max(at, 0)


def boundary_after(text: str, at: int) -> int:
    """Return the nearest safe place to cut at or after `at`."""
    position = max(at, 0)
    while position < len(text) and position - at < _REACH:
        if position == 0 or not _joined(text, position):
            return position
        position += 1
    return min(position, len(text)) if position >= len(text) else at


def head_and_tail(text: str, limit: int, tail_share: float, mark: str) -> str:
    """Shorten to at most `limit` characters, keeping the start, a `mark`, and the end.

    Text within the limit comes back as it is. No cluster is torn at either cut.
    """
    if len(text) <= limit:
        return text
    room = limit - len(mark)
    tail = int(room * tail_share)
    if tail <= 0 or room - tail <= 0:
        return text[: boundary_before(text, limit)]
    head_end = boundary_before(text, room - tail)
    tail_start = boundary_after(text, len(text) - tail)
    return f"{text[:head_end]}{mark}{text[tail_start:]}"


def _joined(text: str, at: int) -> bool:
    """Say whether the characters around `at` belong, or may belong, together."""
    before, after = text[at - 1], text[at]
    if before.isascii() and after.isascii():
        return before == "\r" and after == "\n"
    if after in (_ZWJ, _ZWNJ) or before == _ZWJ:
        return True
    if unicodedata.category(after) in _JOINED_TO_BASE or _is_modifier(after):
        return True
    if f"{ord(before):04X}" in _PREPEND or _virama_ends(text, at):
        return True
    if _is_regional(before) and _is_regional(after):
        return _regionals_ending(text, at) % 2 == 1
    return _hangul(after) in _HANGUL_JOINS[_hangul(before)]


def _virama_ends(text: str, at: int) -> bool:
    """Say whether a vowel killer, and marks after it, stand right before `at`."""
    position = at - 1
    while position >= 0 and at - position < _REACH:
        char = text[position]
        if unicodedata.combining(char) == _VIRAMA:
            return True
        if char != _ZWJ and unicodedata.category(char) != "Mn":
            return False
        position -= 1
    return False


def _is_modifier(char: str) -> bool:
    """Say whether it changes the one before: skin tones, tags, halfwidth voiced marks."""
    point = ord(char)
    return 0x1F3FB <= point <= 0x1F3FF or 0xE0020 <= point <= 0xE007F or point in (0xFF9E, 0xFF9F)


def _is_regional(char: str) -> bool:
    return 0x1F1E6 <= ord(char) <= 0x1F1FF


def _regionals_ending(text: str, at: int) -> int:
    """Count the regional indicators right before `at`; two make a flag."""
    start = at
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return at - start


# A syllable is typed in up to three pieces: leading consonant, vowel, trailing consonant.
_HANGUL_JOINS: Final = {
    "L": {"L", "V", "LV", "LVT"},
    "V": {"V", "T"},
    "LV": {"V", "T"},
    "T": {"T"},
    "LVT": {"T"},
    "": set[str](),
}


def _hangul(char: str) -> str:
    point = ord(char)
    if 0xAC00 <= point <= 0xD7A3:
        return "LVT" if (point - 0xAC00) % 28 else "LV"
    if 0x1100 <= point <= 0x115F or 0xA960 <= point <= 0xA97C:
        return "L"
    if 0x1160 <= point <= 0x11A7 or 0xD7B0 <= point <= 0xD7C6:
        return "V"
    if 0x11A8 <= point <= 0x11FF or 0xD7CB <= point <= 0xD7FB:
        return "T"
    return ""
