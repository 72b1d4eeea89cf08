"""One SQLite file, opened so that what is acknowledged stays.

A write is one `BEGIN IMMEDIATE … COMMIT` with `synchronous=FULL` in WAL mode:
when a `write()` block has ended, its change is on the disk; when it raises,
nothing was acknowledged, and a retry with the same key stores nothing twice.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

from sightline.context.ledger.connect import found, open_for_reading, open_for_writing, translated
from sightline.context.ledger.transaction import Transaction
from sightline.errors import LedgerUnusable

__all__ = ["Clock", "Mode", "Store", "now_utc", "written"]

Clock: TypeAlias = Callable[[], datetime]
Mode: TypeAlias = Literal["write", "read"]


def now_utc() -> datetime:
    """Tell the time; the default clock of a store."""
    return datetime.now(UTC)


def written(moment: datetime) -> str:
    """Write a moment as every row has it: UTC, milliseconds, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Store:
    """A connection to one ledger file; safe to use from several threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "write",
        clock: Clock = now_utc,
        vfs: str | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        self.mode = mode
        self._clock = clock
        self._lock = threading.RLock()
        self._level = "FULL"
        with translated(self.path):
            if mode == "write":
                self._connection = open_for_writing(self.path, self.timestamp(), vfs)
                found(self._connection, self.timestamp())
            else:
                self._connection = open_for_reading(self.path)

    def close(self) -> None:
        """Close the file; the store is of no use afterwards."""
        with self._lock, translated(self.path):
            self._connection.close()

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Read at one point in time, whatever others write meanwhile."""
        with self._lock, translated(self.path):
            if self._connection.in_transaction:  # a reader inside a reader sees the same
                yield self._connection
                return
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("COMMIT")

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Change the ledger: all of it, durably, when the block ends; nothing if it raises."""
        if self.mode == "read":
            raise LedgerUnusable(f"{self.path} was opened for reading only")
        with self._lock, translated(self.path):
            self._synchronise("FULL")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                transaction = Transaction(self._connection, self.timestamp())
                yield transaction
                transaction.finish()
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def work(self) -> Iterator[apsw.Connection]:
        """Change working state, which no seal covers.

        It survives the death of the program. The power may take the last of it: nothing is
        waited for here, and the next `write()` brings it to the disk with its own change.
        """
        if self.mode == "read":
            raise LedgerUnusable(f"{self.path} was opened for reading only")
        with self._lock, translated(self.path):
            self._synchronise("NORMAL")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _synchronise(self, level: Literal["FULL", "NORMAL"]) -> None:
        if self._level != level:
            # Not from the cache of statements: it takes effect when it is compiled.
            self._connection.execute(f"PRAGMA synchronous = {level}", can_cache=False)
            self._level = level

    def timestamp(self) -> str:
        """Write down the time."""
        return written(self._clock())

    def checkpoint(self) -> None:
        """Empty the write-ahead log into the file, so that removed text is in neither.

        Readers may hold it back; then it happens when they are done.
        """
        with self._lock, translated(self.path):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def backup(self, target: apsw.Connection) -> None:
        """Copy the whole ledger into another connection, as of one point in time."""
        with (
            self._lock,
            translated(self.path),
            target.backup("main", self._connection, "main") as copy,
        ):
            while not copy.done:
                copy.step(1000)
