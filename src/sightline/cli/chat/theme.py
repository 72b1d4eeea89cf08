"""Which colours can be read: what the terminal says of its background, and the styles for it.

    the terminal's own answer (OSC 11) > COLORFGBG > dark

It is asked before anything else reads from it. A terminal that does not know the question still
answers the one behind it, which all know (DA1), so nobody waits for one that is silent longer than
a moment. What was typed meanwhile is kept.
"""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

Ground: TypeAlias = Literal["light", "dark"]

# xterm, control sequences: OSC 11 with `?` reports the background; CSI c the kind of terminal.
_QUESTION: Final = b"\x1b]11;?\x1b\\\x1b[c"
_COLOR: Final = re.compile(
    rb"\x1b\]11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)"
)
_KIND: Final = re.compile(rb"\x1b\[\?[0-9;]*c")
_PATIENCE_S: Final = 0.1
_BRIGHT: Final = 0.5
# Of the 16 colours of COLORFGBG (rxvt), those that are light.
_LIGHT_COLORS: Final = frozenset({"7", "9", "10", "11", "12", "13", "14", "15"})
# Styles of the input line and what stands around it, by the ground.
SCREEN_STYLES: Final[dict[Ground, dict[str, str]]] = {
    "dark": {
        "bottom-toolbar": "noreverse",
        "dim": "ansibrightblack",
        "warn": "ansiyellow",
        "error": "ansired bold",
        "ask": "ansiyellow bold",
        "busy": "ansicyan",
        "status.model": "bold",
        "status.context": "ansicyan",
        "status.state": "ansigreen",
        "status.mode": "ansimagenta",
    },
    "light": {
        "bottom-toolbar": "noreverse",
        "dim": "#585858",
        "warn": "#875f00",
        "error": "#af0000 bold",
        "ask": "#875f00 bold",
        "busy": "#005f87",
        "status.model": "bold",
        "status.context": "#005f87",
        "status.state": "#005f00",
        "status.mode": "#87005f",
    },
}


class TerminalAnswer(NamedTuple):
    """What a terminal said of its background, if it did, and what was typed meanwhile."""

    ground: Ground | None = None
    typed: bytes = b""


def ask_terminal() -> TerminalAnswer:
    """Ask the terminal of stdin and stdout for its background. Blocks for a moment at most."""
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, termios.error):
        return TerminalAnswer()
    heard, until = b"", time.monotonic() + _PATIENCE_S
    try:
        tty.setcbreak(descriptor)
        os.write(sys.stdout.fileno(), _QUESTION)
        while not _KIND.search(heard) and (left := until - time.monotonic()) > 0:
            if select.select([descriptor], [], [], left)[0]:
                heard += os.read(descriptor, 1024)
    except OSError:
        pass
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
    return answer_of(heard)


def answer_of(heard: bytes) -> TerminalAnswer:
    """Take what the terminal answered out of what was read from it."""
    found = _COLOR.search(heard)
    ground: Ground | None = None
    if found is not None:
        ground = "light" if luminance(*found.groups()) > _BRIGHT else "dark"
    return TerminalAnswer(ground, _KIND.sub(b"", _COLOR.sub(b"", heard)))


def luminance(red: bytes, green: bytes, blue: bytes) -> float:
    """Say how bright a colour is, from 0 to 1, of any number of hexadecimal digits."""
    # ITU-R BT.709, relative luminance, without gamma: a ground is hardly ever in between.
    shares = [int(part, 16) / float(16 ** len(part) - 1) for part in (red, green, blue)]
    return 0.2126 * shares[0] + 0.7152 * shares[1] + 0.0722 * shares[2]


def ground_of(chosen: str, answered: Ground | None, env: Mapping[str, str]) -> Ground:
    """Decide for a ground: what the user chose, the terminal said, a variable says, or dark."""
    if chosen in ("light", "dark"):
        return "light" if chosen == "light" else "dark"
    if answered is not None:
        return answered
    return "light" if env.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_COLORS else "dark"
