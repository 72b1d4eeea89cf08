"""What git says of a directory, asked so that nothing in the directory can act or hold us.

The git program reads the repository through a git directory of ours (`lent`), with none
of our variables, no folder of programs, and a limit of time. A library in its place was
measured on 5,000 files: git lists and compares them in 17 ms; libgit2 compares in 29 ms and
Dulwich in 467 ms. Dulwich runs a repository's filters itself, and both wait without end for a
pipe named `.gitignore`, in our own process, where nothing can stop them.

    find_repository(directory)         the `.git` that governs a directory, checked
    with lent(repository, config)      a git directory of our own, for as long as git is asked

A repository's configuration names programs in more ways than can be listed: monitors, hooks,
filters, and for one object that is missing the transports that would fetch it (`uploadpack`,
`sshCommand`, `ext::`, `vcs`, `gitProxy`). So git never reads it. It is given a directory with
a configuration of ours and links to what is only data: the index, refs, objects, exclude
rules. What a `.gitattributes` names is then defined nowhere, a missing object is an error,
and a folder that only looks like a repository is a folder.

Everything of it that is read is a regular file of bounded size, or refused: a pipe laid out as
bait cannot hold us.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from sightline._lazy import lazy_pattern
from sightline.agent.workspace.command import kill_group
from sightline.agent.workspace.inside import Parts
from sightline.errors import InvalidInput
from sightline.slop.transports.owned import open_regular

TIMEOUT_S: Final = 10.0
_TICK_S: Final = 0.05
_GRACE_S: Final = 1.0  # from the end of its answer to its own
_MAX_BYTES: Final = 32 * 1024 * 1024
_CHUNK: Final = 256 * 1024
_MAX_MEMORY: Final = 4 * 1024**3
# A second fence: if git were to start something after all, it would find no program of its own,
# no transport that is allowed, and nobody to ask.
_FENCE: Final = {
    "LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "none", "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0",
}  # fmt: skip
# What a git that does not lie in the system's own directories may need to start.
_LOADER: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DEVELOPER_DIR", "TMPDIR")
_NO_USER: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
# Where the user's own settings are.
_USER: Final = (
    "HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
)  # fmt: skip
_TRUE: Final = frozenset({"", "true", "yes", "on", "1"})
_WORDS: Final = {
    "M": "modified", "T": "type changed", "A": "added", "D": "deleted", "R": "renamed",
    "C": "copied", "U": "conflict", "?": "untracked",
}  # fmt: skip


class Change(msgspec.Struct, frozen=True):
    """One changed file: what happened to it, and whether that is staged."""

    path: str
    status: str
    staged: bool = False
    was: str = ""


class GitStatus(msgspec.Struct, frozen=True):
    """Where a repository stands. `problem` says why nothing else is known."""

    branch: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    changes: tuple[Change, ...] = ()
    problem: str = ""


class GitView(msgspec.Struct, frozen=True):
    """What git says of a directory: its files, and where it stands; None is not to be known."""

    files: tuple[Parts, ...] | None = None
    status: GitStatus | None = None


class Git:
    """What git says of one directory, if a repository governs it."""

    def __init__(self, root: Path, *, timeout_s: float = TIMEOUT_S) -> None:
        self._root = root.resolve()
        self._program = _program(self._root)
        self._timeout_s = timeout_s
        self._deadline = 0.0
        self._stopped = threading.Event()
        self._read: tuple[bytes, list[Setting]] = (b"", [])

    def stop(self) -> None:
        """End what is being asked, and ask nothing any more. From any thread."""
        self._stopped.set()

    def look(self) -> GitView:
        """List what is tracked, or neither tracked nor ignored, and what has changed. Blocks.

        Without a repository there is nothing to say.
        """
        self._deadline = time.monotonic() + self._timeout_s
        try:
            repository = None if self._program is None else find_repository(self._root)
            if repository is None:
                return GitView()
            settings = [*self._users_settings, *self._settings(repository)]
            if repository.git_dir == repository.common and _is_bare(settings):
                return GitView()  # its files are elsewhere
            with lent(repository, settings) as variables:
                return self._view(repository, {**variables, **_NO_USER})
        except InvalidInput as error:
            return GitView(status=GitStatus(problem=str(error)))
        except OSError as error:  # it goes away while we look
            return GitView(status=GitStatus(problem=f"git cannot be asked: {error.strerror}"))

    def _view(self, repository: Repository, variables: Mapping[str, str]) -> GitView:
        listed = self._ask(
            variables, "ls-files", "-z", "--cached", "--others", "--exclude-standard"
        )
        status = self._ask(
            variables, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all",
            "--ignore-submodules=all", "--", ".",
        )  # fmt: skip
        if listed is None or status is None:
            return GitView(status=GitStatus(problem="git does not answer"))
        # A file in conflict is listed once for each side.
        names = dict.fromkeys(os.fsdecode(name) for name in listed.split(b"\0") if name)
        files = tuple(tuple(name.rstrip("/").split("/")) for name in sorted(names))
        within = self._root.relative_to(repository.top)
        return GitView(files, parse_status(status, f"{within}/" if within.parts else ""))

    def _settings(self, repository: Repository) -> list[Setting]:
        """Read what a repository's configuration says of reading it, by git's own rules."""
        texts = [read_regular(repository.common / "config") or b""]
        if b"worktreeconfig" in texts[0].lower():
            texts.append(read_regular(repository.git_dir / "config.worktree") or b"")
        text = b"\n".join(texts)
        if text != self._read[0]:
            with tempfile.NamedTemporaryFile(prefix="sightline-git-") as copy:
                copy.write(text)
                copy.flush()
                # Of a file that is named, git follows no includes.
                found = self._configured(_NO_USER, "--file", copy.name)
            if found is None:
                raise InvalidInput("its configuration cannot be read")
            self._read = (text, safe_settings(found))
        return self._read[1]

    @cached_property
    def _users_settings(self) -> list[Setting]:
        """Read what the user has set for all repositories, with the file of what is ignored."""
        kept = {name: os.environ[name] for name in _USER if name in os.environ}
        found = self._configured(kept) or []
        home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        ignored = dict(found).get("core.excludesfile") or f"{home}/git/ignore"
        try:
            path = str(Path(ignored).expanduser())
        except RuntimeError:  # of a user that there is not
            return safe_settings(found)
        return [*safe_settings(found), ("core.excludesfile", path)]

    def _configured(self, variables: Mapping[str, str], *of: str) -> list[Setting] | None:
        """List settings; of everything outside of a repository, or of what is named."""
        nowhere = {"GIT_DIR": os.devnull, **variables}
        listed = self._ask(nowhere, "config", *of, "--list", "-z")
        if listed is None:
            return None
        pairs = (os.fsdecode(entry).partition("\n") for entry in listed.split(b"\0") if entry)
        return [(name, value) for name, _, value in pairs]

    def _ask(self, variables: Mapping[str, str], *arguments: str) -> bytes | None:
        """Ask git for its answer; None if it has none in time."""
        if self._program is None or self._stopped.is_set():
            return None
        empty = variables["GIT_DIR"]  # nothing in it is a program, or settings of a user
        folders = {"HOME": empty, "XDG_CONFIG_HOME": empty, "PATH": empty, "GIT_EXEC_PATH": empty}
        loader = {name: _absolute(os.environ[name]) for name in _LOADER if name in os.environ}
        try:
            process = subprocess.Popen(
                [self._program, "--no-pager", *arguments],
                cwd=self._root, env={**loader, **folders, **_FENCE, **variables},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except OSError:  # the directory or the program is gone
            return None
        with process:
            _limit_memory(process.pid)
            data = self._answer(process)
            if data is None:
                kill_group(process)
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                kill_group(process)
        return data if process.returncode == 0 else None

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """Read what git writes to its end; None if that is too much or takes too long."""
        assert process.stdout is not None  # noqa: S101 - it was asked for above
        stream = process.stdout.fileno()
        data = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while len(data) <= _MAX_BYTES:
                if selector.select(_TICK_S):
                    chunk = os.read(stream, _CHUNK)
                    if not chunk:
                        return bytes(data)
                    data += chunk
                if self._stopped.is_set() or time.monotonic() > self._deadline:
                    return None
        return None


def _program(root: Path) -> str | None:
    """Find git: no script, which would need our variables, and none that the directory brought."""
    for folder in os.get_exec_path():
        found = shutil.which("git", path=folder) if Path(folder).is_absolute() else None
        if found is not None:
            program = Path(found).resolve()
            if program.is_relative_to(root) or not program.is_file():
                continue
            with contextlib.suppress(OSError), program.open("rb") as file:
                if file.read(2) != b"#!":
                    return str(program)
    return None


def _absolute(folders: str) -> str:
    """Leave the current directory out of a list of directories: an empty one means it."""
    # ld.so(8): directories are separated by colons or semicolons.
    return ":".join(folder for folder in re.split("[:;]", folders) if folder.startswith("/"))


def _limit_memory(pid: int) -> None:
    """Have git fail on a file that is too large to be one, rather than read it into memory."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # it is over already
            resource.prlimit(pid, resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))


