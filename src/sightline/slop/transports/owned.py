"""Directories that nobody else can have put there for us, opened so that none can be swapped.

A path is walked name by name from `/`, each step relative to what was opened before, so what is
checked is what is used. On the way

- a symbolic link is followed only if it is the user's or root's, and stands in a directory in
  which nobody else can replace it;
- a directory that stands where others can write (`/tmp`) must be the user's or root's.

The directory itself must be the user's or root's, and writable by nobody else unless its sticky
bit keeps them from replacing files.

A file is opened so that nothing laid out as bait can hold us: `open_regular`; and written whole or
not at all, for the user's eyes only: `write_private`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Final

from sightline.errors import InvalidInput

_ROOT: Final = 0
_OTHERS_WRITE: Final = 0o022
_LINKS: Final = 40  # as many as Linux follows in one path
_FLAGS: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# To go through a directory does not take the right to list it, where the system has a word for it.
_THROUGH: Final = _FLAGS | getattr(os, "O_PATH", os.O_RDONLY)


@contextlib.contextmanager
def open_owned(path: Path, *, create: bool = False) -> Iterator[int]:
    """Open a directory for as long as the block runs; with `create` what is missing is made, 0700.

    Raises OSError as `os.open` does, and InvalidInput where somebody else could be behind it.
    """
    handle = _walk(path, create=create)
    try:
        problem = directory_problem(os.fstat(handle))
        if problem is not None:
            raise InvalidInput(problem)
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def open_regular(
    path: str | Path, *, follow: bool = False, within: int | None = None
) -> Iterator[tuple[BufferedReader, os.stat_result]]:
    """Open a regular file to read, for as long as the block runs; `follow` a link to one.

    `within` is the directory that the path is relative to. Raises OSError as `os.open` does, and
    for what is no regular file: a pipe or a device does not make us wait.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags, dir_fd=within)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise OSError(errno.ENXIO, "not a regular file", str(path))
    with os.fdopen(handle, "rb") as file:
        yield file, status


def write_private(directory: int, name: str, data: bytes, *, is_first: bool = False) -> None:
    """Write a file into an open directory: whole or not at all, readable by the user alone.

    What was there under its name is replaced; with `is_first` it stays, for whoever was faster is
    right. Raises OSError.
    """
    draft = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o600, dir_fd=directory), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if is_first:
            with contextlib.suppress(FileExistsError):
                os.link(
                    draft, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False
                )
        else:
            os.replace(draft, name, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft, dir_fd=directory)


def directory_problem(found: os.stat_result) -> str | None:
    """Say who else could change what is in a directory, or None if nobody could."""
    if not _is_ours(found):
        return "the directory belongs to another user"
    if found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX:
        return "others can write to the directory"
    return None


def _walk(path: Path, *, create: bool) -> int:
    names = _names(os.path.abspath(path))  # noqa: PTH100 - it follows no link, as resolve() would
    links = 0
    handle = os.open("/", _THROUGH)
    try:
        while names:
            name = names.pop()
            step = _step(handle, name, create=create)
            if isinstance(step, str):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
                names += _names(step)
                if not step.startswith("/"):
                    continue
                step = os.open("/", _THROUGH)
            os.close(handle)
            handle = step
        return os.open(".", _FLAGS, dir_fd=handle)  # to list it, and not only to go through it
    finally:
        os.close(handle)


def _names(path: str) -> list[str]:
    """The names of a path, the first one last."""
    return [name for name in reversed(PurePosixPath(path).parts) if name != "/"]


def _step(above: int, name: str, *, create: bool) -> int | str:
    """Open one name below a directory, or return where the link of that name leads."""
    try:
        return _checked(above, name, os.open(name, _THROUGH, dir_fd=above))
    except FileNotFoundError:
        if not create:
            raise
        with contextlib.suppress(FileExistsError):  # whoever was faster is looked at like any other
            os.mkdir(name, 0o700, dir_fd=above)
        return _checked(above, name, os.open(name, _THROUGH, dir_fd=above))
    except OSError as error:
        # Systems differ in what they call a link that was not to be followed.
        if error.errno not in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}:
            raise
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            raise
        if not _is_ours(found) or directory_problem(os.fstat(above)) is not None:
            raise InvalidInput(f"{name} is a symbolic link that another user controls") from None
        return os.readlink(name, dir_fd=above)


def _checked(above: int, name: str, handle: int) -> int:
    if os.fstat(above).st_mode & _OTHERS_WRITE and not _is_ours(os.fstat(handle)):
        os.close(handle)
        raise InvalidInput(f"{name} belongs to another user")
    return handle


def _is_ours(found: os.stat_result) -> bool:
    return found.st_uid in {os.getuid(), _ROOT}
