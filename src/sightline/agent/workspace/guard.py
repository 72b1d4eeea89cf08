"""Makes git settings inert that a sandboxed command left in a directory.

No sandbox can forbid a name, so a command can make `sub/.git` with a program in it, and the
user's own git would run the program. A survey of the directory before the command is compared
with one after it.

    accepted   settings that are as before, and new ones that can run no program (`git init`)
    inert      every other `.git` file or link, hook, `config`, `config.worktree`, `commondir`:
               renamed to `NAME.inert-HEX`, and the file of before is written again

Git takes any directory with the content of a repository for one, and so does a survey. Each
directory is opened from the one above it, and no link is followed: a command that still runs
cannot lead the survey elsewhere. The work is proportional to the number of directories. A
directory above the limit runs no command, and a new one above it is renamed without a check.
"""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from sightline._lazy import lazy_pattern
from sightline.agent.workspace.inside import reads_as_git, shown
from sightline.errors import InvalidInput
from sightline.slop.transports.owned import open_regular

MAX_DIRECTORIES: Final = 250_000
_DEEPEST: Final = 200  # each level holds a file descriptor
_MAX_BYTES: Final = 1024 * 1024
_NAMED: Final = 5
_AT_FDCWD: Final = -100  # openat(2)
# gitrepository-layout(5): they make git run programs, or read its settings elsewhere.
_SETTINGS: Final = ("config", "config.worktree", "commondir", "hooks")
# The settings of `git init`, `git clone` and `git commit`, in the form that git writes. Each key
# is harmless in each of the sections. A path is no value, as a repository with hooks can be there.
_HARMLESS: Final = lazy_pattern(
    r'(?:\[(?:core|user|extensions|(?:branch|remote) "[\w./-]+")\]\n|\t(?:bare|email|fetch|filemode'
    r"|logallrefupdates|merge|name|object[fF]ormat|remote|repositoryformatversion|url) = "
    r"(?:(?:https://|ssh://|git@)[\w./:@~+-]+|\+?refs/[\w./:*+-]+|[\w .@+-]+)\n)*"
)
# An address of a remote, by its key or its form: `branch.NAME.remote` can be a URL.
_ADDRESS: Final = lazy_pattern(r"\turl =|://|git@")
_PARTS: Final = ("objects", "commondir")
_NEW: Final = "new repository:"
_UNSAFE: Final = "not checked for git settings that run programs:"
# Mode (0 for a file that cannot be read), content or target, and the path that a pointer leads to.
_Setting: TypeAlias = tuple[int, bytes, str]


class Survey:
    """The git settings of directories. A survey makes those inert that were made since `before`.

    Blocks. Raises InvalidInput if there is no survey before, and the directories are too large.
    """

    def __init__(self, roots: Iterable[Path], before: Survey | None = None) -> None:
        self.roots = tuple(roots)
        self._before = before
        self._notes: list[str] = []
        self._new_count = 0
        self._directories: set[str] = set()
        self._settings: dict[str, _Setting] = {}
        for root in self.roots:
            self._enter(str(root), str(root), _AT_FDCWD)
        self._before = None

    @property
    def notice(self) -> str:
        """The directories that were not checked, the settings that are inert, new repositories."""
        notes = sorted(self._notes, key=lambda note: (_NEW in note) - (_UNSAFE in note))
        more = f"; and {len(notes) - _NAMED:,} more like these" * (len(notes) > _NAMED)
        return "; ".join(notes[:_NAMED]) + more

    def _enter(self, name: str, path: str, above: int, *, is_hooks: bool = False) -> None:
        """Survey a directory, with all directories below it."""
        is_new = self._before is None or path not in self._before._directories
        self._new_count += is_new
        if path.count("/") > _DEEPEST or (is_new and self._new_count > MAX_DIRECTORIES):
            if self._before is None:
                raise InvalidInput(
                    f"too large, {_UNSAFE} {shown(path)}; in a smaller directory, or with "
                    'workspace.sandbox = "off", commands run'
                )
            path = f"{path.rpartition('/')[0]}/{_set_aside(name, above)}"
            self._notes.append(f"too large, so renamed and {_UNSAFE} {shown(path)}")
            return
        self._directories.add(path)
        try:
            opened, closed_mode = _open(name, above)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return  # it is gone, a link, or another user's
        try:
            self._visit(opened, path, is_hooks=is_hooks)
        except OSError as error:
            self._notes.append(f"{_UNSAFE} {shown(path)} ({error.strerror})")
        finally:
            if closed_mode:
                os.fchmod(opened, stat.S_IMODE(closed_mode))
            os.close(opened)

    def _visit(self, opened: int, path: str, *, is_hooks: bool) -> None:
        below: list[str] = []
        settings: list[str] = []
        with os.scandir(opened) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                if reads_as_git(entry.name) or (is_hooks and not entry.name.endswith(".sample")):
                    settings.append(entry.name)
        # gitrepository-layout(5): a bare repository can have any name.
        is_bare = _read(opened, "HEAD", path) and any(_read(opened, n, path) for n in _PARTS)
        is_git = bool(is_bare) or reads_as_git(path.rpartition("/")[2])
        if is_git and self._before and path not in self._before._directories:
            self._notes.append(f"{_NEW} {shown(path.removeprefix(f'{self.roots[0]}/'))}")
        for name in (*settings, *(_SETTINGS if is_git else ())):
            try:
                below += self._compare(opened, path, name)
            except OSError as error:
                self._notes.append(f"{_UNSAFE} {shown(f'{path}/{name}')} ({error.strerror})")
        for name in below:
            is_hooks = is_git and name.casefold() == "hooks"
            self._enter(name, f"{path}/{name}", opened, is_hooks=is_hooks)

    def _compare(self, opened: int, path: str, name: str) -> list[str]:
        """Record a setting. Renames one that a command made, and returns its new names."""
        full = f"{path}/{name}"
        before = self._before._settings.get(full) if self._before else None
        renamed: list[str] = []
        # A pointer of before that is written again can lead elsewhere, by a link on its way.
        for former in (before, None):
            if (now := _read(opened, name, path)) is None:
                break
            if self._before is None or _is_accepted(name, now, before):
                self._settings[full] = now
                break
            renamed.append(_set_aside(name, opened))
            undo = shlex.join(("mv", f"{path}/{renamed[-1]}", full)).replace(
                f"{self.roots[0]}/", ""
            )
            self._notes.append(f"git setting that can run programs, inert until `{shown(undo)}`")
            if former is not None:
                _write_back(opened, name, former)
        return renamed


