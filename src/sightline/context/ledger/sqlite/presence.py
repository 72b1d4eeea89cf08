"""Which processes are alive: each holds a lock on a file of its own beside the ledger.

The kernel lets go of it when the process ends, however it ends. Who only looks takes a
share of the lock, so that those who look at the same time do not take each other for the
one who holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sightline.context.ledger.paths import journal_path
from sightline.errors import LedgerUnavailable

_NAME: Final = re.compile(r"[0-9a-f]{32}")


def attend(ledger: Path, name: str) -> Callable[[], None]:
    """Hold the lock of a name, until what is returned is called."""
    [path, _] = _locks_of(ledger, name)
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
    except OSError as error:
        raise LedgerUnavailable(f"{path}: {error.strerror}") from error

    def leave() -> None:
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):
            os.close(handle)

    return leave


def is_held(ledger: Path, name: str) -> bool:
    """Tell whether somebody holds the lock of a name."""
    return any(map(_is_held, _locks_of(ledger, name)))


def bury(ledger: Path, name: str) -> None:
    """Delete the lock of a name."""
    for lock in _locks_of(ledger, name):
        lock.unlink(missing_ok=True)


def _locks_of(ledger: Path, name: str) -> tuple[Path, ...]:
    """The files that an owner may hold; beside the wire file, if its program is an older one.

    None for a name that no host has: whoever can write a ledger must not choose what is deleted.
    """
    if not _NAME.fullmatch(name):
        return ()
    beside = (ledger, journal_path(ledger))
    return tuple(path.with_name(f"{path.name}-{name}.lock") for path in beside)


def _is_held(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # who cannot be asked is not declared dead
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(handle)
