"""`tail.repeat = "turn"` and `"session"`: the state whole once, then what changed of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import ALONE, check_ledger, hosted, invoke, turn
from agent.host.test_forty_turns import MARKS, NO_CONTENT, Read, talking
from agent.host.test_no_tail_in_the_ledger import everything
from agent.host.test_repeat import PROFILE
from agent.models.conftest import WAYS
from sightline.agent.models.scripted import Reply, ScriptedModel
from sightline.config import Settings, TailSettings, WindowSettings
from sightline.context.dialects.profiles import profile_for
from sightline.errors import RateLimited
from sightline.slop.protocol.tree import Node
from support.live import LiveApp
from support.shown import Apps, read
from support.vendors.answers import Answer, Call, says
from support.vendors.server import Vendor

TURN, SESSION = TailSettings(repeat="turn"), TailSettings(repeat="session")
ROUNDS = (2, 0, 3)
ITEMS = [
    Node.of(f"i{at}", "item", properties={"label": f"Item {at} of a list that stays"})
    for at in range(80)
]
DESK = Node.of(
    "desk",
    "root",
    properties={"n": 0},
    children=ITEMS,
    affordances=[{"action": "echo"}, {"action": "count"}],
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


@pytest.mark.parametrize(
    ("way", "tail"), [*((way, SESSION) for way in WAYS), ("anthropic", TURN), ("ollama", TURN)]
)
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


def states(model: ScriptedModel) -> list[list[str]]:
    """The blocks of each request: `whole`, or `since`."""
    found = (BLOCK.findall(request.data.decode()) for request in model.requests)
    return [["since" if ' since=\\"' in block else "whole" for block in own] for own in found]


async def test_a_fold_a_restart_and_an_undo_begin_anew_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    window = WindowSettings(size=1, slack=2)
    given: dict[str, Any] = {"app": LiveApp(DESK), "tail": SESSION, "window": window}
    script = ["One.", RateLimited("slow down", retry_after_s=0), "Two.", "Three.", "Four.", "Five."]
    async with hosted(tmp_path, script, profile=PROFILE, **given) as (host, model):
        for text in ("one", "two", "three", "four"):
            await turn(host, text)
        _, failed, again, *_ = model.requests
        assert failed.data == again.data
        changed = ["whole", "since"]
        assert states(model) == [
            ["whole"],
            changed,
            changed,
            ["whole", "since", "since"],
            ["whole"],
        ]
        session = host.session.id
        host.ledger.groups.undo(host.session.id)
        await turn(host, "another")
        assert states(model)[-1] == ["whole"]
        assert b"Item 7" not in everything(tmp_path)
    check_ledger(tmp_path, session)
    later = ScriptedModel(["Six."], profile=PROFILE)
    async with hosted(tmp_path, later, session=session, **given) as (host, _):
        await turn(host, "six")
    assert states(later) == [["whole"]]


@pytest.mark.parametrize("tail", [TURN, SESSION], ids=lambda tail: tail.repeat)
async def test_what_bound_reasoning_depends_on_stays_and_all_is_within_its_budget(
    tmp_path: Path, tail: TailSettings
) -> None:
    profile = profile_for("anthropic", "claude-opus-5-5")
    calls = [invoke(f"c{number}", "/", "count") for number in range(4)]
    script = [*(Reply(reasoning="hm", calls=(call,)) for call in calls), "Done.", "Yes."]
    app = LiveApp(Node.of("app", "root", properties={"n": 0}, affordances=[{"action": "count"}]))
    async with hosted(tmp_path, script, app=app, profile=profile, mode="auto", tail=tail) as (
        host,
        model,
    ):
        await turn(host, "go", answer=lambda _: True)
        await turn(host, "and?")
    assert states(model)[4] == ["whole"] * 5, "so small an app is shown anew each time"
    for before, now in pairwise(model.requests[:5]):
        assert now.wire.data.startswith(before.wire.data.removesuffix(b"]}]}"))
    assert states(model)[5] == ["whole"], "in the next turn no reasoning needs the others"
