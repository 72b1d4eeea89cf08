"""A PostgreSQL server of the tests' own, in a directory and on a Unix socket of its own.

It is up in under a second and goes with whoever started it. PostgreSQL refuses to run as root, so
root runs it as the user that its package made.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from sightline.context.ledger.postgres.steps import NUMBERED

_START_S = 60.0
_QUICK = {
    "listen_addresses": "",
    "fsync": "off",  # what these servers lose is processes, never the power
    "shared_buffers": "32MB",
    "max_connections": "60",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}
_RESTART = "SELECT " + ", ".join(f"setval('sightline.{t}_ids', 1, false)" for t in NUMBERED)


def lacks() -> str:
    """Say why there can be no server here; empty if there can."""
    if _programs() is None:
        return "PostgreSQL is not installed"
    if os.getuid() == 0 and not (_owner() and shutil.which("setpriv")):
        return "root needs the user postgres and setpriv to run PostgreSQL"
    return ""


class Server:
    """A cluster with the role `sightline`, which is no superuser, and a database that it owns."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self._settings = _QUICK | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers: psycopg.Connection[Any] | None = None
        directory.chmod(0o711)
        for name in ("data", "sock"):
            (directory / name).mkdir(mode=0o700)
            if os.getuid() == 0:
                shutil.chown(directory / name, *(("postgres", "postgres")))
        (directory / "sock").chmod(0o755)
        _run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8",
             "--locale=C.UTF-8", "--no-sync", "--no-instructions")  # fmt: skip
        self.start()
        with psycopg.connect(self.dsn("postgres", "postgres"), autocommit=True) as connection:
            connection.execute("CREATE ROLE sightline LOGIN")
            connection.execute("CREATE DATABASE ledgers OWNER sightline")

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def dsn(self, user: str, database: str) -> str:
        """The address of a database, for a role."""
        return f"postgresql://{user}@/{database}?host={self.directory / 'sock'}"

    def url(self, tenant: str) -> str:
        """The address of a tenant's ledger."""
        return f"{self.dsn('sightline', 'ledgers')}&tenant={tenant}"

    def restart_numbers(self) -> None:
        """Let ids begin at 1 again, for a tenant that has no rows yet."""
        if self._numbers is None:
            self._numbers = psycopg.connect(self.dsn("sightline", "ledgers"), autocommit=True)
        with suppress(psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            self._numbers.execute(_RESTART)

    def start(self) -> None:
        """Run the server, and return when it answers."""
        options = [
            part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")
        ]
        options += ["-c", f"unix_socket_directories={self.directory / 'sock'}"]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_as_owner(), _program("postgres"), "-D", str(self._data), *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.dsn("postgres", "postgres")).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.01)
            else:
                return

    def kill(self) -> None:
        """Kill the server and every process of it at once, as a crash of the machine would."""
        assert self._process is not None
        if self._numbers is not None:
            self._numbers.close()
            self._numbers = None
        self._process.send_signal(signal.SIGSTOP)  # it starts no other, for whoever comes just now
        pids = [self._process.pid, *_children(self._process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # one that just ended by itself
                os.kill(pid, signal.SIGKILL)
        # A server that nobody waited for counts as running, and another would not start.
        self._process.wait()
        deadline = time.monotonic() + _START_S
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.005)

    def processor_time(self) -> float:
        """Tell how long the processor worked for the server and all its processes so far."""
        assert self._process is not None
        pid = self._process.pid
        ticks = sum(_ticks(pid)) + sum(sum(_ticks(child)[:2]) for child in _children(pid))
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the server, whatever is under way."""
        if self._numbers is not None:
            self._numbers.close()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()


@contextmanager
def server(**settings: str) -> Iterator[Server]:
    """A server for a block; nothing is left of it."""
    directory = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    made: Server | None = None
    try:
        made = Server(directory, **settings)
        yield made
    finally:
        if made is not None:
            made.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def _ticks(pid: int) -> list[int]:
    """The time of a process for itself and in the kernel, then of its ended children (proc(5))."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return [0]
    return [int(field) for field in fields[11:15]]


def _programs() -> Path | None:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4])
    )
    there = shutil.which("initdb")
    return found[-1].parent if found else Path(there).parent if there else None


def _program(name: str) -> str:
    programs = _programs()
    assert programs is not None
    return str(programs / name)


def _owner() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


def _as_owner() -> list[str]:
    if os.getuid() != 0:
        return []
    owner = _owner()
    assert owner is not None
    return ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups",
            "--pdeathsig=KILL", "--"]  # fmt: skip


def _run(name: str, *options: str) -> None:
    subprocess.run(
        [*_as_owner(), _program(name), *options], check=True, capture_output=True, cwd="/"
    )
