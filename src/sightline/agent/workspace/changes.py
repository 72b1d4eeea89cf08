"""What an action would do to files: planned without touching any, shown, then done all or nothing.

    planned        which bytes each file has before, and which after
    shown          the diff of exactly that; the digest stands for it
    done           if every file still is what it was when it was planned, else nothing is

A plan of several edits is made on drafts: an edit sees what those before it did. `undone` of
what was done is what was there before.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Final, TypeAlias

import msgspec

from sightline.agent.workspace.inside import Inside, Parts, name_of, parts_of, shown
from sightline.agent.workspace.text import MAX_EDIT, editable, is_binary, replaced
from sightline.errors import ActionError

_MISSING: Final = "/dev/null"
_EXACTLY_ONE: Final = (
    "an edit has a path, and one of: old and new; content; to, a path to move it to; delete"
)


class FileEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One edit: a passage replaced (`every`: each time), a new content, another path, or gone."""

    path: str
    old: str | None = None
    new: str | None = None
    every: bool = False
    content: str | None = None
    overwrite: bool = False
    to: str | None = None
    delete: bool = False


# Known from the beginning: msgspec crashes where two threads are the first to read a type.
_decoder: Final = msgspec.json.Decoder(FileEdit)


class FileChange(msgspec.Struct, frozen=True):
    """A file's bytes before and after, None where there is no file; `mode` None is the usual."""

    parts: Parts
    before: bytes | None
    after: bytes | None
    mode: int | None = None

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    def undone(self) -> FileChange:
        """The change that takes this one back."""
        return FileChange(self.parts, self.after, self.before, self.mode)


class Plan(msgspec.Struct, frozen=True):
    """Changes that are made together; `moves` says which of them are one file under two names."""

    changes: tuple[FileChange, ...]
    moves: tuple[tuple[Parts, Parts], ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes)

    @property
    def digest(self) -> str:
        """What stands for the plan: two with the same digest do the same to the same files."""
        found = hashlib.sha256()
        for change in self.changes:
            for part in (change.path.encode(), change.before, change.after):
                found.update(b"-" if part is None else hashlib.sha256(part).digest())
        return found.hexdigest()

    @property
    def diff(self) -> str:
        """All that changes, as one unified diff."""
        by_path = {change.parts: change for change in self.changes}
        texts: list[str] = []
        for old, new in self.moves:
            gone, come = by_path.pop(old), by_path.pop(new)
            texts.append(f"rename from {name_of(old)}\nrename to {name_of(new)}\n")
            texts.append(_difference(gone.before, come.after, old, new))
        texts += [_difference(one.before, one.after, one.parts) for one in by_path.values()]
        return "".join(texts)


def planned(inside: Inside, edits: Iterable[FileEdit]) -> Plan:
    """Find out what edits would do, one after the other. Raises ActionError if one cannot be."""
    drafts = _Drafts(inside)
    moves: dict[Parts, Parts] = {}
    for edit in edits:
        kinds = [edit.old is not None and edit.new is not None, edit.content is not None,
                 edit.to is not None, edit.delete]  # fmt: skip
        if sum(kinds) != 1 or (edit.old is None) != (edit.new is None):
            raise ActionError("invalid_params", f"{shown(edit.path)}: {_EXACTLY_ONE}")
        parts = parts_of(edit.path)
        if edit.content is not None:
            drafts.create(parts, edit.content.encode(), overwrite=edit.overwrite)
        elif edit.to is not None:
            to = parts_of(edit.to)
            drafts.move(parts, to)
            moves[next((old for old, new in moves.items() if new == parts), parts)] = to
        elif edit.delete:
            drafts.delete(parts)
        else:
            drafts.replace(parts, edit.old or "", edit.new or "", every=edit.every)
    changes = drafts.changes()
    if not changes:
        raise ActionError("invalid_params", "nothing would be changed")
    gone = {change.parts for change in changes if change.after is None}
    come = {change.parts for change in changes if change.before is None}
    kept = ((old, new) for old, new in moves.items() if old in gone and new in come)
    return Plan(changes, tuple(kept))


def carry_out(inside: Inside, changes: Sequence[FileChange]) -> None:
    """Make all changes, or none and raise ActionError: if a file is not what it was, say."""
    missing = {
        change.parts[:depth]: None
        for change in changes
        if change.after is not None
        for depth in range(1, len(change.parts))
        if inside.status(change.parts[:depth]) is None
    }
    for change in changes:
        _check(inside, change)
    done: list[FileChange] = []
    try:
        for change in changes:
            _make(inside, change)
            done.append(change)
    except BaseException:
        for change in reversed(done):
            with suppress(ActionError):  # somebody is at it, too: theirs stays
                _make(inside, change.undone())
        for directory in sorted(missing, key=len, reverse=True):
            with suppress(ActionError):
                inside.remove_directory(directory)
        raise


def content_of(inside: Inside, parts: Parts) -> bytes | None:
    """Read a whole file; None if nothing is there. Raises ActionError if it is too large."""
    if inside.status(parts) is None:
        return None
    with inside.file(parts) as (file, _):
        data = file.read(MAX_EDIT + 1)
    if len(data) > MAX_EDIT:
        raise ActionError("invalid_params", f"{name_of(parts)}: too large to edit here")
    return data


