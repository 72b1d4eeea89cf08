"""The plugins in Claude Code and Codex: the state once, then what changed, and always current."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sightline.adapters.hook import addition
from sightline.context.projection.changes import ShownState
from sightline.context.projection.tail import render_state
from sightline.context.tokens.tokens import default_counter
from sightline.slop.app.local import local_dial
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.world import AppState, World
from support.agents import Agent, Claude, Codex, installed
from support.board import AT, TURNS, Board
from support.share import WHOLE
from support.shown import Apps, known, read

FEWEST = 80  # some 1,650 tokens; below that the frames of what changed weigh too much
MOST_SNAPSHOTS = 5


def blocks(texts: list[str]) -> list[str]:
    return [re.findall(r"<slop-state .*</slop-state>", text, re.DOTALL)[0] for text in texts]


def told(texts: list[str], before: Apps | None = None) -> Apps:
    """What a reader of these texts knows, who has nothing else but what was told before."""
    apps = before or {}
    for block in blocks(texts):
        apps = read(apps, block)
    return apps


def state_of(apps: Apps) -> Any:
    return {key: (known(app), below) for key, (app, below) in apps.items()}


def snapshots(texts: list[str]) -> float:
    count = default_counter().count
    return sum(map(count, texts)) / count(texts[0])


async def test_fifty_turns_cost_five_snapshots_at_most_and_each_knows_all() -> None:
    board, texts = Board(FEWEST), list[str]()
    shown: ShownState | None = None
    apps: Apps = {}
    async with Hub() as hub:
        hub.add("board", local_dial(board.app))
        await hub.ready()
        for turn in range(TURNS):
            now = AT + timedelta(seconds=turn)
            text, shown = addition(hub.world, shown, now, 4_000, default_counter().count)
            assert addition(hub.world, shown, now, 4_000, default_counter().count) == ("", shown)
            texts.append(text)
            apps = told([text], apps)
            assert state_of(apps) == state_of(told([render_state(hub.world, now)]))
            board.change()
            await hub.query("board")
    assert snapshots(texts) <= MOST_SNAPSHOTS


def test_where_no_app_is_there_nothing_is_said() -> None:
    assert addition(World(), None, AT, 4_000, len) == ("", None)


@installed
@pytest.mark.timeout(1800 if WHOLE else 300)
@pytest.mark.parametrize("agent", [Claude, Codex] if WHOLE else [Claude])
async def test_a_real_agent_is_told_what_changed_and_nothing_twice(
    agent: type[Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps, board = tmp_path / "apps", Board()
    apps.mkdir(mode=0o700)
    monkeypatch.setenv("SLOP_PROVIDERS", str(apps))
    turns, texts = TURNS if WHOLE else 2, list[str]()
    async with board.app.serving(unix=apps / "board.sock"):
        one = agent(tmp_path, apps)
        await asyncio.to_thread(one.install_plugin)
        for turn in range(turns):
            requests = await asyncio.to_thread(one.turn, f"Turn {turn}.")
            texts = one.hooked(requests[-1])
            assert len(texts) == turn + 1
            assert state_of(told(texts)) == state_of(told([whole_of(board)]))
            board.change()
        assert snapshots(texts) <= MOST_SNAPSHOTS
        # The gateway shows the state: then the hook says nothing, and without news neither.
        one.environment["SIGHTLINE_GATEWAY"] = "1"
        requests = await asyncio.to_thread(one.turn, "And now?")
        assert one.hooked(requests[-1]) == texts
        assert "live-apps" in str(requests[0])


def whole_of(board: Board) -> str:
    """What the app shows now, as it would be told to somebody who knows nothing."""
    return render_state(World((AppState("board", "Board", tree=board.app.tree()),)), AT)
