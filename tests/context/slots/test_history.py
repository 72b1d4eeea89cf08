"""What a strategy may ask of the conversation, in whole units."""

from __future__ import annotations

import pytest

from context.slots.slot_examples import said, tool_round
from sightline.context.messages.parts import Message
from sightline.context.slots.strategy import History
from sightline.context.tokens.tokens import CharsPerFour
from sightline.errors import InvalidInput


def history(*messages: Message) -> History:
    return History(messages, CharsPerFour())


TALK = history(
    said(1, "a"),
    said(2, "b", "assistant"),
    said(3, "c"),
    *tool_round("1", 4, "d"),
    said(5, "e", "assistant"),
)


def texts(messages: list[Message]) -> list[str]:
    return [
        m.text[:1] or (m.tool_results[0].content[:1] if m.tool_results else "call")
        for m in messages
    ]


def test_the_last_of_each_side_is_found() -> None:
    assert (TALK.last_user, TALK.last_assistant) == (TALK[2], TALK[5])
    assert history().last_user is None
    assert len(TALK) == 6


def test_recent_returns_the_last_messages_in_order() -> None:
    assert texts(TALK.recent(3)) == ["call", "d", "e"]
    assert texts(TALK.recent(99)) == ["a", "b", "c", "call", "d", "e"]
    assert TALK.recent(0) == []


def test_a_tool_call_never_comes_without_its_results() -> None:
    assert texts(TALK.recent(2)) == ["e"]
    assert texts(TALK.range(6, 2)) == ["a", "b", "c"]


def test_range_counts_both_ends_from_the_end() -> None:
    assert texts(TALK.range(5, 3)) == ["b", "c"]
    assert texts(TALK.range(3)) == ["call", "d", "e"]
    assert TALK.range(2, 4) == []


def test_by_tokens_returns_the_newest_that_fit() -> None:
    assert texts(TALK.by_tokens(11)) == ["call", "d", "e"]
    assert texts(TALK.by_tokens(10)) == ["e"]
    assert TALK.by_tokens(4) == []
    assert len(TALK.by_tokens(10**9)) == 6


def test_groups_begin_with_what_the_user_said() -> None:
    assert texts(TALK.groups(1)) == ["c", "call", "d", "e"]
    assert texts(TALK.groups(2)) == texts(TALK.groups(0)) == texts(TALK.groups(9))


def test_recent_text_is_what_was_said_by_whom() -> None:
    talk = history(Message.of("user", "hi"), *tool_round("1", 1), Message.of("assistant", "yo"))
    assert talk.recent_text(9) == "user: hi\nassistant: yo"


def test_a_history_is_not_sliced_because_that_would_split_units() -> None:
    with pytest.raises(TypeError, match="slice"):
        TALK[1:3]  # type: ignore[index]  # what a strategy in untyped code would try


@pytest.mark.parametrize("count", [-1, True])
def test_a_count_is_not_negative(count: int) -> None:
    with pytest.raises(InvalidInput, match="is not a count"):
        TALK.recent(count)
