"""Standard streams: how a process begins and ends. Which descriptors are used: conformance."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from sightline.errors import InvalidInput, Unreachable
from sightline.slop.transports.stdio import spawn_stdio
from support.live import command
from support.wire import Wire


async def test_closing_the_link_ends_the_process() -> None:
    link = await spawn_stdio(command("--stdio"))
    await Wire(link).expect("hello")
    await link.close()
    assert link.peer.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(link.peer.pid, 0)


async def test_a_process_that_does_not_end_by_itself_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sightline.slop.transports.stdio._GRACE_S", 0.05)
    link = await spawn_stdio(["bash", "-c", "trap '' TERM; echo ready; while :; do read; done"])
    assert await link.receive() == b"ready"
    await link.close()
    assert link.peer.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(link.peer.pid, 0)


async def test_close_ends_the_process_when_most_of_10_mb_is_unread() -> None:
    async with asyncio.timeout(60):
        for _ in range(100):
            link = await spawn_stdio(["sh", "-c", "yes line | head -c 10000000; exec cat"])
            assert await link.receive() == b"line"
            await link.close()
            assert link.peer.pid is not None
            with pytest.raises(ProcessLookupError):
                os.kill(link.peer.pid, 0)


async def test_close_drops_the_output_while_another_task_receives() -> None:
    link = await spawn_stdio(["sh", "-c", "cat; yes line | head -c 10000000"])
    waiting = asyncio.create_task(link.receive())
    async with asyncio.timeout(60):
        await asyncio.gather(link.close(), waiting)
    assert waiting.result() == b"line"


async def test_close_returns_when_a_grandchild_keeps_the_output_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sightline.slop.transports.stdio._GRACE_S", 0.05)
    link = await spawn_stdio(["sh", "-c", "sleep 600 & echo $!; exec cat"])
    grandchild = int(await link.receive() or b"")
    async with asyncio.timeout(60):
        await link.close()
    os.kill(grandchild, signal.SIGKILL)


async def test_a_process_that_dies_is_the_end_of_the_link() -> None:
    link = await spawn_stdio("sh -c 'exit 3'")
    assert await link.receive() is None
    await link.close()


async def test_a_command_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="No such file"):
        await spawn_stdio([str(tmp_path / "missing")])
    with pytest.raises(InvalidInput):
        await spawn_stdio("")
