"""Copy a ledger while it is in use.

The copy is made page by page as of one point in time, verified, and only then
given its name: under that name there is a good copy or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import apsw

from sightline.context.ledger.sqlite.connect import sync_directory, translated
from sightline.errors import LedgerUnusable


def backup(
    target: Path, copy_into: Callable[[apsw.Connection], None], check: Callable[[Path], None]
) -> None:
    """Copy to a new file of mode 0600. Raise `LedgerUnusable` if there is one already."""
    if target.exists():
        raise LedgerUnusable(f"{target} exists already; a backup never overwrites")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise LedgerUnusable(f"{target} cannot be made: {error.strerror}") from error
    try:
        _copy(partial, copy_into)
        check(partial)
        # A link, unlike a rename, fails if somebody made the target meanwhile.
        os.link(partial, target)
        sync_directory(target.parent)
    except FileExistsError as error:
        raise LedgerUnusable(f"{target} exists already; a backup never overwrites") from error
    finally:
        partial.unlink(missing_ok=True)


def _copy(partial: Path, copy_into: Callable[[apsw.Connection], None]) -> None:
    with translated(partial):
        connection = apsw.Connection(str(partial))
        try:
            copy_into(connection)
            # One file, which can be read from anywhere; opening it for writing turns WAL on again.
            connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            connection.close()
