"""Events as lines: what a person needs to see is there, whatever the app says."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.cli.chat.cards import call_card, card, result_card, user_card
from sightline.cli.commands.console import Line, text_of, width_of
from sightline.events import (
    AppChanged,
    ApprovalAnswered,
    ApprovalAsked,
    CallFinished,
    CallStarted,
    HostEvent,
    Noticed,
    Outcome,
    ReplyEnded,
    Retrying,
    TextDelta,
    TurnEnded,
)
from support.terminal_attacks import ATTACKS, FORBIDDEN


def shown(lines: list[Line]) -> str:
    return "\n".join(text_of(line) for line in lines)


def asked(**changes: Any) -> ApprovalAsked:
    given: dict[str, Any] = {
        "call_id": "c1", "app": "desk", "path": "/inbox/msg-104", "action": "reply",
        "params": {"body": "Gladly"}, "dangerous": False, "reason": "mode ask",
    }  # fmt: skip
    return ApprovalAsked(**{**given, **changes})


def test_a_call_of_an_app_says_where_and_what() -> None:
    event = CallStarted(
        call_id="c", name="slop_invoke", app="desk", path="/inbox/msg-104", action="reply",
        arguments={"app": "desk", "path": "/inbox/msg-104", "action": "reply", "params": {"b": 1}},
    )  # fmt: skip
    assert shown(call_card(event, 80)) == '● desk/inbox/msg-104 reply {"b":1}'


def test_a_call_of_our_own_tools_shows_the_tool() -> None:
    event = CallStarted(call_id="c", name="query_db", arguments={"sql": "SELECT 1"})
    assert shown(call_card(event, 80)) == '● query_db {"sql":"SELECT 1"}'


def test_a_result_shows_its_beginning_and_its_end_and_counts_what_is_between() -> None:
    content = "\n".join(f"row {n}" for n in range(10))
    event = CallFinished(call_id="c", name="t", ok=True, content=content, message_id=7)
    assert shown(result_card(event, 80)).splitlines() == [
        "  └ row 0", "    row 1", "    row 2", "    … 4 more lines, /result 7 shows all",
        "    row 7", "    row 8", "    row 9",
    ]  # fmt: skip
    short = CallFinished(call_id="c", name="t", ok=True, content=content[: 6 * 7 + 5])
    assert len(result_card(short, 80)) == 7


def test_the_result_of_a_command_says_how_it_ended_and_not_that_it_was_done() -> None:
    content = 'Done.\n{"exit_code":3,"seconds":0.26}\noutput:\nFAIL'
    event = CallFinished(call_id="c", name="t", ok=True, content=content, message_id=7)
    assert shown(result_card(event, 80)).splitlines() == [
        '  └ {"exit_code":3,"seconds":0.26}', "    output:", "    FAIL",
    ]  # fmt: skip
    done = CallFinished(call_id="c", name="t", ok=True, content="Done.")
    assert shown(result_card(done, 80)) == "  └ Done."


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_card_lets_an_attack_through(attack: str) -> None:
    valid = attack.encode("utf-8", "replace").decode()  # events are UTF-8
    events: list[HostEvent] = [
        asked(app=valid, path=valid, action=valid, params={valid: valid}, reason=valid,
              changes=(valid,)),
        CallStarted(call_id="c", name=valid, arguments={valid: [valid]}),
        CallStarted(call_id="c", name="n", arguments={}, app=valid, path=valid, action=valid),
        CallFinished(call_id="c", name=valid, ok=False, content=valid),
        Noticed(code="x", message=valid),
        AppChanged(app=valid, name=valid, status="gone", reason=valid),
        Retrying(attempt=1, after_s=1, reason=valid),
        ReplyEnded(reason="error", detail=valid),
        TurnEnded(turn=1, outcome="failed", code="x", detail=valid),
    ]  # fmt: skip
    for event in events:
        text = shown(card(event, 40))
        assert text
        assert not FORBIDDEN.intersection(text)
    assert not FORBIDDEN.intersection(shown(user_card(valid)))


@pytest.mark.parametrize("width", [20, 40, 80])
def test_tool_cards_keep_to_the_width(width: int) -> None:
    long = "wörter 你好 " * 40
    events: list[HostEvent] = [
        CallStarted(call_id="c", name="slop_invoke", arguments={"x": long}, app="desk", path="/p",
                    action="do"),
        CallFinished(call_id="c", name="n", ok=True, content=long),
    ]  # fmt: skip
    for event in events:
        for line in card(event, width):
            assert width_of(text_of(line)) <= width


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        ("answered", ""),
        ("cancelled", "■ stopped"),
        ("failed", "✗ no such model (model_failed)"),
        ("limit", "! no such model"),
    ],
)
def test_a_turn_that_ends_otherwise_says_so(outcome: Outcome, text: str) -> None:
    event = TurnEnded(turn=1, outcome=outcome, code="model_failed", detail="no such model")
    assert shown(card(event, 80)) == text


def test_what_is_shown_otherwise_makes_no_card() -> None:
    assert card(TextDelta(text="hi"), 80) == []
    assert card(ReplyEnded(reason="end"), 80) == []
    assert card(ApprovalAnswered(call_id="c", approved=True), 80) == []
    # The end of the reply told it.
    assert card(TurnEnded(turn=1, outcome="limit", code="length", detail="cut off"), 80) == []


def test_who_decided_in_place_of_the_user_is_named() -> None:
    event = ApprovalAnswered(call_id="c", approved=False, by="policy")
    assert shown(card(event, 80)) == "  refused by policy"
    stopped = ApprovalAnswered(call_id="c", approved=False, by="cancel", reason="stopped by you")
    assert shown(card(stopped, 80)) == "  not run: stopped by you"
