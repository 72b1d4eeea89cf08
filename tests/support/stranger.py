"""A second user of the machine: functions that run in a process of another uid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.wire import PATIENCE_S

__all__ = [
    "AS_ROOT", "NOBODY", "SOMEBODY", "as_user", "command_as", "knock_as", "machine",
]  # fmt: skip

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="takes root, to be two other users")
NOBODY = 65534
SOMEBODY = 54321

# Everything is imported first: the other user may not be able to read where it is installed.
_PRELUDE = """
import asyncio, encodings.idna, json, os, sys
import sightline.cli.demo, sightline.demo.app, websockets.asyncio.client, websockets.asyncio.server
from sightline import App
from sightline.cli.main import run
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.hub import Hub
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
os.environ.update({environment!r})
os.chdir("/")
def tell(value): print(json.dumps(value), flush=True)
"""


# Python is loaded before the user changes: the other user may not be able to read it.
_KNOCK = """
import encodings.idna, os, socket, struct
if os.getuid() != {uid}:
    os.setgroups([]); os.setgid({uid}); os.setuid({uid})
with socket.create_connection(({host!r}, {port})) as line:
    line.sendall({request!r})
    if {resets}:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if {reads}:
        try:
            print(line.recv(4096).decode("latin-1"))
        except ConnectionResetError:  # Closed before the request was read.
            pass
"""


def knock_as(
    uid: int, host: str, port: int, request: bytes, *, reads: bool = True, resets: bool = False
) -> str:
    """Send a request to a port as a user. Returns the beginning of the answer.

    Without `reads` the connection is closed at once, with `resets` by a reset.
    """
    code = _KNOCK.format(
        uid=uid, host=host, port=port, request=request, reads=reads, resets=resets
    )  # fmt: skip
    command = [sys.executable, "-I", "-S", "-c", code]
    return subprocess.check_output(command, text=True, timeout=PATIENCE_S)


def command_as(uid: int, code: str, **environment: str) -> list[str]:
    """The command that runs code as another user."""
    script = _PRELUDE.format(uid=uid, environment=environment) + code
    return [sys.executable, "-c", script]


def as_user(uid: int, code: str, **environment: str) -> Any:
    """Run code as another user; returns what it `tell`s. Fails with what it wrote to stderr."""
    command = command_as(uid, code, **environment)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def machine() -> Iterator[tuple[Path, dict[int, Path]]]:
    """A place like /tmp that all users share, and a home for each of two."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        shared = base / "tmp"
        shared.mkdir()
        shared.chmod(0o1777)
        homes = {uid: base / f"home-{uid}" for uid in (NOBODY, SOMEBODY)}
        for uid, home in homes.items():
            home.mkdir(mode=0o700)
            os.chown(home, uid, uid)
        yield shared, homes
