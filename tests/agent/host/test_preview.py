"""A preview is the request that would be sent: byte for byte, at folds and before reasoning."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.host.helpers import hosted, invoke, of_kind, turn
from agent.host.test_repeat import BRIEF, look
from sightline.agent.models.scripted import Reply
from sightline.config import TailSettings, WindowSettings
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.tokens.tokens import counter_for
from sightline.events import RequestBuilt
from sightline.slop.protocol.tree import Node
from support.live import LiveApp

PLAIN = profile_for("openai-chat", "gpt-5.5")
BOUND = profile_for("anthropic", "claude-opus-5-5")
WINDOWS = [(2, 2), (2, 0), (0, 0), (1, 3)]
FORMS = [
    *((*window, tail) for window in WINDOWS for tail in (TailSettings(), BRIEF)),
    (2, 2, TailSettings(repeat="turn")),
    (2, 2, TailSettings(repeat="session")),
]


@pytest.mark.parametrize("profile", [PLAIN, BOUND], ids=["plain", "bound"])
@pytest.mark.parametrize(("size", "slack", "tail"), FORMS)
async def test_what_is_shown_before_is_what_is_sent_then(
    tmp_path: Path, size: int, slack: int, profile: Profile, tail: TailSettings
) -> None:
    script = [entry for number in range(6) for entry in ([look(f"c{number}")], "Seen.")]
    async with hosted(
        tmp_path, script, app=LiveApp(), profile=profile, tail=tail,
        window=WindowSettings(size=size, slack=slack),
    ) as (host, model):  # fmt: skip
        for number in range(6):
            shown = await host.preview(f"look {number}")
            await turn(host, f"look {number}")
            sent = model.requests[2 * number]
            assert shown.request.data == sent.data
            assert shown.request.headers == sent.headers


SMALL = {"window_tokens": 30_000, "max_output_tokens": 2_000}
THREADS = [Node.of(f"t{n}", "item", properties={"label": f"Launch plan {n}"}) for n in range(400)]
CROWD = Node.of(
    "app", "root", properties={"n": 0}, affordances=[{"action": "count"}], children=THREADS
)


@pytest.mark.parametrize("tail", [TailSettings(), BRIEF], ids=["whole", "brief"])
async def test_kept_tails_are_counted_and_go_when_they_crowd(
    tmp_path: Path, tail: TailSettings
) -> None:
    profile = profile_for("anthropic", "claude-opus-5-5", SMALL)
    calls = (invoke(f"c{number}", "/", "count") for number in range(9))
    script = [*(Reply(reasoning="hm", calls=(call,)) for call in calls), "Done.", "Yes."]
    async with hosted(
        tmp_path, script, app=LiveApp(CROWD), profile=profile, mode="auto", tail=tail
    ) as (host, model):
        events = await turn(host, "go", answer=lambda _: True)
        events += await turn(host, "and?")
    built = of_kind(events, RequestBuilt)
    tails = [request.data.count(b"<slop-state generated_at") for request in model.requests]
    assert tails == [1, 2, 3, *[1] * 8]
    modes = [request.thinking for request in model.requests]
    assert modes == [*["turn_append"] * 3, *["strip"] * 7, "turn_append"]
    for event, request in zip(built, model.requests, strict=True):
        really = counter_for("estimate").count(request.data.decode())
        assert event.prompt_tokens <= event.budget_tokens
        assert 0.7 * really < event.prompt_tokens < 1.3 * really
    # What was learnt from a crowded turn does not bend the estimates of the next.
    assert built[-1].prompt_tokens < 1.2 * built[0].prompt_tokens
