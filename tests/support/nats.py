"""A NATS server of the tests' own, on a port of its own: up in a twentieth of a second."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_START_S = 30.0


def lacks() -> str:
    """Say why there can be no server here; empty if there can."""
    return "" if shutil.which("nats-server") else "nats-server is not installed"


class Server:
    """A broker that can be killed, stopped and started again where it was."""

    def __init__(self, directory: Path, *settings: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self._config = directory / "nats.conf"
        lines = ["host: 127.0.0.1", f"port: {self.port}", f'log_file: "{directory / "log"}"']
        self._config.write_text("\n".join([*lines, *settings]))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Run the server, and return when it answers."""
        self._process = subprocess.Popen(["nats-server", "-c", str(self._config)])
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.005)
            else:
                return

    def kill(self) -> None:
        """Kill the server, as a crash of its machine would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let it be there and do nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


@contextmanager
def server(*settings: str) -> Iterator[Server]:
    """A server for a block; nothing is left of it."""
    with tempfile.TemporaryDirectory(prefix="nats") as directory:
        started = Server(Path(directory), *settings)
        try:
            yield started
        finally:
            started.kill()
