"""Files as a vendor takes them: inline data, an address it can fetch, or words about it.

What an API cannot take is never dropped in silence: the model reads that there was
a file, and the request has a note.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sightline.context.messages.parts import File

# RFC 2397.
DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.-]+)*;base64,(.*)", re.DOTALL)


class Inline(NamedTuple):
    """A file's content in base64, and its media type."""

    mime: str
    data: str


def inline(file: File) -> Inline | None:
    """Return the content of a `data:` address; None for any other."""
    match = DATA_URI.fullmatch(file.uri)
    return Inline(match[1] or file.mime, match[2]) if match else None


def is_web(file: File) -> bool:
    """Whether a file has a web address, which a vendor could fetch."""
    return file.uri.startswith(("https://", "http://"))


def placeholder(file: File) -> str:
    """Write the words that stand for a file which an API does not take."""
    where = "" if file.uri.startswith("data:") else f" at {file.uri}"
    return f"[file {file.name or 'without a name'} ({file.mime}){where}, not shown]"
