"""A reader that is easily fooled: what would a careless model take for the host's own?

It shares no code with the library. It normalises (NFKC), drops what has no width,
folds case, forgives space, and knows the letters of other scripts that look like
ours. It decodes entities and percent codes, as often as there are any, and takes an
underscore for a hyphen. Whatever it finds in a block besides what the host put there is
a forgery.
"""

from __future__ import annotations

import html
import re
import unicodedata
from urllib.parse import unquote

# Letters of other scripts that a reader takes for Latin ones; no normalisation joins them.
_OTHER_SCRIPTS = str.maketrans(
    "ѕоррасеіѵЅОРАСЕІΟοαερτΡΤΑΕօⲟⲣꓢꓡꓳꓑᏚᏞᏢꜱʟᴏᴘᴛᴀᴇ‹˂ᐸ❮⟨",  # noqa: RUF001 - look-alikes are the point
    "soppaceivsopaceiooaeptptaeoopslopslpslopta" + "e<<<<<",
)
_HIDDEN = {"Cf", "Cc", "Mn", "Me", "Cn", "Co"}
_FILLERS = "\u115f\u1160\u3164\uffa0\u17b4\u17b5"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d"


class _Seen(dict[int, str | None]):
    """What becomes of each character; looked up once."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        hidden = char in _FILLERS or (char != "\t" and unicodedata.category(char) in _HIDDEN)
        self[code] = None if hidden else "-" if char in _HYPHENS else char
        return self[code]


_SEEN = _Seen()

_TAG = re.compile(r"<\s*(/?)\s*(slop-state|slop-apps-available)(?![\w-])")
_HEADING = re.compile(r"^\s*#{1,6}\s*(\S.*)$")
_NODE = re.compile(r"^\s*\[[^\]]*\]\s*\S")
_ACTIONS = re.compile(r"\sactions\s*:\s*\{([^{}]*)\}")


def read(text: str) -> str:
    """The text as this reader sees it; line breaks of every kind are line breaks."""
    lines = re.split("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
    return "\n".join(map(_read_line, lines))


def _read_line(line: str) -> str:
    seen = unicodedata.normalize("NFKC", line).translate(_OTHER_SCRIPTS)
    return unicodedata.normalize("NFKD", seen).translate(_SEEN).casefold()


def tags(text: str) -> list[str]:
    """The context tags in a text, opening and closing."""
    return [f"{slash}{name}" for slash, name in _TAG.findall(_decoded(read(text)))]


def _decoded(text: str) -> str:
    while (plain := read(unquote(html.unescape(text)))) != text:
        text = plain
    return text.replace("_", "-")


def headings(text: str) -> list[str]:
    """The headings in a text."""
    return [match[1] for line in read(text).split("\n") if (match := _HEADING.match(line))]


def node_lines(text: str) -> int:
    """How many lines look like a node."""
    return sum(1 for line in read(text).split("\n") if _NODE.match(line))


def actions(text: str) -> list[str]:
    """The actions that lines offer, without their parameters."""
    found: list[str] = []
    for line in read(text).split("\n"):
        for offered in _ACTIONS.findall(line):
            bare = re.sub(r"\([^()]*\)", "", offered)
            found.extend(name.strip() for name in bare.split(","))
    return found
