"""Claude Code and Codex themselves list, look, act and wait, and ask before what is dangerous.

What they wrote down of it is read, too: their transcripts are as `gateway.transcripts` says.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adapters.test_mcp_server import Shop
from sightline.context.ledger import Ledger
from sightline.gateway.imports import import_transcripts
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
    with Ledger(tmp_path / "l.db") as ledger:
        done = import_transcripts(ledger, [tmp_path])
    unread = done.skipped["lines that cannot be read"]
    assert (len(done.sessions), done.new, unread) == (1, len(requests), 0)
    assert {one.usage and one.usage.input_tokens for one in done.passed} == {100}
    assert len({str(request["tools"]) for request in requests}) == 1
    listed, looked, acted, waited, cleared = one.results(requests[-1])
    assert [app["app"] for app in listed["apps"]] == ["shop"]
    assert "apples=0" in looked["state"]
    assert [change["path"] for change in acted["changes"]] == ["/shelf"]
    assert waited["changed"] is False
    # Nobody sits before it: who is asked does not answer, and it is not done.
    assert "The user did not" in cleared["error"]
    assert shop.apples == 2
