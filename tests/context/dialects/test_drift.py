"""Drift: what two requests share, and who changed the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.messages.entry_values import entry
from sightline.context.dialects import encode, profile_for
from sightline.context.dialects.drift import ByteSpan, Wire, common_start, drift
from sightline.context.dialects.request import Request
from sightline.context.messages.parts import Entry, Message, ToolCall, ToolResult
from sightline.context.messages.replay import Tiers, truncate
from sightline.context.slots.slots import Slots

PROFILE = profile_for("anthropic", "claude-sonnet-5-5")


def request(history: list[str], system: str = "Be brief.", tail: str = "<slop-state>1") -> Request:
    slots = Slots(100_000, "chars/4", tools=[{"name": "run"}])
    slots.add("system", system, role="system", priority=100)
    said = [Message.of("user" if i % 2 == 0 else "assistant", t) for i, t in enumerate(history)]
    slots.add("history", said)
    slots.add("state", tail, stability="volatile")
    return encode(slots.render(), PROFILE)


TALK = ["where is alice's mail?" * 9, "in the inbox" * 9, "and bob's?" * 9]


def test_the_same_request_is_the_same() -> None:
    found = drift(request(TALK).wire, request(TALK).wire)
    assert (found.kind, found.first_difference, found.lost_tokens) == ("same", None, 0)
    assert found.expected
    assert found.reused_share == 1.0


def test_another_tail_and_more_messages_are_expected() -> None:
    before = request(TALK)
    after = request([*TALK, "nowhere", "look again"], tail="<slop-state>2")
    found = drift(before.wire, after.wire)
    assert found.kind == "appended"
    assert found.common_bytes >= before.wire.boundary
    assert found.lost_tokens == 0
    assert str(found).startswith("appended: ")


def test_a_changed_message_is_a_regression_with_its_slot_and_cost() -> None:
    before = request(TALK)
    after = request([TALK[0], "in the archive", TALK[2]])
    found = drift(before.wire, after.wire, input_price=2.0, read_price=0.2)
    assert found.kind == "regression"
    assert not found.expected
    assert (found.slot, found.message, found.label) == ("history", 2, "messages[1]")
    assert found.first_difference == common_start(before.wire.data, after.wire.data)
    assert 0 < found.lost_tokens < before.wire.tokens_before(before.wire.boundary)
    assert found.lost_cost == found.lost_tokens * 1.8 / 1e6
    assert "differs at byte" in str(found)
    assert "(slot 'history')" in str(found)


def test_changed_instructions_and_tools_are_named() -> None:
    before = request(TALK)
    assert drift(before.wire, request(TALK, system="Be long.").wire).label == "system"
    slots = Slots(100_000, "chars/4", tools=[{"name": "walk"}])
    slots.add("system", "Be brief.", role="system", priority=100)
    slots.add("input", TALK[0])
    other = encode(slots.render(), PROFILE)
    found = drift(before.wire, other.wire)
    assert (found.kind, found.label, found.slot) == ("regression", "tools", "")
    assert found.lost_cost is None


def test_a_window_that_folded_is_told_apart() -> None:
    before = request(["one", "two", "three", "four", "five"])
    after = request(["three", "four", "five", "six", "seven"])
    found = drift(before.wire, after.wire)
    assert (found.kind, found.expected) == ("fold", False)


@pytest.mark.parametrize("tail_share", [0, 0.25])
@pytest.mark.parametrize("content", ["ab" * 3_000, "a\n" * 3_000, "\n[…]" * 1_500, "é" * 6_000])
def test_a_result_that_is_cut_shorter_is_told_apart(content: str, tail_share: float) -> None:
    def wire(entries: list[Entry], **more: Any) -> Wire:
        said = [e.message for e in truncate(entries, Tiers(tail_share=tail_share), **more)]
        slots = Slots(100_000, "chars/4", tools=[{"name": "run"}])
        slots.add("history", said)
        return encode(slots.render(), PROFILE).wire

    call = Message("assistant", (ToolCall("c", "run"),))
    talk = [entry(1, Message.of("user", "run")), entry(2, call)]
    talk += [entry(3, Message("tool", (ToolResult("c", content),)))]
    found = drift(wire(talk), wire(talk, active_group=-1))
    assert (found.kind, found.expected) == ("tier", False)
    changed = [*talk[:2], entry(3, Message("tool", (ToolResult("c", "no" + content),)))]
    assert drift(wire(talk), wire(changed, active_group=-1)).kind == "regression"


def test_a_prepended_state_is_a_regression() -> None:
    from sightline.context.dialects import Options

    slots = Slots(100_000, "chars/4")
    slots.add("history", TALK[0])
    wires = []
    for tail in ("<slop-state>1", "<slop-state>2"):
        slots = Slots(100_000, "chars/4")
        slots.add("history", TALK[0])
        slots.add("state", tail, stability="volatile")
        wires.append(encode(slots.render(), PROFILE, Options(prepend=True)).wire)
    assert wires[0].boundary < wires[0].data.index(b"alice")
    assert drift(*wires).common_tokens < 10


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_common_bytes_is_the_longest_common_prefix(head: bytes, one: bytes, other: bytes) -> None:
    a, b = head + one, head + other
    count = common_start(a, b)
    assert a[:count] == b[:count]
    assert count == min(len(a), len(b)) or a[count] != b[count]


def test_tokens_are_shared_out_by_bytes_inside_a_piece() -> None:
    wire = Wire(b"x" * 30, 20, (ByteSpan(0, 10, "a", tokens=100), ByteSpan(10, 30, "b", tokens=50)))
    assert [wire.tokens_before(at) for at in (0, 5, 10, 20, 30)] == [0, 50, 100, 125, 150]
    assert wire.span_at(30) is None
    empty = drift(Wire(b"", 0), Wire(b"x", 1))
    assert (empty.kind, empty.label, empty.message) == ("appended", "", -1)
