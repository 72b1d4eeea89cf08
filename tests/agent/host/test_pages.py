"""A host with the browser bridge: where pages come is told, and its user is asked who may."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import AppSettings, BridgeSettings, Settings
from sightline.events import ApprovalAsked, Noticed
from support.extension import EXTENSION, extension
from support.loopback import reserved_port
from support.page import listens
from support.wire import PATIENCE_S


async def test_the_user_is_told_of_the_token_and_asked_about_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    apps = AppSettings(discover=False, workspace=False, bridge=True)
    chosen = Settings(apps=apps, bridge=BridgeSettings(port=0))
    async with (
        asyncio.timeout(PATIENCE_S),
        Host.open(chosen, model=ScriptedModel([]), ledger=tmp_path / "work.db") as host,
    ):
        events, bridge = host.events(), host.hub.bridge
        assert bridge is not None
        notice = await anext(events)
        assert isinstance(notice, Noticed)
        assert f"127.0.0.1:{bridge.port}" in notice.message
        assert notice.message.endswith(f"the token in {tmp_path}/sightline/browser.json")
        with pytest.raises(InvalidStatus):
            async with extension(bridge.port):
                pass
        question = await anext(events)
        assert isinstance(question, ApprovalAsked)
        assert (question.is_question, question.origin) == (True, EXTENSION)
        host.answer(question.call_id, approved=True, params={})
        await anext(events)
        while not bridge.is_paired:
            await asyncio.sleep(0)
        async with extension(bridge.port):
            pass
        await events.aclose()  # type: ignore[attr-defined] # an async generator
    assert (tmp_path / "sightline" / "browser.json").is_file()


async def test_a_port_that_cannot_be_had_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    apps = AppSettings(discover=False, workspace=False, bridge=True)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        chosen = Settings(apps=apps, bridge=BridgeSettings(port=port))
        model = ScriptedModel([])
        async with Host.open(chosen, model=model, ledger=tmp_path / "work.db") as host:
            notice = await anext(host.events())
    assert isinstance(notice, Noticed)
    assert f"no pages of a browser: cannot serve 127.0.0.1:{port}" in notice.message


@pytest.mark.parametrize("asked_for", [False, True])
async def test_a_port_is_opened_for_pages_only_where_it_was_asked_for(
    asked_for: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    apps = AppSettings(discover=False, workspace=False, bridge=asked_for)
    with reserved_port() as port:
        chosen = Settings(apps=apps, bridge=BridgeSettings(port=port))
        async with Host.open(chosen, model=ScriptedModel([]), ledger=tmp_path / "work.db") as host:
            if host.hub.bridge is not None:
                await host.hub.bridge.settled()
            assert listens(port) is asked_for
