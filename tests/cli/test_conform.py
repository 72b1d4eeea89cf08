"""`sightline conform`, as a program, against peers on real sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client
from support.live import process
from support.shell import PROGRAM
from support.wire import PATIENCE_S

PIPE = asyncio.subprocess.PIPE


async def conform(*arguments: str) -> tuple[int | None, str, str]:
    """Run the command; gives its exit code and what it wrote."""
    started = await asyncio.create_subprocess_exec(
        PROGRAM, "conform", *arguments, stdout=PIPE, stderr=PIPE
    )
    out, err = await started.communicate()
    return started.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("kind", ["--unix", "--ws"])
async def test_our_app_passes_whole(kind: str, tmp_path: Path) -> None:
    place = str(tmp_path / "app.sock") if kind == "--unix" else "0"
    async with process(kind, place, module="support.real") as started:
        code, out, err = await conform(started.address, "--act", "/", "count")
    assert (code, err) == (0, "")
    *lines, summary = out.splitlines()
    assert summary == "50 held, 0 not held, 1 not shown"
    assert lines[0] == "held      hello.first                  hello is the first message, once."


async def test_what_is_not_held_is_shown_with_its_messages(tmp_path: Path) -> None:
    async with process("--unix", str(tmp_path / "app.sock")) as started:
        # This one takes whatever params it is given.
        text = await conform(started.address, "--act", "/", "fail")
        lines = await conform(started.address, "--json", "--look-only")
    code, out, _ = text
    assert code == 0
    assert "not shown seq.counts" in out
    found = [json.loads(line) for line in lines[1].splitlines()]
    assert found[0] == {
        "clause": "hello.first", "sentence": "hello is the first message, once.", "held": True,
        "why": "", "messages": found[0]["messages"],
    }  # fmt: skip
    assert [message["from"] for message in found[0]["messages"]] == ["peer", "us", "peer"]
    assert {item["held"] for item in found} == {True, None}


async def test_a_consumer_is_tried_by_a_script(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'script.sock'}"
    started = await asyncio.create_subprocess_exec(
        PROGRAM, "conform", "--serve", address, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(3 * PATIENCE_S):
        assert started.stderr is not None
        assert await started.stderr.readline() == f"waiting for a consumer at {address}\n".encode()
        async with Client(dial_address(address), reconnect=False) as client:
            client.subscribe()
            out, _ = await started.communicate()
    assert started.returncode == 0
    assert out.decode().splitlines()[-1] == "7 held, 0 not held, 0 not shown"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("unix:nowhere.sock",), 4, "No such file"),
        (("--serve", "stdio:cat"), 2, "not a place to serve at"),
        (("--serve", "ws://127.0.0.1"), 2, "not a place to serve at"),
        (("--serve", "unix:x.sock", "--look-only"), 2, "for a provider"),
        (("unix:x.sock", "--act", "/", "go", "--params", "7"), 2, "--params"),
    ],
)
async def test_what_cannot_be_tried_is_said_in_one_line(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    exit_code, out, err = await conform(*arguments)
    assert (exit_code, out, err.count("\n")) == (code, "", 1)
    assert said in err


async def test_a_peer_that_breaks_a_clause_gives_exit_code_5(tmp_path: Path) -> None:
    async def rude(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"type":"event","name":"\\u001b[2J"}\n')
        await writer.drain()
        writer.close()

    path = tmp_path / "rude.sock"
    async with await asyncio.start_unix_server(rude, path):
        code, out, _ = await conform(f"unix:{path}")
    assert code == 5
    first, message, *_ = out.splitlines()
    assert first.startswith("NOT HELD  hello.first")
    assert message.startswith("          ← ")
    assert "\x1b" not in out
