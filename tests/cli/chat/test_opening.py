"""How a chat is opened: with the demo beside it, whoever else runs one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightline.cli.chat.main import ChatOptions
from sightline.cli.chat.opening import opened
from sightline.slop.discovery.descriptor import Descriptor, Unix
from sightline.slop.discovery.directory import announced


@pytest.mark.parametrize("discover", ["true", "false"])
async def test_its_own_demo_is_seen_beside_one_that_runs_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, discover: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[apps]\ndiscover = {discover}\n")
    monkeypatch.setenv("SIGHTLINE_CONFIG", str(config))
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path))
    other = Descriptor("desk", "Desk", Unix(str(tmp_path / "nobody.sock")), pid=os.getppid())
    with announced(other, tmp_path):
        options = ChatOptions(demo=True, ledger=tmp_path / "work.db")
        async with opened(options) as (host, _):
            shown = [app for app in host.world.apps if app.status == "connected"]
    assert [app.tree is not None for app in shown] == [True]
