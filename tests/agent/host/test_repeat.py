"""`tail.repeat = "brief"`: a state that holds still is said once a turn, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import hosted, invoke, turn
from agent.host.test_receipts import PROFILES, check_all
from context.projection.requirements import proves
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import TailSettings, TruncationSettings, WindowSettings
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import ToolCall
from sightline.context.messages.window import Window
from sightline.context.tokens.tokens import counter_for
from support.live import LiveApp

BRIEF = TailSettings(repeat="brief")
SETTLED = TruncationSettings(settle=True)
PROFILE = profile_for("openai-chat", "gpt-5.5")
WHOLE = "Message 1"  # a line of the app's tree
REFERENCE = "unchanged since observation 1 of this turn"
CUT = "[TRUNCATED."


def look(call_id: str) -> ToolCall:
    return ToolCall(call_id, "describe_db", {})


LOOKS: list[Any] = [[look("a")], [look("b")], "Seen.", "Yes."]


def bodies(model: ScriptedModel) -> list[str]:
    return [request.data.decode() for request in model.requests]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.endpoint)
async def test_while_a_turn_looks_the_state_is_there_once_and_in_the_next_turn_again(
    tmp_path: Path, profile: Profile
) -> None:
    async with hosted(tmp_path, LOOKS, app=LiveApp(), profile=profile, tail=BRIEF) as (host, model):
        await turn(host, "look")
        await turn(host, "and?")
        session = host.session.id
    assert [body.count(WHOLE) for body in bodies(model)] == [1, 1, 1, 1]
    assert [body.count(REFERENCE) for body in bodies(model)] == [0, 1, 2, 0]
    check_all(tmp_path, session, model)


@proves("CI-2")
async def test_by_default_every_request_has_the_whole_state_and_nothing_else(
    tmp_path: Path,
) -> None:
    async with hosted(tmp_path, LOOKS, app=LiveApp(), profile=PROFILE) as (host, model):
        await turn(host, "look")
    assert [body.count(WHOLE) for body in bodies(model)] == [1, 1, 1]
    assert "Observation " not in "".join(bodies(model))


async def test_what_changed_is_sent_whole_at_the_end(tmp_path: Path) -> None:
    script = [[look("a")], [invoke("b", "/", "count")], "Counted."]
    async with hosted(
        tmp_path, script, app=LiveApp(), profile=PROFILE, tail=BRIEF, mode="auto"
    ) as (host, model):
        await turn(host, "count", answer=lambda _: True)
    first, second, third = bodies(model)
    assert "(n=0)" in first
    assert REFERENCE in second
    assert "(n=0)" not in third
    assert third.index("(n=1)") > third.index('"tool_call_id":"b"')


@pytest.mark.parametrize("truncation", [TruncationSettings(), SETTLED], ids=["exact", "settled"])
async def test_results_behind_a_kept_state_are_traces_in_the_next_turn(
    tmp_path: Path, truncation: TruncationSettings
) -> None:
    async with hosted(
        tmp_path, LOOKS, app=LiveApp(), profile=PROFILE, tail=BRIEF, truncation=truncation
    ) as (host, model):
        await turn(host, "look")
        await turn(host, "and?")
    *running, after = bodies(model)
    assert CUT not in "".join(running)
    assert after.count(CUT) == 2
    assert tokens(model.requests[3]) < tokens(model.requests[2])
    prefixes = [request.prefix for request in model.requests]
    for request, prefix in zip(model.requests[1:], prefixes, strict=False):
        assert request.wire.data.startswith(prefix)


def tokens(request: Request) -> int:
    return counter_for("estimate").count(request.data.decode())


async def test_settled_results_that_were_in_a_prefix_stay_whole(tmp_path: Path) -> None:
    script = [[look("a"), invoke("b", "/", "count")], [look("c")], "Done.", "Yes."]
    async with hosted(
        tmp_path, script, app=LiveApp(), profile=PROFILE, tail=BRIEF, mode="auto",
        truncation=SETTLED,
    ) as (host, model):  # fmt: skip
        await turn(host, "count", answer=lambda _: True)
        await turn(host, "and?")
    assert model.requests[3].wire.data.startswith(model.requests[2].prefix)
    assert bodies(model)[3].count(CUT) == 1


async def test_another_process_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    async with hosted(tmp_path, LOOKS, app=LiveApp(), profile=PROFILE, tail=BRIEF) as (host, _):
        await turn(host, "look")
        preview = await host.preview("and?")
        session = host.session.id
    again = ScriptedModel(["Yes."], profile=PROFILE)
    async with hosted(tmp_path, again, app=LiveApp(), tail=BRIEF, session=session) as (host, _):
        await turn(host, "and?")
    assert again.requests[0].data == preview.request.data


async def test_a_small_model_gets_the_state_itself(tmp_path: Path) -> None:
    small = profile_for(
        "openai-chat", "gpt-5.5", {"window_tokens": 8_000, "max_output_tokens": 500}
    )
    async with hosted(tmp_path, LOOKS, app=LiveApp(), profile=small, tail=BRIEF) as (host, model):
        await turn(host, "look")
    assert "Observation " not in "".join(bodies(model))


async def test_a_window_that_grows_shows_the_same_as_after_a_restart(tmp_path: Path) -> None:
    script = [entry for number in range(4) for entry in ([look(f"c{number}")], "Seen.")]
    narrow = WindowSettings(size=1, slack=1)
    async with hosted(
        tmp_path, script, app=LiveApp(), profile=PROFILE, tail=BRIEF, window=narrow
    ) as (host, _):
        for number in range(4):
            await turn(host, f"look {number}")
        session = host.session.id
    wide = Window(9, 9)
    shown = []
    for before in (True, False):
        again = hosted(tmp_path, app=LiveApp(), profile=PROFILE, tail=BRIEF, session=session)
        async with again as (host, _):
            if before:
                await host.preview("and?")
                host.ledger.sessions.set_window(session, wide)
            shown.append((await host.preview("and?")).request.data.decode())
    assert shown[0] == shown[1]
    assert shown[0].count(CUT) == 4
