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

__all__ = ["AS_ROOT", "NOBODY", "SOMEBODY", "as_user", "command_as", "machine"]

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
