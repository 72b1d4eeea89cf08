"""No command line of ours has a secret in it: every user of the machine can read arguments.

The gateway's address is in tests/cli/test_codex.py and, with Codex itself, in tests/clients.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import sightline
from sightline.errors import Unreachable
from sightline.inspector.pages import exported_beside
from sightline.slop.hub.mcp import McpTarget, dial_mcp
from support import postgres
from support.arguments import command_lines
from support.rooms import nodes_of

ROOT = Path(__file__).parent.parent
SOURCE = Path(sightline.__file__).parent
SECRET = "canary4711canary4711"
# Each place that starts a program, with its arguments. A new one is added after a look at them.
STARTS = Counter({
    "adapters/mcp/client_wire.py": 1,  # the command that a user or a file of MCP servers names
    "agent/workspace/command.py": 1,  # a command of a model, in a sandbox
    "agent/workspace/git.py": 1,  # questions to git
    "agent/workspace/reaper.py": 2,  # that command again: fork and exec
    "agent/workspace/sandbox.py": 1,  # whether bubblewrap starts
    "cli/chat/outside.py": 2,  # an editor or pager with a file, a reader of the clipboard
    "cli/gateway.py": 1,  # the user's program
    "cli/pdf.py": 1,  # the reader of a PDF
    "context/ledger/sqlite/process.py": 1,  # the path of a ledger
    "inspector/pages.py": 1,  # the number of a session
    "slop/transports/stdio.py": 1,  # the command of an address, or the client of an MCP server
})  # fmt: skip
STARTERS = re.compile(r"Popen|run|call|check_\w+|create_subprocess_\w+|system|popen|exec[lv]\w*"
                      r"|spawn[lv]\w*|posix_spawnp?|fork(?:pty)?")  # fmt: skip


def starts(source: str) -> int:
    """Count the calls that start a program."""
    found = 0
    for node in nodes_of(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            named = owner in ("subprocess", "os", "asyncio", "pty")
            found += named and STARTERS.fullmatch(node.func.attr) is not None
            found -= ast.unparse(node.func) == "asyncio.run"
    return found


def test_each_place_that_starts_a_program_is_listed() -> None:
    found = {
        str(path.relative_to(SOURCE)): starts(path.read_text("utf-8"))
        for path in SOURCE.rglob("*.py")
    }
    assert Counter({name: count for name, count in found.items() if count}) == STARTS


def test_a_new_place_that_starts_a_program_is_found() -> None:
    assert starts("import os\nos.execv('a', ['a'])\nasyncio.create_subprocess_exec('b')") == 2
    assert starts("import asyncio\nasyncio.run(main())") == 0


def test_a_secret_in_an_argument_is_seen() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()", SECRET],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as control:  # fmt: skip
        assert control.stdout is not None
        control.stdout.readline()  # its arguments can be read when it has begun
        assert any(SECRET in line for line in command_lines())
        control.communicate(b"\n")


@pytest.fixture
def port() -> Iterator[socket.socket]:
    """A port of loopback that accepts a connection, and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


async def lines_once_connected(port: socket.socket) -> list[str]:
    """Return the command lines while a process is connected, which thus has begun."""
    connection, _ = await asyncio.get_running_loop().sock_accept(port)
    with connection:
        return command_lines()


CONNECTS = "import socket, sys; socket.create_connection(('127.0.0.1', {})); sys.stdin.read()"


@pytest.mark.parametrize("is_remote", [True, False])
async def test_the_client_of_an_mcp_server_has_no_secret_in_its_arguments(
    port: socket.socket, is_remote: bool
) -> None:
    number = port.getsockname()[1]
    command = (sys.executable, "-c", CONNECTS.format(number))
    target = McpTarget("a", command, {"KEY": SECRET})
    if is_remote:
        url = f"http://127.0.0.1:{number}/mcp"
        target = McpTarget("b", url=url, headers={"Authorization": SECRET})
    link = await dial_mcp(target)()
    try:
        lines = await lines_once_connected(port)
    finally:
        await link.close()
    assert any("sightline.adapters.mcp.client" in line for line in lines)
    assert [line for line in lines if SECRET in line] == []


async def test_an_export_has_no_password_of_its_ledger_in_its_arguments(
    port: socket.socket,
) -> None:
    url = f"postgresql://ana:{SECRET}@127.0.0.1:{port.getsockname()[1]}/db"
    page = exported_beside(url, 1)
    reading = asyncio.ensure_future(anext(page))
    lines = await lines_once_connected(port)
    reading.cancel()
    with suppress(asyncio.CancelledError, Unreachable):
        await reading
    assert any(" --export 1 " in line for line in lines)
    assert [line for line in lines if SECRET in line] == []


@pytest.mark.skipif(bool(postgres.lacks()) or not shutil.which("psql"), reason="no PostgreSQL")
def test_the_script_that_makes_a_role_has_no_password_in_its_arguments(tmp_path: Path) -> None:
    passwords, seen, psql = tmp_path / "pgpass", tmp_path / "seen", tmp_path / "psql"
    passwords.write_text(f"db:5432:sightline:sightline:{SECRET}\n")
    psql.write_text(
        f'#!/bin/sh\ncat /proc/$$/cmdline >> {seen}\nexec {shutil.which("psql")} "$@"\n'
    )
    psql.chmod(0o755)
    with postgres.server(password_encryption="md5") as server:
        at = {"PGHOST": str(server.directory / "sock"), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

        def ask(*words: str) -> str:
            done = subprocess.run(
                words, env={**os.environ, **at}, capture_output=True, check=True, timeout=60
            )
            return done.stdout.decode().strip()

        ask("psql", "-U", "postgres", "-c", "DROP DATABASE ledgers", "-c", "DROP ROLE sightline")
        seen.unlink()
        ask("sh", str(ROOT / "deploy" / "role.sh"), str(passwords))
        assert b"--username" in seen.read_bytes()
        assert SECRET.encode() not in seen.read_bytes()
        digest = hashlib.md5(f"{SECRET}sightline".encode()).hexdigest()  # noqa: S324 - PostgreSQL's
        query = "SELECT rolpassword FROM pg_authid WHERE rolname = 'sightline'"
        assert ask("psql", "-U", "postgres", "-Atc", query) == f"md5{digest}"
        assert ask("psql", "-U", "postgres", "-Atc", "SELECT 1", "sightline") == "1"


PAGES = [
    ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.*"),
    *(ROOT / "deploy").glob("*.*"), *(ROOT / "plugins").rglob("*.md"), *SOURCE.rglob("*.py"),
]  # fmt: skip
# A token, a header or a password as an argument of a command; an ellipsis or a name is none.
IN_ARGUMENTS = re.compile(
    r"(?<![`\w])(?:--(?:mcp-|port-)?token[ =](?!is for|[\"`'A-Z…])\S"
    r"|-H .*(?:Bearer|api-key:) *(?!…)\S|sightline .*://\w+:(?!PASSWORD)\w+@)"
)


def test_no_page_shows_a_secret_as_an_argument() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in PAGES
        for line in path.read_text("utf-8").splitlines()
        if IN_ARGUMENTS.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "$ sightline query ws://127.0.0.1:1/slop --token ana-secret",
        "sightline relay desk --port-token=abc", 'curl x -H "Authorization: Bearer $KEY"',
        "sightline query nats://ana:abc@host/todos",
    ],
)  # fmt: skip
def test_a_secret_as_an_argument_of_a_page_is_found(line: str) -> None:
    assert IN_ARGUMENTS.search(line)