def _open(name: str, above: int) -> tuple[int, int]:
    """Open a directory. Opens one that is closed to its owner, and returns its former mode."""
    with suppress(PermissionError):
        return os.open(name, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above), 0
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        mode, same = os.fstat(handle).st_mode, Path(f"/proc/self/fd/{handle}")
        same.chmod(stat.S_IMODE(mode) | stat.S_IRWXU)
        return os.open(same, os.O_DIRECTORY | os.O_CLOEXEC), mode
    finally:
        os.close(handle)


def _read(opened: int, name: str, path: str) -> _Setting | None:
    try:
        status = os.stat(name, dir_fd=opened, follow_symlinks=False)
    except FileNotFoundError:
        return None
    mode, content, leads_to = 0, f"{status.st_ino} {status.st_ctime_ns}".encode(), ""
    if stat.S_ISDIR(status.st_mode):
        return stat.S_IFDIR, b"", ""
    if stat.S_ISLNK(status.st_mode):
        mode, content = status.st_mode, os.fsencode(os.readlink(name, dir_fd=opened))
    elif status.st_size <= _MAX_BYTES:
        with suppress(OSError), open_regular(name, within=opened) as (file, _):
            mode, content = status.st_mode, file.read(_MAX_BYTES)
    if reads_as_git(name):
        target = os.fsdecode(content.removeprefix(b"gitdir:").strip().replace(b"\0", b""))
        leads_to = os.path.realpath(Path(path, target))
    return mode, content, leads_to


def _is_accepted(name: str, now: _Setting, before: _Setting | None) -> bool:
    if now == before or (before is None and stat.S_ISDIR(now[0])):
        return True
    former = b"" if before is None else before[1]
    added = now[1].removeprefix(former).decode(errors="surrogateescape")
    # Git adds sections at the end. A new address in an old repository could receive a push.
    follows = now[1].startswith(former) and former[-1:] in b"\n"
    has_new_address = before is not None and _ADDRESS.search(added) is not None
    is_config = name in _SETTINGS[:2] and stat.S_ISREG(now[0])
    return is_config and follows and not has_new_address and _HARMLESS.fullmatch(added) is not None


def _set_aside(name: str, above: int) -> str:
    """Rename an entry of a directory to a visible name that is no setting."""
    aside = f"{name.lstrip('.')[:50]}.inert-{secrets.token_hex(4)}"
    if not os.access(".", os.W_OK, dir_fd=above, effective_ids=True):
        os.fchmod(above, stat.S_IMODE(os.fstat(above).st_mode) | stat.S_IRWXU)
    os.rename(name, aside, src_dir_fd=above, dst_dir_fd=above)
    return aside


def _write_back(opened: int, name: str, former: _Setting) -> None:
    mode, content, _ = former
    if stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(content), name, dir_fd=opened)
    elif stat.S_ISREG(mode):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=opened), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
