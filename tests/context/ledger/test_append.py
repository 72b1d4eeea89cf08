"""Appending: groups by role, keys that make retries safe, and one rule for odd content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context.ledger.helpers import FakeClock, prompts, turn
from sightline.context.ledger import Ledger, LedgerLimits, Session, StoredUsage
from sightline.context.messages.gate import storable
from sightline.context.messages.parts import (
    Draft,
    File,
    Message,
    Part,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.messages.window import TokenWindow
from sightline.errors import InvalidInput, NotFound, NotStorable, SessionChanged, TooLarge


class Word(str):
    """A string that is more than one."""


USER = Message.of("user", "hello")


def test_what_is_appended_is_read_back_as_it_was(ledger: Ledger, session: Session) -> None:
    parts: tuple[Part, ...] = (
        Reasoning("hm", raw=Raw("anthropic", {"signature": "abc", "n": [1, None]})),
        Text("Looking."),
        ToolCall("c1", "open", {"path": "/inbox", "deep": {"a": [1, 2.5, None, True]}}),
        ToolResult("c1", "opened\n\n\nthree lines", name="open", is_error=True),
        File("file:///a.png", "image/png", name="a.png", size=3),
        Text(""),
        Text("Done. 日本語 👩‍👩‍👧"),
    )
    stored = ledger.append(session.id, [USER, Message("assistant", parts)], strategy="anthropic")
    assert [entry.message for entry in stored] == [USER, Message("assistant", parts)]
    assert ledger.window(session.id) == stored
    assert ledger.message(stored[1].id) == stored[1]


def test_a_user_message_begins_a_group_and_others_join_it(ledger: Ledger, session: Session) -> None:
    ledger.append(session.id, turn(1)[:2], strategy="s")
    ledger.append(session.id, turn(1)[2:], strategy="s")
    ledger.append(session.id, [*turn(2), *turn(3)], strategy="s")
    assert [group.messages for group in ledger.groups.recent(session.id)] == [4, 4, 4]


def test_a_session_may_begin_with_the_assistant(ledger: Ledger, session: Session) -> None:
    ledger.append(session.id, [Message.of("assistant", "welcome")], strategy="s")
    assert len(ledger.groups.recent(session.id)) == 1


def test_a_reply_after_an_undo_does_not_join_an_older_group(
    ledger: Ledger, session: Session
) -> None:
    for number in (1, 2):
        ledger.append(session.id, turn(number), strategy="s")
    ledger.groups.undo(session.id)
    (entry,) = ledger.append(session.id, [Message.of("assistant", "late")], strategy="s")
    assert entry.group_id not in [e.group_id for e in ledger.window(session.id)[:4]]
    assert ledger.verify().ok


def test_order_is_by_sequence_and_never_by_clock(
    ledger: Ledger, session: Session, clock: FakeClock
) -> None:
    for number in range(4):
        clock.advance(hours=-1)
        ledger.append(session.id, turn(number), strategy="s")
    assert prompts(ledger, session.id) == [f"question {n}" for n in range(4)]
    times = [entry.created_at for entry in ledger.window(session.id)]
    assert times == sorted(times, reverse=True)


def test_a_retry_with_the_same_key_stores_nothing_twice(ledger: Ledger, session: Session) -> None:
    first = ledger.append(session.id, turn(1), strategy="s", key="turn-1")
    again = ledger.append(session.id, turn(1), strategy="s", key="turn-1")
    assert again == first
    assert len(ledger.window(session.id)) == 4


def test_a_key_holds_for_its_session_alone(ledger: Ledger, session: Session) -> None:
    other = ledger.sessions.create("other")
    ledger.append(session.id, [USER], strategy="s", key="k")
    ledger.append(other.id, [USER], strategy="s", key="k")
    assert len(ledger.window(other.id)) == 1


def test_a_key_used_for_other_messages_is_refused(ledger: Ledger, session: Session) -> None:
    ledger.append(session.id, [USER], strategy="s", key="k")
    with pytest.raises(InvalidInput, match="used for other messages"):
        ledger.append(session.id, [Message.of("user", "other")], strategy="s", key="k")


def test_an_append_is_all_or_nothing(ledger: Ledger, session: Session) -> None:
    bad = Message.of("assistant", "nul \x00")
    with pytest.raises(NotStorable):
        ledger.append(session.id, [USER, bad], strategy="s")
    assert ledger.window(session.id) == ()


@pytest.mark.parametrize(
    ("part", "place"),
    [
        (Text("a\x00b"), r"part 0 \(text\): U\+0000 at character 1"),
        (Text("a\ud800"), r"U\+D800 at character 1"),
        (Text("日\x00"), r"U\+0000 at character 1"),
        (ToolResult("c", "\x00"), r"part 0 \(content\)"),
        (ToolResult("c\x00", ""), r"part 0 \(call_id\)"),
        (ToolCall("c", "n", {"a": ["\udfff"]}), r"arguments\).a\[0\]"),
        (ToolCall("c", "n", {"\x00": 1}), "a key of"),
        (ToolCall("c", "n", {"a": float("nan")}), "nan is not JSON"),
        (ToolCall("c", "n", {"a": float("-inf")}), "-inf is not JSON"),
        (ToolCall("c", "n", {"a": 10**1000}), "more than 1,000 digits"),
        (ToolCall("c", "n", {"a": {1: 2}}), "is not a string"),
        (ToolCall("c", "n", {"a": object()}), "object is not JSON"),
        (ToolCall("c", "n", {"a": (1, 2)}), "tuple is not JSON"),
        (Reasoning("r", raw=Raw("s", {"a": "\x00"})), r"\(raw\).data.a"),
        # What Python lets pass for a part, and could never be read again once it is written.
        ("text", "part 0: str is no part"),
        (Text(5), r"part 0 \(text\): int does not belong"),  # type: ignore[arg-type]
        (Text(Word("a")), r"part 0 \(text\): Word does not belong"),
        (Text("a", raw={}), r"\(raw\): dict does not belong"),  # type: ignore[arg-type]
        (Text("a", Raw(None, 1)), "its strategy is no string"),  # type: ignore[arg-type]
        (ToolCall("c", "n", None), r"\(arguments\): NoneType"),  # type: ignore[arg-type]
        (ToolCall("c", "n", {"a": Word("b")}), "Word is not JSON"),
        (ToolCall("c", "n", {Word("a"): 1}), "is not a string"),
        (ToolResult("c", "x", is_error=1), r"\(is_error\): int"),  # type: ignore[arg-type]
    ],
)
def test_what_would_not_come_back_as_it_was_is_refused_by_name(
    ledger: Ledger, session: Session, part: Part, place: str
) -> None:
    with pytest.raises(NotStorable, match=place):
        ledger.append(session.id, [Message("assistant", (part,))], strategy="s")
    assert ledger.window(session.id) == ()


def test_a_message_of_no_role_is_refused(ledger: Ledger, session: Session) -> None:
    odd: Any = Message("robot", ())  # type: ignore[arg-type]
    with pytest.raises(NotStorable, match="no role"):
        ledger.append(session.id, [odd], strategy="s")

    assert ledger.window(session.id) == ()


def test_a_number_that_no_file_can_hold_names_nothing(ledger: Ledger, session: Session) -> None:
    huge = 2**70
    ways: list[Callable[[], object]] = [
        lambda: ledger.append(huge, [USER], strategy="s"),
        lambda: ledger.window(huge),
        lambda: ledger.message(huge),
        lambda: ledger.groups.drop(session.id, huge),
        lambda: ledger.memos.delete(huge),
        lambda: ledger.query("SELECT 1", session_id=huge),
    ]
    for way in ways:
        with pytest.raises(InvalidInput, match="names nothing"):
            way()


def test_nesting_too_deep_is_refused_without_a_recursion_error(
    ledger: Ledger, session: Session
) -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    message = Message("assistant", (ToolCall("c", "n", {"a": deep}),))
    with pytest.raises(NotStorable, match="deeper than 128"):
        ledger.append(session.id, [message], strategy="s")


def test_integers_of_any_size_within_the_rule_are_exact(ledger: Ledger, session: Session) -> None:
    numbers = [2**63 - 1, -(2**63), 2**64, 10**30, -(10**999)]
    message = Message("assistant", (ToolCall("c", "n", {"numbers": numbers}),))
    (entry,) = ledger.append(session.id, [message], strategy="s")
    assert ledger.message(entry.id).message == message  # from the file, not from what is at hand


@pytest.mark.of_a_file
def test_ten_megabytes_are_stored_once_and_whole(ledger: Ledger, session: Session) -> None:
    content = "größe " * 1_700_000
    message = Message("tool", (ToolResult("c", content),))
    (entry,) = ledger.append(session.id, [message], strategy="s")
    assert ledger.message(entry.id).message == message
    ledger._store.scrub()
    assert ledger.path.stat().st_size < 1.2 * len(content.encode())


def test_a_message_over_the_limit_is_refused(tmp_path: Any) -> None:
    with Ledger(tmp_path / "l.db", limits=LedgerLimits(message=1000)) as ledger:
        session = ledger.sessions.create("s")
        with pytest.raises(TooLarge, match="1,001 bytes; the limit of the ledger is 1,000"):
            ledger.append(session.id, [Message.of("user", "x" * 1001)], strategy="s")
        ledger.append(session.id, [Message.of("user", "x" * 1000)], strategy="s")


def test_what_a_tool_printed_can_be_made_storable(ledger: Ledger, session: Session) -> None:
    text = storable("a\x00b\ud800c")
    assert text == "a␀b\ufffdc"
    ledger.append(session.id, [Message.of("user", text)], strategy="s")


@pytest.mark.parametrize("tokens", [-1, 2**60, 1.5, True, "3"])
def test_a_weight_that_is_no_count_is_refused(
    ledger: Ledger, session: Session, tokens: Any
) -> None:
    with pytest.raises(InvalidInput, match="tokens is a whole number"):
        ledger.append(session.id, [Draft(USER, tokens)], strategy="s")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"messages": []}, "nothing to append"),
        ({"strategy": ""}, "a strategy is one line"),
        ({"strategy": "a\nb"}, "a strategy is one line"),
        ({"key": " "}, "an append key is one line"),
        ({"messages": [Draft(USER, 1, "guessed")]}, "a basis is"),  # type: ignore[arg-type]  # bad
        ({"usage": StoredUsage("m", 1, 1)}, "usage belongs to an assistant"),
        ({"session_id": 99}, "no session 99"),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_stored(
    ledger: Ledger, session: Session, arguments: dict[str, Any], reason: str
) -> None:
    good = {"session_id": session.id, "messages": [USER], "strategy": "s"}
    with pytest.raises((InvalidInput, NotFound), match=reason):
        ledger.append(**{**good, **arguments})
    assert ledger.window(session.id) == ()


def test_a_broken_off_reply_is_kept_as_incomplete(ledger: Ledger, session: Session) -> None:
    drafts = [Draft(USER), Draft(Message.of("assistant", "I was ab"), incomplete=True)]
    ledger.append(session.id, drafts, strategy="s")
    assert [entry.status for entry in ledger.window(session.id)] == ["complete", "incomplete"]


def test_a_reply_with_calls_has_the_status_tool_call(ledger: Ledger, session: Session) -> None:
    ledger.append(session.id, turn(1), strategy="openai")
    result = ledger.query(
        "SELECT role, status, parsing_strategy, tool_call_id FROM messages ORDER BY id",
        session_id=session.id,
    )
    assert result.rows == (
        ("user", "complete", "openai", None),
        ("assistant", "tool_call", "openai", None),
        ("tool", "complete", "openai", "c1"),
        ("assistant", "complete", "openai", None),
    )


def test_what_comes_without_a_weight_is_weighed(ledger: Ledger, session: Session) -> None:
    question, answer = Message.of("user", "word " * 100), Message.of("assistant", "word " * 100)
    entries = ledger.append(session.id, [question, Draft(answer)], strategy="openai")
    assert all(entry.tokens > 90 and entry.basis == "estimated" for entry in entries)
    assert ledger.append(session.id, [Draft(answer, 0)], strategy="openai")[0].tokens == 0
    ledger.append(session.id, [question], strategy="openai")
    assert [e.message for e in ledger.window(session.id, TokenWindow(150))] == [question]


def test_what_was_said_meanwhile_is_not_overlooked(ledger: Ledger, session: Session) -> None:
    head = ledger.sessions.get(session.id).head
    ledger.append(session.id, [Message.of("user", "first")], head=head)
    with pytest.raises(SessionChanged):
        ledger.append(session.id, [Message.of("user", "second")], head=head)
    with pytest.raises(SessionChanged):
        ledger.sessions.delete(session.id, confirm=session.name, head=head)
    assert [entry.message.text for entry in ledger.window(session.id)] == ["first"]
    head = ledger.sessions.get(session.id).head
    ledger.sessions.delete(session.id, confirm=session.name, head=head)
    assert ledger.sessions.find(session.name) is None
