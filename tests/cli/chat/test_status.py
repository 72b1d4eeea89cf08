"""The status line: folded from events, and the important pieces stay when it is narrow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sightline.cli.chat.cards import Status, after, status_line
from sightline.cli.commands.console import text_of, width_of
from sightline.events import AppChanged, RequestBuilt, TurnEnded, TurnStarted, UsageReported

BUILT = RequestBuilt(
    turn=1, request=1, model="anthropic:claude", prompt_tokens=2000, budget_tokens=8000,
    tail_tokens=1234, basis="counted", reused_tokens=1800,
)  # fmt: skip
USED = UsageReported(
    model="anthropic:claude", input_tokens=2000, output_tokens=10, cache_read_tokens=1800,
    cost_usd=0.0123,
)  # fmt: skip


def line(status: Status, width: int = 200) -> str:
    return text_of(status_line(status, width))


def test_it_says_model_context_state_cache_cost_apps_and_mode() -> None:
    status = Status(apps=("desk", "workspace"))
    for event in (BUILT, USED):
        status = after(status, event)
    assert line(status) == (
        "anthropic:claude · ██░░░░░░ 25 % · state 1.2k · cache 90 % · price $0.0123"
        " · desk, workspace · ask"
    )


def test_a_cache_that_holds_gives_no_cause() -> None:
    assert "←" not in line(after(after(Status(), BUILT), USED))


def test_a_regression_names_its_cause() -> None:
    built = RequestBuilt(
        turn=2, request=1, model="m", prompt_tokens=2000, budget_tokens=8000, tail_tokens=0,
        basis="counted", reused_tokens=200, cause="tools changed", regression=True,
    )  # fmt: skip
    assert "cache 10 % ← tools changed" in line(after(Status(), built))


def test_a_cache_that_lost_what_we_kept_says_what_the_vendor_says() -> None:
    used = UsageReported(model="m", input_tokens=2000, output_tokens=1, cache_miss="evicted")
    assert "cache 0 % ← evicted" in line(after(after(Status(), BUILT), used))


def test_costs_add_up_and_unknown_ones_are_marked() -> None:
    status = after(after(Status(), USED), USED)
    assert "$0.0246" in line(status)
    unpriced = UsageReported(model="m", input_tokens=1, output_tokens=1)
    assert "$0.0246 + 1 request of unknown price" in line(after(status, unpriced))


def test_apps_come_and_go() -> None:
    status = Status(apps=("desk",))
    status = after(status, AppChanged(app="mail", name="Mail", status="connected"))
    assert status.apps == ("desk", "mail")
    status = after(status, AppChanged(app="desk", name="Desk", status="disconnected"))
    assert status.apps == ("mail",)


def test_a_turn_is_busy_until_it_ends() -> None:
    status = after(Status(), TurnStarted(session_id=1, group_id=1, turn=1, text="hi"))
    assert "thinking +2" in line(replace(status, queued=2))
    assert after(status, TurnEnded(turn=1, outcome="answered")).busy == ""


@pytest.mark.parametrize("width", [10, 20, 40, 60, 80])
def test_a_narrow_line_keeps_to_its_width_and_to_what_matters(width: int) -> None:
    status = Status(apps=("desk", "workspace"))
    for event in (BUILT, USED):
        status = after(status, event)
    text = line(status, width)
    assert width_of(text) <= width
    assert text.endswith("25 %") or "25 %" in text or width < 14


def test_at_40_columns_model_and_context_are_there() -> None:
    text = line(after(after(Status(), BUILT), USED), 40)
    assert "anthropic:claude" in text
    assert "25 %" in text


def test_nothing_an_app_is_called_reaches_the_line_as_it_is() -> None:
    event = AppChanged(app="x\x1b[2J", name="x", status="connected")
    assert "\x1b" not in line(after(Status(model="m\x9b"), event))
