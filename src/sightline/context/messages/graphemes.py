"""Where a text may be cut without breaking what a reader sees as one character.

The promise: `cut_at_or_after` and `cut_at_or_before` never return a place inside an
extended grapheme cluster (Unicode Standard Annex 29). They may decline a few
places that the annex allows, because each doubtful rule is read as "keep
together", such as after a zero-width joiner or a virama. Each looks only at the
neighbourhood of the place it is asked about; after `LONGEST` code points without a
place to cut, the text is no writing and is cut anyway.
"""

from __future__ import annotations

from unicodedata import category, combining

LONGEST = 512  # text that is safe to stream has at most 30 marks on a letter
ZWJ = "\u200d"
FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))
VIRAMA_CLASS = 9  # the canonical combining class of the signs that join two consonants

# Format characters that extend what they follow: the non-joiner and the tag characters.
EXTENDING_FORMATS = ("\u200c", "\U000e0020", "\U000e007f")
PREPENDED = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"
    "\U000110bd\U000110cd\U000111c2\U000111c3\U000113d1\U0001193f\U00011941\U00011a3a"
    "\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46\U00011f02"
)


def cut_at_or_after(text: str, index: int) -> int:
    """Return the first allowed cut at or after `index`."""
    for cut in range(index, min(index + LONGEST, len(text))):
        if cut == 0 or not _joined(text, cut):
            return cut
    return min(index + LONGEST, len(text))


def cut_at_or_before(text: str, index: int) -> int:
    """Return the last allowed cut at or before `index`."""
    for cut in range(index, max(index - LONGEST, 0), -1):
        if cut == len(text) or not _joined(text, cut):
            return cut
    return max(index - LONGEST, 0)


def _joined(text: str, index: int) -> bool:
    """Tell whether the characters on both sides of `index` belong together."""
    left, right = text[index - 1], text[index]
    if right < "\x7f":
        # GB3: a carriage return and its line feed are one.
        return (left == "\r" and right == "\n") or (left in PREPENDED and right >= " ")
    return (
        _extends(right)
        or left == ZWJ
        or left in PREPENDED
        or (combining(left) == VIRAMA_CLASS and category(right) == "Lo")
        or _is_hangul_syllable(left, right)
        or _splits_a_flag(text, index)
    )


def _extends(char: str) -> bool:
    """GB9, GB9a: marks, joiners, skin tones, tags and the two vowel signs that are letters."""
    if char < "\u0300":
        return False
    return (
        category(char) in ("Mn", "Me", "Mc")
        or char == ZWJ
        or char == EXTENDING_FORMATS[0]
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or EXTENDING_FORMATS[1] <= char <= EXTENDING_FORMATS[2]
        or char in "\uff9e\uff9f\u0e33\u0eb3"
    )


def _is_hangul_syllable(left: str, right: str) -> bool:
    """GB6 to GB8, read generously: letters that conjoin stay with the Hangul before them."""
    if _is_hangul_letter(right):
        return _is_hangul_letter(left) or _is_hangul_block(left)
    return _is_hangul_block(right) and _is_hangul_letter(left)


def _is_hangul_letter(char: str) -> bool:
    return (
        "\u1100" <= char <= "\u11ff" or "\ua960" <= char <= "\ua97c" or "\ud7b0" <= char <= "\ud7fb"
    )


def _is_hangul_block(char: str) -> bool:
    return "\uac00" <= char <= "\ud7a3"


def _splits_a_flag(text: str, index: int) -> bool:
    """GB12, GB13: flags are pairs, counted from the start of their run."""
    if text[index] not in FLAG_HALVES or text[index - 1] not in FLAG_HALVES:
        return False
    before = text[:index]
    return (len(before) - len(before.rstrip(FLAG_HALVES))) % 2 == 1
