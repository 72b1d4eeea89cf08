"""Open the host that `chat` or `ask` was asked for, with a key from a file if one is named.

The file is the flag of `flag > environment > keyring`. A key is no argument itself, for whoever
lists the processes of a machine reads their arguments. What is wrong with a file is told without
any of its content.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from sightline.agent.host import Host
from sightline.agent.models.base import Model
from sightline.agent.models.choose import open_with_key
from sightline.agent.models.keys import Key
from sightline.cli.io import STDIN, naming
from sightline.cli.options import current_directory
from sightline.config import Settings
from sightline.context.ledger import Ledger, Session
from sightline.context.ledger.paths import user_path
from sightline.errors import InvalidInput, NotFound

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
async def opened_host(
    settings: Settings,
    key: Key | None,
    *,
    resume: str | None,
    latest: bool,
    connect: Iterable[str],
    kind: str = "",
) -> AsyncIterator[Host]:
    """Open a host in the session that was asked for, and connect it to apps.

    With a key it has the model that the key is for; without one it finds a model by itself, when
    it first needs it.
    """
    model: Model | None = None
    env: Mapping[str, str] | None = None
    async with AsyncExitStack() as stack:
        if key is not None:
            keyed, env = await asyncio.to_thread(open_with_key, settings, os.environ, key)
            stack.push_async_callback(keyed.close)
            model = keyed
        opening = Host.open(
            settings, model=model, env=env, session=resume, project=str(current_directory()),
            user_ledger=user_path(), kind=kind,
        )  # fmt: skip
        host = await stack.enter_async_context(opening)
        if latest:
            await host.switch(await asyncio.to_thread(_latest_session, host.ledger, host.session))
        for address in connect:
            await host.connect(address)
        yield host


def _latest_session(ledger: Ledger, new: Session) -> Session:
    """Find the latest session of this directory in which something was said."""
    for session in ledger.sessions.recent(project=new.project):
        if session.groups and session.parent is None:
            return session
    raise NotFound("there is no session to continue in this directory")


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
