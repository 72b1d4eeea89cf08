"""`!COMMAND` at the prompt: the user's own shell, without the model.

It runs as the user would run it, in the current directory, with all variables and no sandbox,
but without a terminal: nothing can be typed into it. What it said is shown, and goes to
the model with the next message only if the user says so, by `!!`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
from pathlib import Path
from typing import Final

from sightline.agent.workspace.command import Finished, Output, run_command
from sightline.context.messages.attach import fenced
from sightline.errors import InvalidInput

MARK: Final = "!"
_LIMIT_S: Final = 86_400.0
_LIVE_BYTES: Final = 2_000


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
