"""Text from outside, made harmless for a terminal.

    no character of clean(x) controls a terminal, hides text, or turns its direction
    len(clean(x)) == len(x) but for "\\r\\n", and clean(clean(x)) == clean(x)

Apps, models and files write what they like; a terminal obeys what it is sent. Every text
that is not ours passes here on its way to a screen, and is passed through once more at
the doors (`cli.out` for what is printed, `chat.paint` for the chat's screen), so that a
forgotten call cannot hurt. What is taken out stays visible: a reader shall see that
something was there. Each character is judged alone, so that nothing can come together
from what is left.

`visible` is for somebody who decides by a text: every character can be seen. One that cannot be
seen, an accent that stands alone, a sign that looks like one of the shell's, and a Greek, Cyrillic
or Armenian letter beside a Latin one are written by their numbers: `⟨U+200B⟩`. A line break is the
sign `⏎`. Two whole words of two scripts can still look alike.
"""

from __future__ import annotations

import re
from typing import Final

from sightline._lazy import lazy_pattern

_LOST: Final = "\ufffd"
# Control characters have pictures of their own: ESC is shown as the sign for ESC.
_PICTURES: Final = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}
# ECMA-48: C1 controls begin sequences in one character. UAX #9: bidi controls let a text be
# read as another. The rest cannot be seen, or is no character at all. Joiners, which scripts
# and emoji need, and variation selectors stay.
_UNSEEN: Final = (
    "\x80-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e00ff"
)
# Compiled when they are first used, which is after the prompt of a chat.
_HOSTILE: Final = f"[\x00-\x08\x0b-\x1f\x7f{_UNSEEN}]"
_OBEYED: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"
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


def clean(text: str) -> str:
    """Replace every character that a terminal would obey, or a reader not see, by one to see."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return re.sub(_HOSTILE, _pictured, text)


def clean_line(text: str) -> str:
    """Do the same for a text that must stay on its line: line breaks and tabs become signs too."""
    return clean(text).replace("\n", "\u240a").replace("\t", " ")


def harmless(text: str) -> str:
    """Replace only what a terminal obeys: for text that a program reads, and a person may later."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return re.sub(_OBEYED, _pictured, text)


def clean_json(text: str) -> str:
    """Spell JSON without line breaks but `\\n` so that a reader sees every character of it."""
    import json  # as late, for the same reason

    return re.sub(_HOSTILE, lambda match: json.dumps(match[0])[1:-1], text)


def _pictured(match: re.Match[str]) -> str:
    return _PICTURES.get(ord(match[0]), _LOST)


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
