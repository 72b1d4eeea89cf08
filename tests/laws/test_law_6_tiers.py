"""Law 6, the one thing in a prefix that may change: a tool result that moves to its next tier.

std::slop, dynamic tool truncation: the newest results of the active group keep 5000 characters,
its older ones 1000, those of groups that are over 300. So between two folds of the window a
request begins with the one before it up to the first result that is cut shorter than it was,
and such a result is of the group that was active then, older than its five newest or over.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.messages.entry_values import entry
from laws.test_law_6_dialects import OWN, RECEIPT, TOOLS
from sightline.context.dialects import encode, profile_for
from sightline.context.dialects.drift import drift
from sightline.context.messages.parts import Entry, Message, ToolCall, ToolResult
from sightline.context.messages.replay import Tiers, hint_for, replay
from sightline.context.messages.window import Window
from sightline.context.slots.prompt import Prompt

LENGTHS = (0, 299, 300, 301, 999, 1000, 1001, 4999, 5000, 5001, 9000)
LIMITS = {"recent": 5000, "degraded": 1000, "over": 300}
talks = st.lists(st.lists(st.sampled_from(LENGTHS), max_size=9), min_size=1, max_size=8)


def requests(talk: list[list[int]]) -> Iterator[list[Entry]]:
    """Grow a conversation of groups with results of such lengths; yield it at every request."""
    stored: list[Entry] = []

    def store(group: int, message: Message) -> None:
        stored.append(entry(len(stored) + 1, message, group=group))

    for group, lengths in enumerate(talk, 1):
        store(group, Message.of("user", f"question {group}"))
        yield list(stored)
        for number, length in enumerate(lengths):
            call = ToolCall(f"c{group}x{number}", "look", {})
            store(group, Message("assistant", (call,)))
            text = "".join(f"{at:05}" for at in range(length // 5 + 1))[:length]
            store(group, Message("tool", (ToolResult(call.id, text, "look"),)))
            yield list(stored)
        store(group, Message.of("assistant", f"answer {group}"))


def tier(stored: list[Entry], at: int) -> str:
    """The seed's own words: active and recent, active and degraded, or over."""
    own = stored[at]
    if own.group_id != stored[-1].group_id:
        return "over"
    later = [e for e in stored[at:] if e.group_id == own.group_id and e.message.tool_results]
    return "recent" if len(later) <= 5 else "degraded"


def first_change(before: list[Entry], now: list[Entry], start: int) -> int:
    """Where the first result stands that is cut shorter now; the end of `before` if none is."""
    for at in range(start, len(before)):
        for result in before[at].message.tool_results:
            was, is_now = LIMITS[tier(before, at)], LIMITS[tier(now, at)]
            if is_now < min(was, len(result.content)):
                return at
    return len(before)


@settings(deadline=None, max_examples=60)
@given(talks, st.integers(0, 3), st.integers(0, 4))
def test_a_replay_begins_with_the_previous_one_up_to_the_first_result_of_another_tier(
    talk: list[list[int]], size: int, slack: int
) -> None:
    window = Window(size, slack)
    before: list[Entry] = []
    shown_before: list[Entry] = []
    for stored in requests(talk):
        shown = replay(stored, window, Tiers())
        start = stored.index(next(own for own in stored if own.id == shown[0].id))
        if shown_before and shown[0].id == shown_before[0].id:
            kept = first_change(before, stored, start) - start
            assert shown[:kept] == shown_before[:kept]
            active = before[-1].group_id
            for old, new in zip(shown_before[kept:], shown[kept:], strict=False):
                if old != new:
                    assert old.group_id == active
                    [cut] = new.message.tool_results
                    assert cut.content.endswith(hint_for(new.id))
        before, shown_before = stored, shown


@pytest.mark.parametrize("endpoint", OWN)
def test_so_do_the_bytes_of_a_request(endpoint: str) -> None:
    behind = {"tail.plain": "message", "tail.after_tools": "message"}  # not before the rounds
    profile, chance = profile_for(endpoint, overrides=behind), random.Random(56)
    cuts = 0
    for _ in range(12):
        talk = [[chance.choice(LENGTHS) for _ in range(chance.randint(0, 7))] for _ in range(4)]
        previous, before = None, []
        for stored in requests(talk):
            said = [own.message for own in replay(stored, Window(0, 5), Tiers())]
            tail = Message.of("user", f"state {len(stored)}")
            request = encode(Prompt((*said, tail), len(said), RECEIPT, TOOLS), profile)
            if previous is not None:
                change = drift(previous.wire, request.wire)
                at = first_change(before, stored, 0)
                whole = at == len(before)
                span = next((s for s in previous.wire.spans if s.message >= at), None)
                start = previous.wire.boundary if whole or span is None else span.start
                assert change.common_bytes >= min(start, previous.wire.boundary)
                assert change.kind in (("appended",) if whole else ("tier", "appended"))
                cuts += change.kind == "tier"
            previous, before = request, stored
    assert cuts > 20
