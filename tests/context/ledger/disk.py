"""A disk whose power can be cut, that can be full, and that can fail.

An apsw VFS over real files. It remembers of each file what was synced, and the
writes since; `cut()` gives the files as a power cut might leave them: all that
was synced, and any of the rest, in any combination, down to torn sectors. A file
that was never synced may not be there at all. Deleting is taken as lasting.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512


class Disk(apsw.VFS):
    """A VFS registered under `name` until `unregister()`."""

    def __init__(self, name: str, seed: int = 0) -> None:
        super().__init__(name, "")
        self.name = name
        self.random = random.Random(seed)
        self.synced: dict[str, bytearray] = {}
        self.pending: dict[str, list[tuple[int, bytes | None]]] = {}
        self.room: int | None = None  # bytes that may still be written
        self.failing: set[str] = set()  # operations that fail: "open", "write", "sync"
        self.on_operation: Callable[[], None] = lambda: None

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:  # noqa: N802 - SQLite's name
        if "open" in self.failing:
            raise apsw.CantOpenError("the test's disk cannot be written")
        return DiskFile(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802 - SQLite's name
        super().xDelete(name, sync)
        self.synced.pop(name, None)
        self.pending.pop(name, None)

    def cut(self, target: Path) -> None:
        """Write to a directory what a power cut now might leave."""
        for name, image in self.synced.items():
            left = bytearray(image)
            for offset, data in self.pending.get(name, []):
                if self.random.random() < 0.5:
                    continue
                if data is not None and self.random.random() < 0.3:
                    data = data[: self.random.randrange(0, len(data) + 1, SECTOR) or len(data)]
                apply(left, offset, data)
            (target / Path(name).name).write_bytes(left)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - SQLite's name
        disk = self._disk
        disk.on_operation()
        if "write" in disk.failing:
            raise apsw.IOError("the test's disk fails")
        if disk.room is not None:
            if len(data) > disk.room:
                raise apsw.FullError("the test's disk is full")
            disk.room -= len(data)
        super().xWrite(data, offset)
        disk.pending.setdefault(self._name, []).append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.on_operation()
        if "write" in self._disk.failing:
            raise apsw.IOError("the test's disk fails")
        super().xTruncate(size)
        self._disk.pending.setdefault(self._name, []).append((size, None))

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        disk = self._disk
        disk.on_operation()
        if "sync" in disk.failing:
            raise apsw.IOError("the test's disk fails")
        image = disk.synced.setdefault(self._name, bytearray())
        for offset, data in disk.pending.pop(self._name, []):
            apply(image, offset, data)


def apply(image: bytearray, offset: int, data: bytes | None) -> None:
    """Write data into an image, or truncate it there."""
    if data is None:
        del image[offset:]
        return
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data
