"""`tail.repeat = "turn"` and `"session"`: the state whole once, then what changed of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import ALONE, NOW, hosted, invoke, turn
from agent.host.test_forty_turns import MARKS, NO_CONTENT, Read, talking
from agent.host.test_repeat import PROFILE
from agent.models.conftest import WAYS
from sightline.agent.models.scripted import Reply, ScriptedModel
from sightline.config import Settings, TailSettings, WindowSettings
from sightline.context.dialects.profiles import profile_for
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import ToolCall
from sightline.slop.protocol.tree import Node
from support.live import LiveApp
from support.shown import Apps, known, read
from support.vendors.answers import Answer, Call, says
from support.vendors.server import Vendor

TURN, SESSION = TailSettings(repeat="turn"), TailSettings(repeat="session")
ROUNDS = (2, 0, 3, 1)
ITEMS = [Node.of(f"i{at}", "item", properties={"label": f"Item {at}"}) for at in range(80)]
DESK = Node.of(
    "desk", "root", properties={"n": 0}, children=ITEMS, affordances=[{"action": "echo"}]
)
BLOCK = re.compile(r"<slop-state generated_at.*?</slop-state>", re.DOTALL)
SINCE = 'format="text/tree" since="'


def answers() -> Iterator[tuple[int, int, Answer]]:
    for number, rounds in enumerate(ROUNDS, 1):
        for at in range(rounds):
            params = {"name": f"R{number}x{at}", "size": 40}
            given = {"app": "live", "path": "/", "action": "echo", "params": params}
            yield number, at, says("Reading.", Call("slop_invoke", given, f"call_{number}_{at}"))
        yield number, rounds, says(f"Answer {number}.\n\n### STATE\nGoal: goal {number}")


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendor]:
    with Vendor(*(answer for *_, answer in answers())) as serving:
        for name, value in serving.environment().items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield serving


def blocks(request: Read) -> list[str]:
    return [found for text in request.texts for found in BLOCK.findall(text)]


def understood(found: list[str]) -> Apps:
    apps: Apps = {}
    for block in found:
        apps = read(apps, block)
    return apps


@pytest.mark.parametrize("tail", [TURN, SESSION], ids=lambda tail: tail.repeat)
@pytest.mark.parametrize("way", WAYS)
async def test_shown_once_and_then_what_changed_with_every_api(
    tmp_path: Path, vendor: Vendor, way: str, tail: TailSettings
) -> None:
    settings = Settings(apps=ALONE, mode="auto", tail=tail)
    async with talking(tmp_path, vendor, way, settings, DESK) as host:
        host.ledger.scratchpad.replace(host.session.id, "1. look 2. act")
        for number in range(1, len(ROUNDS) + 1):
            await turn(host, f"question {number}?")
    seen = [
        Read(*place, request.body)
        for place, request in zip([a[:2] for a in answers()], vendor.requests, strict=True)
    ]
    for request in seen:
        shown = blocks(request)
        assert SINCE not in shown[0]
        assert all(SINCE in block for block in shown[1:])
        acted = sum(ROUNDS[: request.turn - 1]) + request.calls
        [(root, _)] = understood(shown).values()
        assert root is not None
        assert f"(n={acted})" in root.text
        assert list(root.children) == [item.id for item in ITEMS]
        if tail is TURN:
            assert len(shown) == request.calls + 1, "gone when the user speaks again"
        goals = re.findall(r"Goal: goal (\d+)", request.body.decode())
        assert goals[-1:] == ([str(request.turn - 1)] if request.turn > 1 else [])
    assert max(len(blocks(request)) for request in seen) == (4 if tail is TURN else len(seen))
    for before, now in pairwise(seen):
        check_growth(before, now, way, tail)


def check_growth(before: Read, now: Read, way: str, tail: TailSettings) -> None:
    """In the turn, or the session, a request begins with all that the one before it said."""
    if way == "ollama" or (tail is TURN and before.turn != now.turn):
        return  # whose template wants states in the user's message; and there they are gone
    one, other = (NO_CONTENT.sub(b"", request.body).rstrip(b"]}") for request in (before, now))
    assert other.startswith(one)
    if any(mark in now.body.decode() for mark in MARKS):
        last = now.body.rindex(b"</slop-state>")
        assert any(now.body.rfind(f'"{mark}"'.encode()) > last for mark in MARKS)
