"""Mode `plan`: told in the tail, refused with what to do instead, left by accepting a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.host.helpers import check_ledger, ended, hosted, invoke, messages, of_kind, turn
from sightline.agent.policy import PLANNING, accepted, plan_of
from sightline.context.messages.parts import ToolCall
from sightline.errors import NotFound
from sightline.events import CallFinished
from support.live import LiveApp

STEPS = "1. Count.\n2. Look whether it was counted."
PLAN = f"I looked.\n\n### PLAN\n\n{STEPS}\n\n### STATE\nGoal: count\n"
TOLD = "## Plan mode"


async def test_a_plan_is_made_by_looking_accepted_and_carried_out_in_the_mode_before(
    tmp_path: Path,
) -> None:
    look = [
        invoke("c1", "/", "count"),
        ToolCall("c2", "slop_query", {"app": "live"}),
        ToolCall("c3", "save_memo", {"content": "x", "tags": ["y"]}),
        ToolCall("c4", "manage_scratchpad", {"action": "append", "content": "seen"}),
    ]
    script = [look, "Which one?", PLAN, invoke("c5", "/", "count"), "Counted."]
    app = LiveApp()
    async with hosted(tmp_path, script, app=app, mode="auto") as (host, model):
        host.set_mode("plan")
        events = await turn(host, "plan it")
        calls = of_kind(events, CallFinished)
        assert [call.ok for call in calls] == [False, True, True, True]
        assert "the user wants a plan first; look, take notes and ask" in calls[0].content
        assert (ended(events).plan, host.plan) == ("", "")  # it asked, and that is no plan
        with pytest.raises(NotFound):
            host.accept_plan()
        assert ended(await turn(host, "the first")).plan == STEPS == host.plan
        assert app.tree.properties["n"] == 0
        await turn(host, host.accept_plan())
        assert (host.mode, host.plan, app.tree.properties["n"]) == ("auto", "", 1)
    # Told at the end of each request, in nothing that is the same in the next or is stored.
    texts = [request.data.decode() for request in model.requests]
    assert [text.count(TOLD) for text in texts] == [1, 1, 1, 0, 0]
    boundary = model.requests[0].wire.boundary
    assert TOLD not in texts[0][:boundary]
    assert texts[3][:boundary] == texts[0][:boundary]
    assert not any(TOLD in message.text for message in messages(tmp_path))
    assert "I accept your plan. Carry it out." in [one.text for one in messages(tmp_path)]
    check_ledger(tmp_path)


async def test_a_plan_is_changed_or_left(tmp_path: Path) -> None:
    async with hosted(tmp_path, [PLAN, PLAN, "Done.", PLAN], mode="plan") as (host, _):
        await turn(host)
        await turn(host, "Look first.")  # who wants another plan says so
        assert (host.mode, host.plan) == ("plan", STEPS)
        words = host.accept_plan("1. Count twice.")
        assert words == "I changed your plan. Carry out this one:\n\n1. Count twice."
        assert host.mode == "ask"  # it began with `plan`: there was none before
        await turn(host, words)
        assert not ended(await turn(host)).plan  # the heading is a plan in its mode alone


@pytest.mark.parametrize("strategy", ["sightline", "classic", "minimal"])
async def test_every_strategy_of_ours_tells_it(tmp_path: Path, strategy: str) -> None:
    async with hosted(tmp_path, ["ok"], mode="plan", strategy=strategy) as (host, model):
        await turn(host)
    assert TOLD in model.requests[0].data.decode()


lines = st.sampled_from(["", "text", "### STATE", "## Steps", "```", "### PLAN later", "#PLAN"])


@given(
    st.lists(lines).map("\n".join),
    st.sampled_from(["### PLAN", "## Plan:", "# plan ", "  ### PLAN\r"]),
    st.text(min_size=1).filter(lambda text: text.strip() and not plan_of(f"\n{text}")),
)
def test_a_plan_is_what_follows_the_last_heading(before: str, heading: str, plan: str) -> None:
    assert plan_of(f"{before}\n{heading}\n{plan}") == plan.strip()
    assert plan_of(before) == ""
    assert "### PLAN" in PLANNING
    assert accepted(plan.strip(), f" {plan}\n") == accepted(plan, "")


def test_a_heading_in_a_code_block_is_none() -> None:
    steps = "1. Write this:\n\n```sh\n# plan\nrm -r build\n```\n2. Check."
    assert plan_of(f"### PLAN\n\n{steps}") == steps
    assert plan_of("I will end with\n\n~~~\n### PLAN\n~~~\n\nwhen I know more.") == ""
    assert plan_of("```\nnever closed\n\n### PLAN\nCount.") == "Count."
