"""A repository on disk: where it is, and a git directory for reading it that it did not write.

    find_repository(directory)         the `.git` that governs a directory, checked
    with lent(repository, config)      a git directory of our own, for as long as git is asked

A repository's configuration names programs in more ways than can be listed: monitors, hooks,
filters, and for one object that is missing the transports that would fetch it (`uploadpack`,
`sshCommand`, `ext::`, `vcs`, `gitProxy`). So git never reads it. It is given a directory with
a configuration of ours and links to what is only data: the index, refs, objects, exclude
rules. What a `.gitattributes` names is then defined nowhere, a missing object is an error,
and a folder that only looks like a repository is a folder.

Everything here that is read is a regular file of bounded size, or refused: a pipe laid out as
bait cannot hold us.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from sightline._lazy import lazy_pattern
from sightline.errors import InvalidInput
from sightline.slop.transports.owned import open_regular

# A name in lower case but for its middle, and its value.
Setting = tuple[str, str]

_MAX_CONFIG: Final = 256 * 1024
_MAX_POINTER: Final = 8 * 1024
_MAX_SHARED: Final = 16
_MAX_REFS: Final = 50_000
_GITDIR: Final = b"gitdir:"
# Settings that say how to read files, by what their values may be. Nothing here is a program,
# a path or an address.
_BOOLEAN: Final = r"|true|false|yes|no|on|off|0|1"
_SAFE: Final = [
    (lazy_pattern(name), lazy_pattern(value, re.IGNORECASE))
    for name, value in (
        (r"core\.(?:filemode|symlinks|ignorecase|precomposeunicode|trustctime)", _BOOLEAN),
        (r"core\.(?:sparsecheckout|sparsecheckoutcone|bare)|index\.sparse", _BOOLEAN),
        (r"core\.(?:autocrlf|eol|checkstat)", _BOOLEAN + r"|input|lf|crlf|native|default|minimal"),
        (r"extensions\.objectformat", r"sha1|sha256"),
        (r"extensions\.refstorage", r"files|reftable"),
        (r"extensions\.worktreeconfig", _BOOLEAN),
        # By these a branch's upstream is one of our own refs: nothing is fetched without a URL.
        (r"branch\.[^\x00-\x1f\x7f]{1,250}\.(?:remote|merge)", r"[\w./@+-]{1,250}"),
        (r"remote\.[^\x00-\x1f\x7f]{1,250}\.fetch", r"[\w./@+:*-]{1,500}"),
    )
]


class Repository(msgspec.Struct, frozen=True):
    """Where a repository is: the top of its files, its git directory, and what worktrees share."""

    top: Path
    git_dir: Path
    common: Path


def find_repository(directory: Path) -> Repository | None:
    """Find the repository that a directory is in; None if it is in none.

    Raises InvalidInput for one that is not this directory's own: made by another user, or
    lying elsewhere without naming this directory back.
    """
    device = directory.stat().st_dev
    for top in (directory, *directory.parents):
        if top.stat().st_dev != device:
            return None
        if (found := _repository_at(top)) is not None:
            _check_owner(found, directory)
            return found
    return None


def safe_settings(settings: Iterable[Setting]) -> list[Setting]:
    """Choose the settings that say how to read files, and can make nothing happen."""
    return [
        (name, value)
        for name, value in settings
        if any(known.fullmatch(name) and fits.fullmatch(value) for known, fits in _SAFE)
    ]


def read_regular(path: Path, limit: int = _MAX_CONFIG) -> bytes | None:
    """Read a regular file; None if there is none. Raises InvalidInput for anything else."""
    try:
        with open_regular(path, follow=True) as (file, status):
            if status.st_size > limit:
                raise InvalidInput(f"{path.name} has more than {limit:,} bytes")
            return file.read(limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidInput(f"{path.name}: {error.strerror}") from error


@contextmanager
def lent(repository: Repository, settings: Iterable[Setting]) -> Iterator[Mapping[str, str]]:
    """Make a git directory for asking about a repository, and yield the variables that name it."""
    chosen = [*settings]
    with tempfile.TemporaryDirectory(prefix="sightline-git-") as directory:
        lent_dir = Path(directory)
        (lent_dir / "config").write_text(_config_text(chosen), "utf-8", "surrogateescape")
        (lent_dir / "HEAD").write_bytes(_head(repository))
        (lent_dir / "info").mkdir()
        if dict(chosen).get("extensions.refstorage", "files") != "files":
            if repository.git_dir != repository.common:
                raise InvalidInput("a linked worktree whose refs are in tables is not read")
            _link(repository.common, lent_dir, "reftable")
        for name in ("refs", "packed-refs", "shallow", "info/exclude", "info/attributes"):
            _link(repository.common, lent_dir, name)
        shared = sorted(repository.git_dir.glob("sharedindex.*"))[:_MAX_SHARED]
        for name in ("index", "info/sparse-checkout", *(found.name for found in shared)):
            _link(repository.git_dir, lent_dir, name)
        yield {
            "GIT_DIR": directory,
            "GIT_WORK_TREE": str(repository.top),
            "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
        }


def _repository_at(top: Path) -> Repository | None:
    entry = top / ".git"
    try:
        status = entry.lstat()
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode):
        pointer = read_regular(entry, _MAX_POINTER) or b""
        if not pointer.startswith(_GITDIR):
            raise InvalidInput(".git is no directory, and names none")
        git_dir = _resolved(top, pointer.removeprefix(_GITDIR))
    elif stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        git_dir = entry.resolve()
    else:
        raise InvalidInput(".git is neither a file nor a directory")
    common = _common(git_dir)
    if not ((common / "objects").is_dir() and (common / "refs").is_dir()):
        return None
    if git_dir.parent != top and not _names_back(git_dir, common, top):
        raise InvalidInput(".git leads to a repository elsewhere that does not lead back")
    return Repository(top, git_dir, common)


def _common(git_dir: Path) -> Path:
    """Find what a linked worktree shares with the others. It lies in it: `worktrees/NAME`."""
    # gitrepository-layout(5): commondir.
    pointer = read_regular(git_dir / "commondir", _MAX_POINTER)
    if pointer is None:
        return git_dir
    common = _resolved(git_dir, pointer)
    if git_dir.parent != common / "worktrees":
        raise InvalidInput("commondir leads to a repository elsewhere")
    return common


def _names_back(git_dir: Path, common: Path, top: Path) -> bool:
    """Tell whether a git directory that lies elsewhere is of this top: as worktree or submodule."""
    if git_dir != common:
        back = read_regular(git_dir / "gitdir", _MAX_POINTER) or b""
        return _resolved(git_dir, back) == (top / ".git").resolve()
    # gitsubmodules(7): the work tree of an absorbed submodule is `core.worktree` of its own.
    config = read_regular(git_dir / "config") or b""
    named = re.findall(rb"(?m)^\s*worktree\s*=\s*(.+?)\s*$", config)
    return any(_resolved(git_dir, value.strip(b'"')) == top for value in named)


def _check_owner(repository: Repository, directory: Path) -> None:
    """Refuse a repository laid around the directory by somebody else (CVE-2022-24765)."""
    # Whoever owns the directory could have put one into it.
    known = {os.geteuid(), directory.stat().st_uid}
    if any(path.stat().st_uid not in known for path in (repository.top, repository.git_dir)):
        raise InvalidInput("the repository belongs to another user")


def _head(repository: Repository) -> bytes:
    """Give what HEAD says; it can be a link in very old repositories."""
    path = repository.git_dir / "HEAD"
    if path.is_symlink():
        return b"ref: " + os.fsencode(path.readlink()) + b"\n"
    head = read_regular(path, _MAX_POINTER)
    if head is None:
        raise InvalidInput("HEAD is missing")
    return head


def _link(source: Path, lent_dir: Path, name: str) -> None:
    """Link one thing of the repository's, if it is there and can be read without waiting."""
    found = source / name
    try:
        # Rules may be shared through a link; an index or a ref that is one could show what
        # another repository tracks. (Of objects only those are shown that a ref names.)
        status = found.stat() if name.startswith("info/") else found.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise InvalidInput(f"{name}: {error.strerror}") from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise InvalidInput(f"{name} is not a regular file")
    if stat.S_ISDIR(status.st_mode):
        _check_refs(found, name)
    (lent_dir / name).symlink_to(found)


def _check_refs(directory: Path, name: str) -> None:
    """Refuse refs of which one leads elsewhere, or is something to wait for."""
    left, count = [os.fspath(directory)], 0
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif count > _MAX_REFS or not entry.is_file(follow_symlinks=False):
                    raise InvalidInput(f"{name} has what is no regular file, or too much")


def _config_text(settings: Iterable[Setting]) -> str:
    lines = ["[core]\n\trepositoryformatversion = 1\n"]
    for name, value in settings:
        section, _, rest = name.partition(".")
        middle, _, key = rest.rpartition(".")
        heading = f'[{section} "{_escaped(middle)}"]' if middle else f"[{section}]"
        lines.append(f'{heading}\n\t{key} = "{_escaped(value)}"\n')
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _resolved(base: Path, pointer: bytes) -> Path:
    try:
        return Path(base, os.fsdecode(pointer.strip())).resolve()
    except (ValueError, OSError, RuntimeError) as error:  # a NUL, or a loop of links
        raise InvalidInput("a path in the repository cannot be followed") from error
