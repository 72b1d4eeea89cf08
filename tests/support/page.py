"""Run a page of documentation from top to bottom, as a reader would.

| block | what is done with it |
| --- | --- |
| `python` | runs, in one namespace and one event loop, with `await` at the top |
| `python file=NAME` | is written to a file of that name |
| `text` | is what the Python since the last such block printed |
| `console` | each `$ command` runs in a shell, and prints what is shown below it |
| `console background` | a command that serves; the next block waits until it has announced itself |

A server that is given a `--port N` is waited for until it listens. It gets a free
port instead of N, and so does every later command that says `127.0.0.1:N`.
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
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.loopback import reserved_port
from support.shell import PROGRAM

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
PORT = re.compile(r"(?<=--port )\d+")
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


def listens(port: int) -> bool:
    """Whether somebody does, at a port of loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))  # from 127.0.0.1 it could come to be connected with itself
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Page:
    """One page, in a directory of its own."""

    path: Path
    directory: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)

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
        with contextlib.ExitStack() as self._reserved:
            return await self._run()

    async def _run(self) -> int:
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
        port = 0
        if shown := PORT.search(command):
            port = self.ports[shown[0]] = self._reserved.enter_context(reserved_port())
            command = PORT.sub(str(port), command)
        self.started.append(
            subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.directory, env=self.environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE_S):
            while not (listens(port) if port else self._announced() != known):
                assert self.started[-1].poll() is None, f"{command} has ended"
                await asyncio.sleep(0.02)  # it is another program: there is nothing to await

    def _announced(self) -> set[str]:
        return {path.name for path in self.providers.glob("*.json")}

    def _commands(self, body: str) -> None:
        for entry in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, output = entry.partition("\n")
            for shown, port in self.ports.items():
                command = command.replace(f"127.0.0.1:{shown}/", f"127.0.0.1:{port}/")
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.directory, env=self.environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
            )  # fmt: skip
            assert done.stdout == output, f"{self.path.name}: {command}\n{done.stdout}"
