"""Standard streams: how a process begins and ends. Which descriptors are used: conformance."""

from __future__ import annotations

import os
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


async def test_a_process_that_dies_is_the_end_of_the_link() -> None:
    link = await spawn_stdio("sh -c 'exit 3'")
    assert await link.receive() is None
    await link.close()


async def test_a_command_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="No such file"):
        await spawn_stdio([str(tmp_path / "missing")])
    with pytest.raises(InvalidInput):
        await spawn_stdio("")
