"""Text of apps and models for somebody who decides by it: every character can be seen.

A character that cannot be seen, an accent that stands alone, a sign that looks like one of the
shell's, and a Greek, Cyrillic or Armenian letter beside a Latin one are written by their numbers:
`⟨U+200B⟩`. A line break is the sign `⏎`. Two whole words of two scripts can still look alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sightline._lazy import lazy_pattern
from sightline.cli.clean import clean_line
from sightline.cli.commands.lines import cells

BAR: Final = "    │ "
BREAK: Final = "⏎"
# What `clean` lets stand because words and emoji need it, and a command does not: blanks that
# are no space, joiners, selectors; and the signs that mean something on a card.
_STRANGE: Final = lazy_pattern(
    "[\xa0\u034f\u1680\u180b-\u180f\u2000-\u200a\u200c\u200d\u202f\u205f\u2800\u3000\ufe00-\ufe0f"
    "\U000e0100-\U000e01ef⟨⟩⏎⇥"
    # Accents that are put on what stands before them: one letter has two spellings.
    "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    # Signs that are drawn like ; / - . : and mean nothing to a shell.
    "\u037e\u2044\u2215\u29f8\u2010\u2011\u2212\u2024\u2236\ua789]"
)
_OTHER: Final = "[\u0370-\u052f\u0531-\u058f]+"
_MIXED: Final = lazy_pattern(f"((?<=[A-Za-z]){_OTHER}|{_OTHER}(?=[A-Za-z]))")


def visible(text: str) -> str:
    """Write every character so that it can be seen and told from any other."""
    alone = True
    shown = ""
    for part in _MIXED.split(text):  # what lies between, and what is mixed, by turns
        shown += "".join(map(_visible if alone else _number, part))
        alone = not alone
    return shown


def _visible(char: str) -> str:
    if " " <= char <= "~":
        return char
    if char == "\n":
        return BREAK
    return _number(char) if _STRANGE.match(char) or clean_line(char) != char else char


def _number(char: str) -> str:
    return f"⟨U+{ord(char):04X}⟩"


def pieces_of(text: str, first: int, room: int) -> Iterator[str]:
    """Cut a line into pieces of so many columns; together they are the line."""
    start, used, left = 0, 0, first
    for index, char in enumerate(text):
        used += cells(char)
        if used > left:
            yield text[start:index]
            start, used, left = index, cells(char), room
    yield text[start:]
