"""SIGTERM ends each command that runs for long, and no command prints a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

import msgspec
import pytest

from agent.host.helpers import hosted, turn
from sightline.slop.hub.mcp import PROGRAM as MCP_CLIENT
from sightline.slop.hub.mcp import TARGET_VARIABLE, McpTarget
from support.live import LiveApp, announced_app
from support.person import environment
from support.shell import PROGRAM
from support.vendors.answers import Ignores
from support.vendors.server import Vendor

# Each command, a line that it reads, and the stream on which its first line shows that it runs.
COMMANDS = {
    "gateway": (["gateway"], "", "stdout"),
    "gateway -- PROGRAM": (
        ["gateway", "--", "sh", "-c", "echo started; exec sleep 300"],
        "",
        "stdout",
    ),
    "mcp": (["mcp"], '{"jsonrpc": "2.0", "id": 1, "method": "ping"}', "stdout"),
    "mcp --http": (["mcp", "--http"], "", "stderr"),
    "demo": (["demo"], "", "stdout"),
    "demo --ws": (["demo", "--ws", "0"], "", "stdout"),
    "watch": (["watch", "live"], "", "stdout"),
    "relay": (["relay", "live", "--port", "0"], "", "stdout"),
    "inspect": (["inspect", "--db", "work.db"], "", "stdout"),
    "conform --serve": (["conform", "--serve", "unix:conform.sock"], "", "stderr"),
}
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@contextmanager
def started(directory: Path, *words: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """A command that is killed if it does not end within the block."""
    pipe = subprocess.PIPE
    surroundings = environment(directory, None, SLOP_PROVIDERS=str(directory), **more)
    with subprocess.Popen(
        [PROGRAM, *words], cwd=directory, env=surroundings, text=True,
        stdin=pipe, stdout=pipe, stderr=pipe,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> str:
    """End a command by SIGTERM. Returns the rest of its stderr."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    return errors


@pytest.mark.parametrize("name", COMMANDS)
async def test_command_prints_no_traceback_at_sigterm(name: str, tmp_path: Path) -> None:
    words, line, stream = COMMANDS[name]
    async with hosted(tmp_path, ["One."]) as (host, _):
        await turn(host, "hello")
    app = LiveApp()
    with announced_app(tmp_path, app), started(tmp_path, *words) as process:
        assert process.stdin is not None
        process.stdin.write(f"{line}\n" if line else "")
        process.stdin.flush()
        source = process.stdout if stream == "stdout" else process.stderr
        assert source is not None
        assert source.readline()
        assert "Traceback" not in ended(process)


def test_bridge_prints_no_traceback_at_sigterm(tmp_path: Path) -> None:
    with started(tmp_path, "bridge", "--file", "tail") as process:
        while not (tmp_path / "tail").exists():
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
        assert "Traceback" not in ended(process)


@pytest.mark.parametrize("words", [["chat"], ["ask", "hello"]], ids=lambda words: words[0])
def test_command_prints_no_traceback_at_sigterm_when_a_vendor_is_asked(
    words: list[str], tmp_path: Path
) -> None:
    with Vendor(Ignores()) as vendor:
        given = {"SIGHTLINE_MODEL": "ollama:test", **vendor.environment()}
        with started(tmp_path, *words, **given) as process:
            assert process.stdin is not None
            process.stdin.write("hello\n")
            process.stdin.close()
            process.stdin = None
            assert vendor.arrived.wait(60)
            assert ended(process) == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_inspect_prints_no_traceback_when_a_signal_cuts_off_a_request(
    number: signal.Signals, tmp_path: Path
) -> None:
    async with hosted(tmp_path, ["One."]) as (host, _):
        await turn(host, "hello")
    with started(tmp_path, "inspect", "--db", "work.db") as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        origin, jar = address.partition("/?")[0], CookieJar()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        browser.open(address).read()
        [cookie] = jar
        query = urllib.request.Request(  # noqa: S310 - it is http
            f"{origin}{cookie.path.rstrip('/')}/api/query",
            json.dumps({"sql": ENDLESS, "session": 1}).encode(),
            {"Origin": origin, "Content-Type": "application/json"},
        )
        answers: list[int] = []

        def ask() -> None:
            try:
                answers.append(browser.open(query).status)
            except urllib.error.HTTPError as error:
                answers.append(error.code)

        asking = threading.Thread(target=ask)
        asking.start()
        while not workers_of(process.pid):  # the process that runs queries
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        asking.join()
    assert answers == [500]  # the end cut it off
    assert (process.returncode, errors.strip()) in ((0, ""), (130, ""))


def workers_of(pid: int) -> str:
    """The ids of the children of a process."""
    return " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))


def test_mcp_client_prints_no_traceback_when_its_parent_has_ended() -> None:
    target = msgspec.json.encode(McpTarget("gone", ("false",))).decode()
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", MCP_CLIENT], env={**os.environ, TARGET_VARIABLE: target},
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
