"""A directory that nothing opened through it can leave.

The directory is opened once, and everything else from there, one name at a time, with
links not followed: `..`, an absolute path, a link anywhere on the way, and a directory
that is swapped for a link while we walk, all end in a refusal and never outside. What is
opened is a regular file, or nothing: a FIFO or a device cannot make us wait.

`.git` is not part of it: what stands there can run programs.
"""

# ruff: noqa: RUF001 - what a file system may take for `.git`

from __future__ import annotations

import errno
import os
import secrets
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final

from sightline._lazy import lazy_pattern
from sightline.errors import ActionError
from sightline.slop.transports.owned import open_regular

Parts = tuple[str, ...]

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FORBIDDEN: Final = ".git"
# Some file systems take a name in other cases or widths, and with what cannot be seen in it, for
# the same. Tables of Unicode 18 (format characters; what NFKC and case folding make of a
# character), so that it is not up to the interpreter which names lead there.
_UNSEEN: Final = lazy_pattern(
    "[\xad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
_READS_AS_FORBIDDEN: Final = lazy_pattern(
    "[.․﹒．]"
    "[gGᴳᵍℊⒼⓖＧｇ\U0001ccdc𝐆𝐠𝐺𝑔𝑮𝒈𝒢𝓖𝓰𝔊𝔤𝔾𝕘𝕲𝖌𝖦𝗀𝗚𝗴𝘎𝘨𝙂𝙜𝙶𝚐🄶]"
    "[iIᴵᵢⁱℐℑℹⅈⅠⅰⒾⓘＩｉ\U0001ccde𝐈𝐢𝐼𝑖𝑰𝒊𝒾𝓘𝓲𝔦𝕀𝕚𝕴𝖎𝖨𝗂𝗜𝗶𝘐𝘪𝙄𝙞𝙸𝚒🄸]"
    "[tTᵀᵗₜⓉⓣＴｔ\U0001cce9𝐓𝐭𝑇𝑡𝑻𝒕𝒯𝓉𝓣𝓽𝔗𝔱𝕋𝕥𝕿𝖙𝖳𝗍𝗧𝘁𝘛𝘵𝙏𝙩𝚃𝚝🅃]"
)
_DEEPEST: Final = 60


def parts_of(path: str) -> Parts:
    """Split a path as a caller writes it. Raises ActionError for one that is not inside."""
    if path.startswith("/"):
        raise ActionError("invalid_params", f"{shown(path)}: paths start at the workspace's root")
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    if not parts:
        raise ActionError("invalid_params", f"{shown(path)}: not the path of a file")
    _check(parts)
    return parts


def _check(parts: Parts) -> None:
    """Refuse names that lead elsewhere, whoever gave them: an index of git's can be forged too."""
    if any(part in {"", ".", ".."} or "/" in part or "\0" in part for part in parts):
        raise ActionError("unauthorized", f"{name_of(parts)}: paths cannot leave the workspace")
    if any(reads_as_git(part) for part in parts):
        raise ActionError("unauthorized", f"{name_of(parts)}: {_FORBIDDEN} is not of the workspace")
    if len(parts) > _DEEPEST:
        raise ActionError("invalid_params", f"{name_of(parts)}: more than {_DEEPEST} levels deep")


def shown(path: str) -> str:
    """Write a path so that it is one printable line, whatever names are in it."""
    text = path if len(path) <= 500 else f"{path[:500]}…"
    return text if text.isprintable() else repr(text)[1:-1]


def reads_as_git(name: str) -> bool:
    """Return True if a file system can take a name for `.git`."""
    if name.isascii():
        return name.lower() == _FORBIDDEN
    return _READS_AS_FORBIDDEN.fullmatch(_UNSEEN.sub("", name)) is not None


class Inside:
    """One directory, opened. What goes wrong is an ActionError that names the path."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self._root)

    def close(self) -> None:
        """Let go of the directory; whoever forgets it lets go as well."""
        self._close()

    @contextmanager
    def directory(self, parts: Parts, *, make: bool = False) -> Iterator[int]:
        """Open a directory, for as long as the block runs; `make` creates what is missing."""
        _check(parts)
        opened = os.dup(self._root)
        try:
            for depth, name in enumerate(parts, 1):
                with _named(parts[:depth]):
                    below = _step(opened, name, make=make)
                os.close(opened)
                opened = below
            yield opened
        finally:
            os.close(opened)

    @contextmanager
    def _above(self, parts: Parts, *, make: bool = False) -> Iterator[int]:
        """Open the directory that a path is in; what goes wrong there is told of the path."""
        _check(parts)
        with self.directory(parts[:-1], make=make) as above, _named(parts):
            yield above

    @contextmanager
    def file(self, parts: Parts) -> Iterator[tuple[BufferedReader, os.stat_result]]:
        """Open a regular file to read."""
        with self._above(parts) as above, open_regular(parts[-1], within=above) as opened:
            yield opened

    def status(self, parts: Parts) -> os.stat_result | None:
        """Say what stands at a path, links as themselves; None if nothing does."""
        try:
            with self._above(parts) as above:
                return os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        except (OSError, ActionError):
            return None

    def create(self, parts: Parts, data: bytes, mode: int | None = None) -> None:
        """Write a new file, and the directories above it; `conflict` if something is there."""
        with self._above(parts, make=True) as above:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
            opened = os.open(parts[-1], flags, 0o666, dir_fd=above)
            try:
                with os.fdopen(opened, "wb") as file:
                    file.write(data)
                    if mode is not None:
                        os.fchmod(opened, mode)
            except BaseException:
                os.unlink(parts[-1], dir_fd=above)
                raise

    def remove(self, parts: Parts, seen: os.stat_result) -> None:
        """Delete a file; `conflict` if it is not the one that was `seen`."""
        with self._above(parts) as above:
            _check_same(above, parts, seen)
            os.unlink(parts[-1], dir_fd=above)

    def remove_directory(self, parts: Parts) -> None:
        """Delete a directory that is empty."""
        with self._above(parts) as above:
            os.rmdir(parts[-1], dir_fd=above)

    def replace(self, parts: Parts, data: bytes, seen: os.stat_result) -> None:
        """Put new content in a file's place, whole or not at all, with its mode.

        `conflict` if it is not the file that was `seen`.
        """
        with self._above(parts) as above:
            draft = f".{secrets.token_hex(8)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
            opened = os.open(draft, flags, 0o600, dir_fd=above)
            try:
                with os.fdopen(opened, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fchmod(opened, stat.S_IMODE(seen.st_mode))
                    os.fsync(opened)
                _check_same(above, parts, seen)
                os.replace(draft, parts[-1], src_dir_fd=above, dst_dir_fd=above)
            except BaseException:
                os.unlink(draft, dir_fd=above)
                raise


def _step(above: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(name, dir_fd=above)
    return os.open(name, _DIRECTORY, dir_fd=above)


def _check_same(above: int, parts: Parts, seen: os.stat_result) -> None:
    now = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
    if _identity(now) != _identity(seen):
        raise ActionError("conflict", f"{name_of(parts)} was changed by somebody else meanwhile")


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def name_of(parts: Parts) -> str:
    """Write a path from its parts, as `shown` does."""
    return shown("/".join(parts))


_MEANINGS: Final = {
    errno.ENOENT: ("not_found", "there is no such file"),
    errno.ENOTDIR: ("unauthorized", "a link or a file stands where a directory should"),
    errno.ELOOP: ("unauthorized", "a symbolic link, which is not followed"),
    errno.ENXIO: ("invalid_params", "not a regular file"),
    errno.EACCES: ("unauthorized", "permission denied"),
    errno.EPERM: ("unauthorized", "permission denied"),
    errno.EEXIST: ("conflict", "it is there already"),
    errno.EISDIR: ("invalid_params", "a directory"),
}


@contextmanager
def _named(parts: Parts) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        code, meaning = _MEANINGS.get(error.errno or 0, ("internal", error.strerror or str(error)))
        raise ActionError(code, f"{name_of(parts)}: {meaning}") from error
