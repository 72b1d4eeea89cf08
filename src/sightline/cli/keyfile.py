"""A key from a file: the flag of `flag > environment > keyring`.

A key is no argument itself, for whoever lists the processes of a machine reads their
arguments. What is wrong with a file is told without any of its content.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from sightline.agent.models.base import Model
from sightline.agent.models.choose import open_with_key
from sightline.agent.models.keys import Key
from sightline.cli.io import STDIN, naming
from sightline.config import Settings
from sightline.errors import InvalidInput

MAX_BYTES: Final = 4096
_OTHERS: Final = 0o077


def read_key(source: str) -> Key:
    """Read a key from a file, once, or from stdin for `-`.

    Raises `InvalidInput` for what others may read, and for what is not one key. A pipe, such
    as a shell's `<(…)`, is as good as a file.
    """
    with naming(source):
        data = _from_stdin() if source == STDIN else _from_file(Path(source))
        if len(data) > MAX_BYTES:
            raise InvalidInput(f"more than {MAX_BYTES} bytes is no key")
        try:
            key = data.decode("ascii").strip()
        except UnicodeDecodeError:
            raise InvalidInput("a key is plain ASCII, and this is not") from None
        if not key:
            raise InvalidInput("there is no key in it")
        if " " in key or not key.isprintable():
            raise InvalidInput("there is more in it than one key")
    return Key(key, "the key file")


@asynccontextmanager
async def keyed(
    settings: Settings, key: Key | None
) -> AsyncIterator[tuple[Model | None, Mapping[str, str] | None]]:
    """Give a host the model that a key is for, while the block runs, and what it finds around it.

    Without a key that is nothing: the host finds one by itself, when it first needs it.
    """
    if key is None:
        yield None, None
        return
    model, env = await asyncio.to_thread(open_with_key, settings, os.environ, key)
    try:
        yield model, env
    finally:
        await model.close()


def _from_stdin() -> bytes:
    if sys.stdin.isatty():
        raise InvalidInput("a key is not typed here: pipe it in, or give a file")
    return sys.stdin.buffer.read(MAX_BYTES + 1)


def _from_file(source: Path) -> bytes:
    try:
        with source.open("rb") as file:
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS:
                mode = stat.S_IMODE(found.st_mode)
                raise InvalidInput(f"others may read it (mode {mode:04o}): chmod 600 {source}")
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(error.strerror or str(error)) from error