def _is_bare(settings: list[Setting]) -> bool:
    return dict(settings).get("core.bare", "false").lower() in _TRUE


def parse_status(output: bytes, prefix: str = "") -> GitStatus:
    """Read `status --porcelain=v2 --branch -z`; paths are made relative to `prefix`."""
    branch = upstream = ""
    ahead = behind = 0
    changes: list[Change] = []
    fields = iter(os.fsdecode(field) for field in output.split(b"\0") if field)
    for line in fields:
        kind, _, rest = line.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.head":
                branch = value
            elif name == "branch.upstream":
                upstream = value
            elif name == "branch.ab":
                plus, minus = value.split(" ")
                ahead, behind = int(plus[1:]), int(minus[1:])
        elif kind == "?":
            changes.append(Change(rest.removeprefix(prefix), _WORDS["?"]))
        elif kind in _PATH_AT:
            changes.append(_change(kind, rest, prefix, fields))
    return GitStatus(branch, upstream, ahead, behind, tuple(changes))


# git-status(1), porcelain format version 2: fields before the path, by the kind of an entry.
_PATH_AT: Final = {"1": 7, "2": 8, "u": 9}


def _change(kind: str, rest: str, prefix: str, fields: Iterator[str]) -> Change:
    parts = rest.split(" ", _PATH_AT[kind])
    path = parts[-1].removeprefix(prefix)
    if kind == "u":
        return Change(path, _WORDS["U"])
    index, tree = parts[0][0], parts[0][1]
    was = next(fields).removeprefix(prefix) if kind == "2" else ""
    letter = index if index != "." else tree
    return Change(path, _WORDS.get(letter, "changed"), index != ".", was)


# The repository on disk, and the git directory for reading it that it did not write.

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


@contextlib.contextmanager
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
