"""How a chat is opened: a demo is seen alone, whoever else runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightline.cli.chat.main import ChatOptions
from sightline.cli.chat.pipe import opened
from sightline.slop.discovery.descriptor import Descriptor, Unix
from sightline.slop.discovery.directory import announced
from support.live import LiveApp, announced_app


async def test_its_own_demo_is_all_that_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[apps]\ndiscover = true\nconnect = ["unix:/nowhere/else.sock"]\n')
    monkeypatch.setenv("SIGHTLINE_CONFIG", str(config))
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path))
    other = Descriptor("desk", "Desk", Unix(str(tmp_path / "nobody.sock")), pid=os.getppid())
    with announced(other, tmp_path):
        options = ChatOptions(demo=True, ledger=str(tmp_path / "work.db"))
        async with opened(options) as (host, _):
            with announced_app(tmp_path, LiveApp()):
                [shown] = host.world.apps
            assert not host.hub.world.available
    assert (shown.status, shown.name) == ("connected", "Desk")
    assert shown.tree is not None
