"""Who runs a turn in a session: one program at a time, and it is known when it died.

Every host holds a lock on a small file of its own beside the ledger for as long as it lives;
the kernel lets go of it when the process ends, however it ends. The ledger names the owner
of a session by that file. An owner whose lock can be had is dead, and what it left open may
be closed by whoever comes next. Who only looks takes a share of the lock, so that those
who look at the same time do not take each other for the owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path
from typing import Final, Literal, TypeAlias
from uuid import uuid4

from sightline.context.ledger.place import journal_path
from sightline.context.ledger.work import Work
from sightline.errors import LedgerUnavailable, SessionBusy

__all__ = ["Hold", "Owner", "hold_on"]

Hold: TypeAlias = Literal["none", "alive", "dead"]

_TRIES: Final = 10
_NAME: Final = re.compile(r"[0-9a-f]{32}")


class Owner:
    """One host's claim to the sessions it works on."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._name = uuid4().hex
        self._path = _locks_of(work, self._name)[0]
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        try:
            self._handle = os.open(self._path, flags, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LedgerUnavailable(f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Let go of everything."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            os.close(self._handle)

    def claim(self, session_id: int) -> bool:
        """Take a session; say whether its last owner died over it.

        Raises `SessionBusy` while somebody else runs a turn in it.
        """
        for _ in range(_TRIES):
            other = self._work.owner(session_id)
            if other == self._name:
                return False
            locks = _locks_of(self._work, other)
            if any(map(_is_held, locks)):
                raise SessionBusy(
                    f"session {session_id} is in use by another program; wait for its turn to end"
                )
            for lock in locks:
                lock.unlink(missing_ok=True)
            if self._work.claim(session_id, self._name, instead_of=other):
                return bool(other)
        raise SessionBusy(f"session {session_id} changes hands too fast")

    def release(self, session_id: int) -> None:
        """Give a session back, with nothing under way in it."""
        self._work.release(session_id, self._name)


def hold_on(work: Work, session_id: int) -> Hold:
    """Tell whether somebody runs a turn in a session, or died over one; changes nothing."""
    name = work.owner(session_id)
    if not name:
        return "none"
    return "alive" if any(map(_is_held, _locks_of(work, name))) else "dead"


def _locks_of(work: Work, name: str) -> tuple[Path, ...]:
    """The files that an owner may hold; beside the wire file, if its program is an older one.

    None for a name that no host has: whoever can write a ledger must not choose what is deleted.
    """
    if not _NAME.fullmatch(name):
        return ()
    beside = (work.path, journal_path(work.path))
    return tuple(path.with_name(f"{path.name}-{name}.lock") for path in beside)


def _is_held(lock: Path) -> bool:
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(handle)
