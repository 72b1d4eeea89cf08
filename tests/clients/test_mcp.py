"""Claude Code and Codex themselves list, look, act and wait, and ask before what is dangerous."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapters.test_mcp_server import Shop
from support.agents import Agent, Claude, Codex, Step, installed, mcp_options

SHELF = {"app": "shop", "path": "/shelf"}
STEPS: tuple[Step, ...] = (
    ("apps", {}),
    ("look", {}),
    ("act", {**SHELF, "action": "add", "params": {"count": 2}}),
    ("wait", {"app": "shop", "seconds": 0}),
    ("act", {**SHELF, "action": "clear"}),
)


@installed
@pytest.mark.parametrize("agent", [Claude, Codex])
async def test_a_real_agent_sees_and_uses_the_apps(
    agent: type[Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps, shop = tmp_path / "apps", Shop()
    apps.mkdir(mode=0o700)
    monkeypatch.setenv("SLOP_PROVIDERS", str(apps))
    options = mcp_options(agent, tmp_path, ["-m", "sightline", "mcp"])
    async with shop.app.serving(unix=apps / "shop.sock"):
        one = agent(tmp_path, apps, *options)
        requests = await asyncio.to_thread(one.turn, "Go.", *STEPS)
    assert len({str(request["tools"]) for request in requests}) == 1
    listed, looked, acted, waited, cleared = one.results(requests[-1])
    assert [app["app"] for app in listed["apps"]] == ["shop"]
    assert "apples=0" in looked["state"]
    assert [change["path"] for change in acted["changes"]] == ["/shelf"]
    assert waited["changed"] is False
    # Nobody sits before it: who is asked does not answer, and it is not done.
    assert "The user did not" in cleared["error"]
    assert shop.apples == 2
