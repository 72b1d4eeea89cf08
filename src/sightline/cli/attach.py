"""Attach the files that a message names: `@notes.txt`, `@shot.png`, `@paper.pdf`.

Only files below the current directory, links not followed: what is pasted into a chat may
name any file, and a name alone shall not send it. A word behind an `@` that is no file stays
a word, unless it can only have been meant as one.
"""

from __future__ import annotations

import asyncio
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from sightline.agent.host import Host
from sightline.agent.workspace.inside import Inside, Parts, parts_of, shown
from sightline.agent.workspace.text import is_binary
from sightline.cli.options import current_directory
from sightline.cli.pdf import MAX_PDF, is_pdf, pdf_text
from sightline.context.messages.attach import Spellings, image_of, mentions, quoted
from sightline.context.messages.parts import File
from sightline.errors import ActionError, InvalidInput

MAX_FILES: Final = 10
MAX_TEXT: Final = 256 * 1024
MAX_IMAGE: Final = 4 * 1024 * 1024
_AS_PATH: Final = ("./", "../", "/", "~/")


class Attached(NamedTuple):
    """What goes with a message: texts to stand behind it, files, and the names of all."""

    texts: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    names: tuple[str, ...] = ()

    def behind(self, text: str) -> str:
        """Put the texts behind what was said."""
        return "\n\n".join((text, *self.texts))


async def attach(text: str, host: Host, pasted: Mapping[str, bytes] | None = None) -> Attached:
    """Read the files that a text names. Raises `InvalidInput` for one that cannot be sent.

    Who is cancelled leaves nothing that still reads.
    `pasted` are images that the user pasted, by the names that stand for them.
    """
    named = list(mentions(text))
    if not named:
        return Attached()
    stop = threading.Event()
    try:
        read = await asyncio.to_thread(_read_all, named, current_directory(), pasted or {}, stop)
    finally:
        stop.set()
    if read.files and not (model := await host.model()).profile.messages.images:
        raise InvalidInput(f"{read.files[0].name} is an image, and {model.label} takes none")
    return read


def _read_all(
    named: list[Spellings], root: Path, pasted: Mapping[str, bytes], stop: threading.Event
) -> Attached:
    inside = Inside(root)
    texts: list[str] = []
    files: list[File] = []
    names: list[str] = []
    try:
        for spellings in named:
            image = next((word for word in spellings if word in pasted), None)
            parts = None if image is not None else _file_of(spellings, inside, root)
            if image is None and parts is None:
                continue
            name = shown(image or "/".join(parts or ()))
            if name in names:
                continue
            if len(names) == MAX_FILES:
                raise InvalidInput(f"a message takes {MAX_FILES} files at most")
            names.append(name)
            if image is not None:
                content = _sendable(name, pasted[image], len(pasted[image]), stop)
            else:
                content = _content(inside, parts or (), name, stop)
            if isinstance(content, File):
                files.append(content)
            else:
                texts.append(quoted(name, content))
    except ActionError as error:
        raise InvalidInput(f"cannot attach {error.message}") from error
    finally:
        inside.close()
    return Attached(tuple(texts), tuple(files), tuple(names))


def _file_of(spellings: Spellings, inside: Inside, root: Path) -> Parts | None:
    """Find the file that is meant; None if it is only a word."""
    for spelling in spellings:
        parts = _parts(spelling, root)
        status = inside.status(parts) if parts else None
        if status is not None:
            return None if stat.S_ISDIR(status.st_mode) else parts
    # The shortest spelling is the one without a sentence's punctuation.
    word = spellings[-1]
    parts = _parts(word, root)
    if not parts:
        return None
    above = inside.status(parts[:1]) if len(parts) > 1 else None
    if word.startswith(_AS_PATH) or (above is not None and stat.S_ISDIR(above.st_mode)):
        raise InvalidInput(f"cannot attach {shown(word)}: there is no such file")
    return None


def _parts(spelling: str, root: Path) -> Parts:
    """Split a path below the root; nothing for what is none. Raises `ActionError`."""
    path = spelling
    if not path.strip("./~"):
        return ()
    if path.startswith(("/", "~/")):
        whole = Path(path).expanduser()
        if not whole.is_relative_to(root):
            raise InvalidInput(f"cannot attach {shown(spelling)}: it is not in this directory")
        path = str(whole.relative_to(root))
    return parts_of(path)


def _content(inside: Inside, parts: Parts, name: str, stop: threading.Event) -> str | File:
    with inside.file(parts) as (file, status):
        data = file.read(MAX_IMAGE + 1)
        if is_pdf(data):
            data += file.read(MAX_PDF + 1 - len(data))
    return _sendable(name, data, status.st_size, stop)


def _sendable(name: str, data: bytes, size: int, stop: threading.Event) -> str | File:
    """Make of a file's bytes what a message can have."""
    if is_pdf(data):
        if len(data) > MAX_PDF:
            raise InvalidInput(f"cannot attach {name}: {size:,} bytes, and {MAX_PDF:,} are taken")
        try:
            return pdf_text(data, stop)
        except InvalidInput as error:
            raise type(error)(f"cannot attach {name}: {error}") from None
    image = image_of(name, data)
    limit = MAX_TEXT if image is None else MAX_IMAGE
    if image is None and is_binary(data):
        raise InvalidInput(f"cannot attach {name}: it is neither text nor an image that is known")
    if len(data) > limit:
        raise InvalidInput(f"cannot attach {name}: {size:,} bytes, and {limit:,} are taken at most")
    if image is not None:
        return image
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"cannot attach {name}: it is not UTF-8 text") from None
