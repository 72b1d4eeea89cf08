"""Other programs: the user's editor and pager.

`$VISUAL` or `$EDITOR` may have arguments; they are split as a shell would, and no shell is
involved. What is handed over lies in a file that only this user can read, for as long as
the program runs.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from sightline.errors import InvalidInput


def editor_command(env: Mapping[str, str]) -> list[str]:
    """Find the user's editor. Raises InvalidInput where there is none."""
    chosen = _first_of(env, ("VISUAL", "EDITOR"), ("nano", "vi"))
    if chosen is None:
        raise InvalidInput("there is no editor: set EDITOR")
    return chosen


def pager_command(env: Mapping[str, str]) -> list[str] | None:
    """Find what shows long texts: the pager, else the editor; None where there is neither."""
    return _first_of(env, ("PAGER", "VISUAL", "EDITOR"), ("less", "more"))


def edit_text(text: str, env: Mapping[str, str], suffix: str = ".md") -> str | None:
    """Let the user edit a text; None if the editor failed or nothing was left."""
    with tempfile.TemporaryDirectory(prefix="sightline-") as folder:
        file = Path(folder) / f"message{suffix}"
        file.write_text(text, encoding="utf-8")
        if not _run([*editor_command(env), str(file)], env):
            return None
        edited = file.read_text(encoding="utf-8", errors="replace")
    return edited.rstrip("\n") or None


def page_text(text: str, command: Sequence[str], env: Mapping[str, str]) -> bool:
    """Show a text, which must be harmless by now, in a pager; say whether that went well."""
    with tempfile.TemporaryDirectory(prefix="sightline-") as folder:
        file = Path(folder) / "output.txt"
        file.write_text(text, encoding="utf-8")
        return _run([*command, str(file)], env)


def _run(command: Sequence[str], env: Mapping[str, str]) -> bool:
    try:
        return subprocess.run(command, env=dict(env), check=False).returncode == 0
    except OSError as error:
        raise InvalidInput(f"{command[0]}: {error.strerror}") from error


def _first_of(
    env: Mapping[str, str], names: Sequence[str], programs: Sequence[str]
) -> list[str] | None:
    for name in names:
        try:
            words = shlex.split(env.get(name, ""))
        except ValueError as error:
            raise InvalidInput(f"{name}: {error}") from error
        if words:
            return words
    found = next(
        (path for one in programs if (path := shutil.which(one, path=env.get("PATH")))), ""
    )
    return [found] if found else None
