"""Which files a directory has, as one value: a tree of names, without their contents."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from sightline.agent.workspace.inside import Parts
from sightline.slop.protocol.ids import legal_id

MOST: Final = 50_000
_SCAN_S: Final = 1.0
# What no reader of a project wants to see, where no git says what to ignore.
SKIPPED: Final = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache",
     ".pytest_cache", ".ruff_cache", ".tox", ".DS_Store"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listing:
    """Files by directory. `complete` is False if there are more than could be listed."""

    files: tuple[Parts, ...] = ()
    complete: bool = True
    _children: dict[Parts, dict[str, bool]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, paths: Iterable[Parts]) -> Listing:
        """Make a listing of the paths of files; those beyond `MOST` are left out."""
        files: list[Parts] = []
        children: dict[Parts, dict[str, bool]] = {(): {}}
        complete = True
        for parts in paths:
            if len(files) >= MOST:
                complete = False
                break
            files.append(parts)
            for depth in range(len(parts)):
                is_directory = depth < len(parts) - 1
                children.setdefault(parts[:depth], {})[parts[depth]] = is_directory
        return cls(tuple(files), complete, children)

    def entries(self, directory: Parts) -> list[tuple[str, bool]]:
        """List names and whether each is a directory: directories first, then by name."""
        found = self._children.get(directory, {}).items()
        return sorted(found, key=lambda entry: (not entry[1], entry[0]))

    def count(self, directory: Parts) -> int:
        """Count what stands directly in a directory."""
        return len(self._children.get(directory, {}))

    def named(self, ids: Iterable[str]) -> Parts | None:
        """Find the path whose names have these node ids; None if there is none."""
        parts: Parts = ()
        for node_id in ids:
            names = self._children.get(parts, {})
            name = next((name for name in names if legal_id(name) == node_id), None)
            if name is None:
                return None
            parts = (*parts, name)
        return parts


def scan(root: Path) -> Listing:
    """List a directory that has no git, without following links, for a second at most."""
    deadline = time.monotonic() + _SCAN_S
    found: list[Parts] = []
    for parts in _walk(root):
        found.append(parts)
        if time.monotonic() > deadline:
            return replace(Listing.of(found), complete=False)
    return Listing.of(found)


def _walk(root: Path) -> Iterator[Parts]:
    """Go through the files level by level: where it ends early, the top is there."""
    waiting: deque[Parts] = deque([()])
    while waiting:
        above = waiting.popleft()
        try:
            with os.scandir(root.joinpath(*above)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:  # not ours to read, or gone: nothing to list
            continue
        for entry in found:
            if entry.name in SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append((*above, entry.name))
            else:
                yield (*above, entry.name)
