"""Events survive being written as JSON lines and read back."""

from __future__ import annotations

import typing

import msgspec
import pytest

from sightline.events import (
    ApprovalAsked,
    CallStarted,
    CommandRan,
    HostEvent,
    SpendingAsked,
    TurnEnded,
    decode_event,
    encode_event,
)

SAMPLES: list[HostEvent] = [
    CallStarted(call_id="c1", name="slop_invoke", arguments={"params": {"n": [1, None]}}),
    ApprovalAsked(
        call_id="c1",
        app="mail",
        path="/inbox",
        action="archive",
        params={},
        dangerous=True,
        reason="dangerous",
        changes=("unread: 2 → 3",),
    ),
    CommandRan(command="/state", text="one\ntwo"),
    TurnEnded(turn=3, outcome="failed", code="overflow", detail="a\nb"),
]


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_line_as_it_was(event: HostEvent) -> None:
    line = encode_event(event)
    assert b"\n" not in line
    assert decode_event(line) == event


@pytest.mark.parametrize(
    ("usd", "text"), [(3, "$3"), (0.1, "$0.10"), (0.1 * 3, "$0.30"), (0.125, "$0.125"), (10, "$10")]
)
def test_a_limit_is_written_as_money_is(usd: float, text: str) -> None:
    event = SpendingAsked(scope="turn", spent_usd=0, limit_usd=usd, next_usd=1, raised_usd=usd)
    assert f" of {text} (limits.turn_usd) " in str(event)
    assert event.question == f"go on, up to {text}?"


def test_every_event_names_itself_and_no_two_share_a_name() -> None:
    kinds = typing.get_args(HostEvent)
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(kinds)


def test_a_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_event(b'{"event":"nonsense"}')
