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


def test_every_event_names_itself_and_no_two_share_a_name() -> None:
    kinds = typing.get_args(HostEvent)
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(kinds)


def test_a_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_event(b'{"event":"nonsense"}')
