"""What a session's turns did to files, kept so that it can be taken back.

    checkpoints/SESSION/log.jsonl        one line per change: its turn, its directory, its files
    checkpoints/SESSION/objects/SHA256   what files held before and after, each content once

All of it is the user's own, outside every repository, and may be deleted at any time. A session
keeps 64 MiB, all together 512 MiB: the oldest goes first. Nothing here writes to a workspace.

A file is taken back to what it was before the first change of the turns, if it still is what the
last of them left. If it is not, or was not in between, somebody else was at it: `foreign` says so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from sightline.agent.workspace.changes import FileChange
from sightline.agent.workspace.inside import Parts

MAX_SESSION: Final = 64 * 1024 * 1024
MAX_ALL: Final = 512 * 1024 * 1024


class _Kept(msgspec.Struct, frozen=True):
    """A change of one file; contents by their digests, None where there is no file."""

    path: str
    before: str | None
    after: str | None
    mode: int | None = None


class _Entry(msgspec.Struct, frozen=True):
    """The changes that one action made in a directory, in the turn of a group."""

    group: int
    root: str
    changes: list[_Kept]


_decoder: Final = msgspec.json.Decoder(_Entry)


class Restoration(msgspec.Struct, frozen=True):
    """What would bring files back: `changes` from what they are now.

    `foreign` are those of them that somebody else changed, `lost` what is no longer kept, and
    `elsewhere` what lies in another directory than this one.
    """

    changes: tuple[FileChange, ...] = ()
    foreign: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()

    def without(self, paths: Collection[str]) -> Restoration:
        """The same, with some files left as they are."""
        kept = tuple(change for change in self.changes if change.path not in paths)
        return Restoration(kept, (), self.lost, self.elsewhere)


class Checkpoints:
    """The checkpoints of one session, in a directory of their own."""

    def __init__(self, folder: Path, session: str) -> None:
        self._all = folder
        self._folder = folder / session
        self._objects = self._folder / "objects"
        self._log = self._folder / "log.jsonl"

    def keep(self, group: int, root: Path, changes: Sequence[FileChange]) -> None:
        """Note what was done to files. Raises OSError."""
        self._all.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._objects.mkdir(mode=0o700, exist_ok=True)
        kept = [
            _Kept(one.path, self._put(one.before), self._put(one.after), one.mode)
            for one in changes
        ]
        self._append(_Entry(group, str(root), kept))
        self._bound()

    def weight(self) -> tuple[int, int]:
        """Count the files that are kept of this session, and their bytes."""
        files = [path for path in self._objects.glob("*") if path.is_file()]
        return len(files), _size(self._folder)

    def forget(self) -> None:
        """Remove all of it. Raises OSError."""
        if self._folder.exists():
            shutil.rmtree(self._folder)

    def restoration(
        self,
        groups: Collection[int],
        root: Path,
        read: Callable[[Parts], bytes | None],
        *,
        forward: bool = False,
    ) -> Restoration:
        """Find out what would take back what turns did, or do it again with `forward`."""
        entries = [entry for entry in self._entries() if entry.group in groups]
        here = [one for entry in entries if entry.root == str(root) for one in entry.changes]
        changes: list[FileChange] = []
        foreign: list[str] = []
        lost: list[str] = []
        for path, steps in _by_path(here).items():
            parts = tuple(path.split("/"))
            left, wanted = (steps[-1].after, steps[0].before)[:: -1 if forward else 1]
            now = read(parts)
            if _digest(now) == wanted:
                continue
            try:
                then = None if wanted is None else (self._objects / wanted).read_bytes()
            except OSError:
                lost.append(path)
                continue
            changes.append(FileChange(parts, now, then, steps[0].mode))
            broken = any(a.after != b.before for a, b in pairwise(steps))
            if broken or _digest(now) != left:
                foreign.append(path)
        elsewhere = dict.fromkeys(
            one.path for entry in entries if entry.root != str(root) for one in entry.changes
        )
        return Restoration(tuple(changes), tuple(foreign), tuple(lost), tuple(elsewhere))

    def _entries(self) -> list[_Entry]:
        try:
            lines = self._log.read_bytes().splitlines()
        except OSError:
            return []
        found: list[_Entry] = []
        for line in lines:
            with suppress(msgspec.MsgspecError):  # a line that a crash cut
                found.append(_decoder.decode(line))
        return found

    def _put(self, data: bytes | None) -> str | None:
        digest = _digest(data)
        if digest is None or data is None:
            return None
        with suppress(FileExistsError):
            _write(self._objects / digest, data)
        return digest

    def _append(self, entry: _Entry) -> None:
        opened = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def _bound(self) -> None:
        """Let the oldest go: changes of this session, then other sessions."""
        if _size(self._folder) > MAX_SESSION:
            entries = self._entries()
            self._keep_only(entries[len(entries) // 2 + 1 :] or entries[-1:])
        others = sorted(
            (folder for folder in self._all.iterdir() if folder != self._folder),
            key=lambda folder: folder.stat().st_mtime,
        )
        total = sum(map(_size, [self._folder, *others]))
        for folder in others:
            if total <= MAX_ALL:
                return
            total -= _size(folder)
            shutil.rmtree(folder, ignore_errors=True)

    def _keep_only(self, entries: Sequence[_Entry]) -> None:
        used = {
            name for entry in entries for one in entry.changes for name in (one.before, one.after)
        }
        draft = self._log.with_suffix(".tmp")
        draft.unlink(missing_ok=True)
        _write(draft, b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
        draft.replace(self._log)
        for file in self._objects.iterdir():
            if file.name not in used:
                file.unlink(missing_ok=True)


def _by_path(changes: Iterable[_Kept]) -> dict[str, list[_Kept]]:
    found: dict[str, list[_Kept]] = {}
    for change in changes:
        found.setdefault(change.path, []).append(change)
    return found


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(opened, "wb") as file:
        file.write(data)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
