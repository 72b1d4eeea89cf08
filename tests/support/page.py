"""Run a page of documentation from top to bottom, as a reader would.

| block | what is done with it |
| --- | --- |
| `python` | runs, in one namespace and one event loop, with `await` at the top |
| `python file=NAME` | is written to a file of that name |
| `text` | is what the Python since the last such block printed |
| `console` | each `$ command` runs in a shell, and prints what is shown below it |
| `console background` | a command that serves; the next block waits until it has announced itself |
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.shell import PROGRAM

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
PATIENCE_S = 30.0


async def run_code(source: str, where: str, names: dict[str, Any]) -> str:
    """Run code that may await at the top; returns what it prints."""
    code = compile(source, where, "exec", flags=TOP_LEVEL_AWAIT, dont_inherit=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        made = eval(code, names)  # noqa: S307 - our own document
        if inspect.isawaitable(made):
            await made
    return out.getvalue()


@dataclass
class Page:
    """One page, in a directory of its own."""

    path: Path
    directory: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blocks = BLOCK.findall(self.path.read_text("utf-8"))
        self.providers = self.directory / "providers"
        self.environment = {
            **os.environ,
            "PATH": f"{Path(PROGRAM).parent}{os.pathsep}{os.environ['PATH']}",
            "SLOP_PROVIDERS": str(self.providers),
            "NO_COLOR": "1",
        }

    async def run(self) -> int:
        """Run everything; returns how many blocks there were. Raises AssertionError."""
        names: dict[str, Any] = {"__name__": "tutorial"}
        printed = ""
        try:
            for language, option, body in self.blocks:
                if language == "python" and option.startswith("file="):
                    (self.directory / option.removeprefix("file=")).write_text(body, "utf-8")
                elif language == "python":
                    printed += await run_code(body, self.path.name, names)
                elif language == "text":
                    assert printed == body, f"{self.path.name} prints {printed!r}"
                    printed = ""
                elif option == "background":
                    await self._start(body.removeprefix("$ ").strip())
                else:
                    assert language == "console", f"{self.path.name}: a block of {language}"
                    await asyncio.to_thread(self._commands, body)
        finally:
            for process in self.started:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE_S)
        assert printed == "", f"{self.path.name} prints {printed!r}, which it does not show"
        return len(self.blocks)

    async def _start(self, command: str) -> None:
        known = self._announced()
        self.started.append(
            subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.directory, env=self.environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE_S):
            while self._announced() == known:
                assert self.started[-1].poll() is None, f"{command} has ended"
                await asyncio.sleep(0.02)  # it is another program: there is nothing to await

    def _announced(self) -> set[str]:
        return {path.name for path in self.providers.glob("*.json")}

    def _commands(self, body: str) -> None:
        for entry in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, output = entry.partition("\n")
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.directory, env=self.environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
            )  # fmt: skip
            assert done.stdout == output, f"{self.path.name}: {command}\n{done.stdout}"
