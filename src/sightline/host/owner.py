"""Who runs a turn in a session: one program at a time, and it is known when it died.

Every host holds a lock on a small file of its own for as long as it lives; the kernel
lets go of it when the process ends, however it ends. The journal names the owner of a
session by that file. An owner whose lock can be had is dead, and what it left open may
be closed by whoever comes next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final
from uuid import uuid4

from sightline.errors import LedgerUnavailable, SessionBusy
from sightline.host.journal import Journal

__all__ = ["Owner"]

_TRIES: Final = 10


class Owner:
    """One host's claim to the sessions it works on."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._name = uuid4().hex
        self._path = self._file(self._name)
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
            other = self._journal.owner(session_id)
            if other == self._name:
                return False
            if other and self._is_alive(other):
                raise SessionBusy(
                    f"session {session_id} is in use by another program; wait for its turn to end"
                )
            if self._journal.set_owner(session_id, self._name, instead_of=other):
                return bool(other)
        raise SessionBusy(f"session {session_id} changes hands too fast")

    def release(self, session_id: int) -> None:
        """Give a session back."""
        self._journal.set_owner(session_id, "", instead_of=self._name)

    def _file(self, name: str) -> Path:
        path = self._journal.path
        return path.with_name(f"{path.name}-{name}.lock")

    def _is_alive(self, name: str) -> bool:
        """Whether the lock of an owner is held; the file of a dead one is removed."""
        path = self._file(name)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            path.unlink(missing_ok=True)
            return False
        finally:
            os.close(handle)