class _Drafts:
    """Files as they would be after some edits; nothing of it is written."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._files: dict[Parts, FileChange] = {}

    def create(self, parts: Parts, data: bytes, *, overwrite: bool) -> None:
        file = self._file(parts)
        if file.after is not None and not overwrite:
            raise ActionError("conflict", f"{name_of(parts)}: it is there already")
        if len(data) > MAX_EDIT:
            raise ActionError("invalid_params", f"{name_of(parts)}: too large to write here")
        self._put(file, data)

    def replace(self, parts: Parts, old: str, new: str, *, every: bool) -> None:
        file = self._there(parts)
        text = replaced(
            name_of(parts), editable(name_of(parts), file.after or b""), old, new, every
        )
        self._put(file, text.encode())

    def move(self, parts: Parts, to: Parts) -> None:
        file, target = self._there(parts), self._file(to)
        if target.after is not None:
            raise ActionError("conflict", f"{name_of(to)}: it is there already")
        self._files[to] = FileChange(to, target.before, file.after, file.mode)
        self._put(file, None)

    def delete(self, parts: Parts) -> None:
        self._put(self._there(parts), None)

    def changes(self) -> tuple[FileChange, ...]:
        """What would be different in the end."""
        return tuple(file for file in self._files.values() if file.before != file.after)

    def _there(self, parts: Parts) -> FileChange:
        file = self._file(parts)
        if file.after is None:
            raise ActionError("not_found", f"{name_of(parts)}: there is no such file")
        return file

    def _file(self, parts: Parts) -> FileChange:
        if (file := self._files.get(parts)) is not None:
            return file
        for depth in range(1, len(parts)):
            status = self._inside.status(parts[:depth])
            if status is not None and not stat.S_ISDIR(status.st_mode):
                why = "a link or a file stands where a directory should"
                raise ActionError("unauthorized", f"{name_of(parts[:depth])}: {why}")
        data, status = content_of(self._inside, parts), self._inside.status(parts)
        mode = None if status is None else stat.S_IMODE(status.st_mode)
        file = self._files[parts] = FileChange(parts, data, data, mode)
        return file

    def _put(self, file: FileChange, data: bytes | None) -> None:
        self._files[file.parts] = FileChange(file.parts, file.before, data, file.mode)


def _check(inside: Inside, change: FileChange) -> os.stat_result | None:
    """Raise ActionError unless a file is what it was; give what stands there."""
    if change.before is None:
        if inside.status(change.parts) is not None:
            raise ActionError("conflict", f"{name_of(change.parts)}: it is there already")
        return None
    with inside.file(change.parts) as (file, status):
        if file.read(len(change.before) + 1) != change.before:
            why = "was changed by somebody else meanwhile"
            raise ActionError("conflict", f"{name_of(change.parts)} {why}")
    return status


def _make(inside: Inside, change: FileChange) -> None:
    status = _check(inside, change)
    if change.after is None:
        if status is not None:
            inside.remove(change.parts, status)
    elif status is None:
        inside.create(change.parts, change.after, change.mode)
    else:
        inside.replace(change.parts, change.after, status)


def _difference(
    before: bytes | None, after: bytes | None, parts: Parts, to: Parts | None = None
) -> str:
    old_name = _MISSING if before is None else f"a/{name_of(parts)}"
    new_name = _MISSING if after is None else f"b/{name_of(to or parts)}"
    old, new = _text(before), _text(after)
    if old is None or new is None:
        if before == after:
            return ""
        sizes = f"{len(before or b''):,} bytes, then {len(after or b''):,}"
        return f"--- {old_name}\n+++ {new_name}\nBinary: {sizes}\n"
    if old == new and before != after:  # an empty file, come or gone
        return f"--- {old_name}\n+++ {new_name}\n"
    return unified(old, new, old_name, new_name)


def _text(data: bytes | None) -> str | None:
    if data is None:
        return ""
    try:
        return None if is_binary(data) else data.decode()
    except UnicodeDecodeError:
        return None


# What changes in a text, as a unified diff.

Opcode: TypeAlias = tuple[str, int, int, int, int]

CONTEXT: Final = 3
# More lines than this between the first change and the last are not compared with each other.
_COMPARED: Final = 4_000
_NO_END: Final = "\\ No newline at end of file\n"


def unified(before: str, after: str, old_name: str, new_name: str) -> str:
    """Write the difference between two texts; nothing if there is none.

    Patching `before` with it gives `after`, byte for byte: lines end at a line feed and nowhere
    else, so that a change of line ends, or of the last line's missing end, can be seen.
    """
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    hunks = (line for group in _groups(old, new) for line in _hunk(old, new, group))
    return "".join((f"--- {old_name}\n", f"+++ {new_name}\n", *hunks))


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterator[list[Opcode]]:
    """Find the places that changed, each with the lines around it."""
    same = _common(old, new)
    ends = min(_common(old[::-1], new[::-1]), min(len(old), len(new)) - same)
    first, after = max(0, same - CONTEXT), max(0, ends - CONTEXT)
    left, right = old[first : len(old) - after], new[first : len(new) - after]
    if len(left) + len(right) <= _COMPARED:
        groups = SequenceMatcher(None, left, right).get_grouped_opcodes(CONTEXT)
    else:
        at, tail = same - first, ends - after
        left_end, right_end = len(left) - tail, len(right) - tail
        whole: list[Opcode] = [
            ("equal", 0, at, 0, at),
            ("replace", at, left_end, at, right_end),
            ("equal", left_end, len(left), right_end, len(right)),
        ]
        groups = iter([whole])
    for group in groups:
        yield [
            (tag, a + first, b + first, c + first, d + first)
            for tag, a, b, c, d in group
            if a < b or c < d
        ]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = zip(old, new, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(old), len(new)))


def _hunk(old: Sequence[str], new: Sequence[str], group: list[Opcode]) -> Iterator[str]:
    (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
    yield f"@@ -{_range(old_start, old_end)} +{_range(new_start, new_end)} @@\n"
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield from (_line(" ", line) for line in old[a:b])
        else:
            yield from (_line("-", line) for line in old[a:b])
            yield from (_line("+", line) for line in new[c:d])


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{_NO_END}"
