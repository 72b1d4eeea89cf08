"""Images that are pasted: the path of one, or one that is on the clipboard."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import Final
from urllib.parse import unquote, urlsplit

from sightline.cli.attach import MAX_IMAGE
from sightline.context.messages.attach import image_head
from sightline.errors import InvalidInput

_TIME_S: Final = 5
# By the variable that says whose desktop it is.
_READERS: Final = {
    "WAYLAND_DISPLAY": ("wl-paste", "--no-newline", "--type", "image/png"),
    "DISPLAY": ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
}


def pasted_image(text: str) -> tuple[str, bytes] | None:
    """Read the image whose path is all that was pasted; None if that is not what it is.

    A terminal pastes the path of a file that is dropped on it: bare, quoted, with escaped
    blanks, or as an address.
    """
    word = text.strip()
    if not word or "\n" in word or len(word) > 4096:
        return None
    if word[0] in "'\"" and word[-1] == word[0]:
        word = word[1:-1]
    elif word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    else:
        word = word.replace("\\ ", " ")
    path = Path(word)
    try:
        if not path.is_absolute() or not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            data = file.read(MAX_IMAGE + 1)
    except (OSError, ValueError):
        return None
    return (str(path), data) if image_head(data) is not None and '"' not in word else None


def clipboard_image(env: Mapping[str, str] = os.environ) -> bytes:
    """Read the image on the clipboard. Blocks; raises InvalidInput if there is none to be had."""
    readers = [words for name, words in _READERS.items() if env.get(name)]
    found = [words for words in readers if which(words[0], path=env.get("PATH"))]
    if not found:
        needed = " or ".join(words[0] for words in readers or _READERS.values())
        raise InvalidInput(f"to paste an image needs {needed}; @FILE attaches one, too")
    for words in found:
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIME_S,
                env=dict(env), check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if image_head(done.stdout) is not None:
            return done.stdout
    raise InvalidInput("there is no image on the clipboard")
