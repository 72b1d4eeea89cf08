"""What a directory and its user tell an agent in Markdown: instructions, commands, skills.

    AGENTS.md, or CLAUDE.md        instructions, from the repository's root down to the directory
    .sightline/commands/NAME.md    a message to send, with the arguments of `/NAME` in it
    .sightline/skills/NAME/SKILL.md    how something is done, read when it is needed

`.claude` is looked into as `.sightline` is, and so is the user's own configuration, whose files
need nobody's consent. A directory may be a stranger's: links are not followed, files of other
users and long ones are left out and told, and who uses any of it has asked the user before.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from sightline.agent.workspace.inside import shown
from sightline.slop.transports.owned import open_regular

INSTRUCTIONS: Final = ("AGENTS.md", "CLAUDE.md")
FOLDERS: Final = (".sightline", ".claude")
MAX_BYTES: Final = 64 * 1024
MAX_FILES: Final = 100
_ROOT: Final = 0
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FRONT: Final = re.compile(r"\A---\r?\n(.*?)^---[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_ARGUMENT: Final = re.compile(r"\$(ARGUMENTS|[1-9])")


class MarkdownFile(msgspec.Struct, frozen=True):
    """A file that was read: `path` from its root, `name` from its path, `about` by its own word.

    `whole` is the content with its front matter.
    """

    path: str
    text: str
    name: str = ""
    about: str = ""
    whole: str = ""


class Guidance(msgspec.Struct, frozen=True):
    """All that was found below one root, and what was left out and why."""

    root: Path
    instructions: tuple[MarkdownFile, ...] = ()
    commands: tuple[MarkdownFile, ...] = ()
    skills: tuple[MarkdownFile, ...] = ()
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.instructions or self.commands or self.skills)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of it, from the root."""
        return tuple(one.path for one in self.files)

    @property
    def files(self) -> tuple[MarkdownFile, ...]:
        """Instructions, commands and skills."""
        return (*self.instructions, *self.commands, *self.skills)


def find_guidance(directory: Path, *, of_user: bool = False) -> Guidance:
    """Read what there is for a directory; `of_user`: in the user's configuration directory."""
    root = directory if of_user else _repository(directory)
    reader = _Reader(root, follow=of_user)
    steps = (directory, *directory.parents)
    above = [step for step in reversed(steps) if step == root or root in step.parents]
    instructions = [found for step in above if (found := reader.first(step, INSTRUCTIONS))]
    folders = [root] if of_user else [root / name for name in FOLDERS]
    commands = [found for folder in folders for found in reader.commands(folder / "commands")]
    skills = [found for folder in folders for found in reader.skills(folder / "skills")]
    problems = tuple(reader.problems)
    return Guidance(root, tuple(instructions), _distinct(commands), _distinct(skills), problems)


def instructions_text(*found: Guidance) -> str:
    """Write instructions as a model gets them: the nearest to its work last."""
    files = [one for guidance in found for one in guidance.instructions]
    if not files:
        return ""
    parts = [f"From {one.path}:\n\n{one.text.strip()}" for one in files]
    head = "## Instructions for this directory, which the user agreed to"
    return "\n\n".join((head, *parts))


def with_arguments(text: str, arguments: str) -> str:
    """Put arguments into a command: `$ARGUMENTS`, `$1` to `$9`; behind it where it has none."""
    words = arguments.split()

    def given(match: re.Match[str]) -> str:
        if match[1] == "ARGUMENTS":
            return arguments
        return words[int(match[1]) - 1] if int(match[1]) <= len(words) else ""

    filled, count = _ARGUMENT.subn(given, text)
    return filled if count or not arguments else f"{text.rstrip()}\n\n{arguments}"


def _repository(directory: Path) -> Path:
    """Find the directory with the repository's `.git`; the directory itself if there is none."""
    for step in (directory, *directory.parents):
        if os.path.lexists(step / ".git"):
            return step
    return directory


def _distinct(files: Iterable[MarkdownFile]) -> tuple[MarkdownFile, ...]:
    """Keep the first of each name."""
    found: dict[str, MarkdownFile] = {}
    for one in files:
        found.setdefault(one.name, one)
    return tuple(found.values())


class _Reader:
    """Reads small Markdown files, and notes which it would not."""

    def __init__(self, root: Path, *, follow: bool) -> None:
        self._root = root
        self._follow = follow
        self.problems: list[str] = []

    def first(self, directory: Path, names: Iterable[str]) -> MarkdownFile | None:
        """Read the first of some files that is there."""
        return next((found for name in names if (found := self._read(directory / name))), None)

    def commands(self, folder: Path) -> Iterator[MarkdownFile]:
        """Read the commands of a folder: `NAME.md`."""
        for name in self._names(folder):
            stem, dot, _ = name.rpartition(".md")
            if dot and _NAME.fullmatch(stem) and (found := self._read(folder / name, stem)):
                yield found

    def skills(self, folder: Path) -> Iterator[MarkdownFile]:
        """Read the skills of a folder: `NAME/SKILL.md`."""
        for name in self._names(folder):
            if _NAME.fullmatch(name) and (found := self._read(folder / name / "SKILL.md", name)):
                yield found

    def _names(self, folder: Path) -> list[str]:
        if folder.is_symlink() or (folder.parent.is_symlink() and not self._follow):
            return []
        try:
            return sorted(path.name for path in folder.iterdir())[:MAX_FILES]
        except OSError:
            return []

    def _read(self, path: Path, name: str = "") -> MarkdownFile | None:
        where = shown(str(path.relative_to(self._root)))
        try:
            with open_regular(path, follow=self._follow) as (file, status):
                if status.st_uid not in (os.geteuid(), _ROOT):
                    self.problems.append(f"{where} belongs to another user, and is left out")
                    return None
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                link = error.errno == errno.ELOOP
                why = "is a symbolic link" if link else f"cannot be read ({error.strerror})"
                self.problems.append(f"{where} {why}, and is left out")
            return None
        if len(data) > MAX_BYTES:
            self.problems.append(f"{where} is longer than {MAX_BYTES // 1024} KiB, and is left out")
            return None
        text = data.decode(errors="replace")
        front = _FRONT.match(text)
        if not name or front is None:
            return MarkdownFile(where, text, name, whole=text) if text.strip() else None
        about = _field(front[1], "description")
        return MarkdownFile(where, text[front.end() :], name, about, text)


def _field(front: str, name: str) -> str:
    """Read one plain value of a front matter."""
    found = re.search(rf"^{name}:[ \t]*(.+)$", front, re.MULTILINE)
    return "" if found is None else " ".join(found[1].split()).strip("'\"")[:300]
