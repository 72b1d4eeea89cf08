"""Other programs: the user's editor, pager, clipboard and shell.

`$VISUAL` or `$EDITOR` may have arguments; they are split as a shell would, and no shell is
involved. What is handed over lies in a file that only this user can read, for as long as
the program runs.

`!COMMAND` at the prompt is for the user's own shell, without the model. It runs as the user would
run it, in the current directory, with all variables and no sandbox, but without a terminal:
nothing can be typed into it. What it said is shown, and goes to the model with the next message
only if the user says so, by `!!`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sightline.agent.workspace.command import Finished, Output, run_command
from sightline.cli.attach import MAX_IMAGE
from sightline.context.messages.attach import fenced, image_head
from sightline.errors import InvalidInput

_TIME_S: Final = 5
# By the variable that says whose desktop it is.
_READERS: Final = {
    "WAYLAND_DISPLAY": ("wl-paste", "--no-newline", "--type", "image/png"),
    "DISPLAY": ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
}
MARK: Final = "!"
_LIMIT_S: Final = 86_400.0
_LIVE_BYTES: Final = 2_000


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


def pasted_image(text: str) -> tuple[str, bytes] | None:
    """Read the image whose path is all that was pasted; None if that is not what it is.

    A terminal pastes the path of a file that is dropped on it: bare, quoted, with escaped
    blanks, or as an address.
    """
    word = text.strip()
    if not word or "\n" in word or len(word) > 4096:
        return None
    if word[0] in "'\"" and word[-1] == word[0]:
        word = word[1:-1]
    elif word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    else:
        word = word.replace("\\ ", " ")
    path = Path(word)
    try:
        if not path.is_absolute() or not stat.S_ISREG(path.stat().st_mode):
            return None
        with path.open("rb") as file:
            data = file.read(MAX_IMAGE + 1)
    except (OSError, ValueError):
        return None
    return (str(path), data) if image_head(data) is not None and '"' not in word else None


def clipboard_image(env: Mapping[str, str] = os.environ) -> bytes:
    """Read the image on the clipboard. Blocks; raises InvalidInput if there is none to be had."""
    readers = [words for name, words in _READERS.items() if env.get(name)]
    found = [words for words in readers if shutil.which(words[0], path=env.get("PATH"))]
    if not found:
        needed = " or ".join(words[0] for words in readers or _READERS.values())
        raise InvalidInput(f"to paste an image needs {needed}; @FILE attaches one, too")
    for words in found:
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIME_S,
                env=dict(env), check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if image_head(done.stdout) is not None:
            return done.stdout
    raise InvalidInput("there is no image on the clipboard")


def is_shell_line(line: str) -> bool:
    """Tell whether a line is for the user's shell."""
    return line.startswith(MARK)


class UserShell:
    """Runs one command at a time, and keeps what is to be shown to the model."""

    def __init__(self) -> None:
        self._output: Output | None = None
        self._latest = ""
        self._for_model: list[str] = []

    @property
    def is_running(self) -> bool:
        return self._output is not None

    @property
    def live(self) -> str:
        """The end of what the command that runs has said so far."""
        return "" if self._output is None else self._output.end(_LIVE_BYTES)

    async def run(self, line: str) -> tuple[str, str]:
        """Do what a line says; give the output, and a line that says what became of it.

        `!COMMAND` runs it, `!!COMMAND` shows it to the model too, `!!` the latest one. Who is
        cancelled stops the command. Raises InvalidInput, also where it cannot be started.
        """
        is_shown = line.startswith(MARK * 2)
        command = line[2:].strip() if is_shown else line[1:].strip()
        text, ending = "", ""
        if command:
            finished = await self._run(command)
            text, ending = finished.output, _how(finished)
            block = fenced(f"$ {command}\n{text.rstrip()}\n[{ending}]")
            self._latest = f"What I ran in my shell, and what it said:\n\n{block}"
        elif not is_shown or not self._latest:
            raise InvalidInput("!COMMAND runs a command, !! shows the model what the last one said")
        if is_shown:
            self._for_model.append(self._latest)
            ending = f"{ending}; the model gets it with your next message".removeprefix("; ")
        return text, ending

    def take(self) -> tuple[str, ...]:
        """Hand over what goes with the next message."""
        texts, self._for_model = tuple(self._for_model), []
        return texts

    async def _run(self, command: str) -> Finished:
        stop, self._output = threading.Event(), Output()
        shell = os.environ.get("SHELL") or "/bin/sh"
        try:
            return await asyncio.to_thread(
                run_command, f"exec {shlex.quote(shell)} -c {shlex.quote(command)}", Path.cwd(),
                timeout_s=_LIMIT_S, stop=stop, env=os.environ, output=self._output,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise InvalidInput(f"it could not be started: {error}") from error
        finally:
            stop.set()
            self._output = None


def _how(finished: Finished) -> str:
    ended = "exit code" if finished.ended == "exited" else f"{finished.ended},"
    return f"{ended} {finished.exit_code} after {finished.seconds:.1f} s"
