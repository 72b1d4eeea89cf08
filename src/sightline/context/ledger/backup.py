"""Copy a ledger while it is in use.

The copy is made page by page as of one point in time, verified, and only then
given its name: under that name there is a good copy or none.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from sightline.context.ledger.connect import sync_directory, translated
from sightline.context.ledger.store import Store
from sightline.context.ledger.verify import verify
from sightline.errors import LedgerUnusable

__all__ = ["backup"]


def backup(store: Store, target: Path) -> Path:
    """Copy to a new file of mode 0600. Raise `LedgerUnusable` if there is one already."""
    if target.exists():
        raise LedgerUnusable(f"{target} exists already; a backup never overwrites")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise LedgerUnusable(f"{target} cannot be made: {error.strerror}") from error
    try:
        _copy(store, partial)
        # A link, unlike a rename, fails if somebody made the target meanwhile.
        os.link(partial, target)
        sync_directory(target.parent)
    except FileExistsError as error:
        raise LedgerUnusable(f"{target} exists already; a backup never overwrites") from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _copy(store: Store, partial: Path) -> None:
    with translated(partial):
        connection = apsw.Connection(str(partial))
        try:
            store.backup(connection)
            # One file, which can be read from anywhere; opening it for writing turns WAL on again.
            connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            connection.close()
    copy = Store(partial, mode="read")
    try:
        verify(copy).raise_if_damaged()
    finally:
        copy.close()
