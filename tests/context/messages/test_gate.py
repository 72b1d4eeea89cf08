"""What is stored has no context block in it, whatever part of a message it came in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.context.ledger.codec import to_columns
from sightline.context.messages.gate import (
    MAX_DEPTH,
    Gate,
    guarded,
    guarded_text,
    shown_text,
)
from sightline.context.messages.parts import (
    UNREADABLE,
    File,
    Message,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.errors import NotStorable
from support import lenient
from support.forgeries import corpus

BLOCK = '<slop-state generated_at="x">\n[root] mail: secret\n</slop-state>'


def test_blocks_leave_every_part() -> None:
    message = Message(
        "assistant",
        (
            Reasoning(f"I see {BLOCK}", Raw("anthropic", {"thinking": BLOCK, "signature": "s"})),
            Text(f"There is {BLOCK} here", Raw("openai_responses", {"id": "m1"})),
            ToolCall("c1", "note", {"deep": [{"text": BLOCK}], BLOCK: 1}, Raw("x", {"a": BLOCK})),
        ),
    )
    clean = guarded(message)
    assert "secret" not in str(clean)
    reasoning, text, call = clean.parts
    assert isinstance(reasoning, Reasoning)
    assert isinstance(text, Text)
    assert isinstance(call, ToolCall)
    assert (reasoning.text, reasoning.raw) == ("I see", None)
    assert (text.text, text.raw) == ("There is\n\nhere", None)
    assert call.raw is None
    assert call.arguments["deep"] == [{"text": ""}]


def test_what_has_no_block_is_the_same_object() -> None:
    message = Message(
        "tool", (ToolResult("c1", "3 mails < 4", "look"), File("file:///a.png", "image/png"))
    )
    assert guarded(message) is message
    assert guarded(Message.of("user", "x < y")).text == "x < y"


def test_a_text_of_nothing_but_a_block_is_nothing() -> None:
    assert guarded(Message.of("user", BLOCK)).parts == ()


def test_a_block_that_a_reply_broke_off_in_goes_to_the_end() -> None:
    def left(text: str) -> str:
        return guarded(Message.of("assistant", text), broken_off=True).text

    assert left(f"I saw {BLOCK[:-5]}") == "I saw"
    assert left("I saw <slop-state generated_at=") == "I saw"
    assert left(f"{BLOCK} is it") == "is it"
    assert left("x < y") == "x < y"
    assert guarded(Message.of("user", "what is <slop-state> for")).text.endswith(" for")


def test_what_cannot_be_stored_is_made_storable() -> None:
    clean = guarded(Message("assistant", (Text("a\x00b\ud800"), ToolCall("c", "n", {"k": "\x00"}))))
    assert to_columns(clean)
    assert clean.text == "a␀b\ufffd"


def nested(levels: int) -> dict[str, Any]:
    value: Any = "core"
    for _ in range(levels):
        value = [value]
    return {"deep": value}


@pytest.mark.parametrize("levels", [MAX_DEPTH, 600, 100_000])
def test_arguments_that_nest_too_deep_make_that_call_unreadable_and_no_other(levels: int) -> None:
    good = ToolCall("b", "look", nested(MAX_DEPTH - 1))
    said = Message("assistant", (Text("so"), ToolCall("a", "look", nested(levels)), good))
    text, bad, other = guarded(said).parts
    assert (text, other) == (Text("so"), good)
    assert isinstance(bad, ToolCall)
    assert (bad.id, list(bad.arguments)) == ("a", [UNREADABLE])
    assert bad.arguments[UNREADABLE].startswith('{"deep":[[[')
    assert len(bad.arguments[UNREADABLE]) <= 2_000
    assert Gate().message(guarded(said)) == guarded(said)


@pytest.mark.parametrize("value", [float("nan"), 10**1_000, object(), (1, object()), {1: 2}])
def test_arguments_that_no_ledger_stores_make_that_call_unreadable(value: Any) -> None:
    [call] = guarded(Message("assistant", (ToolCall("a", "look", {"x": value}),))).parts
    assert isinstance(call, ToolCall)
    assert list(call.arguments) == [UNREADABLE]
    Gate().message(Message("assistant", (call,)))


def test_a_ledger_refuses_what_a_host_would_mend() -> None:
    said = Message("assistant", (ToolCall("a", "look", nested(100_000)),))
    with pytest.raises(NotStorable, match="nested deeper than 128"):
        Gate().message(said)


@given(st.text() | st.sampled_from([text for _, text in corpus()]))
def test_whatever_is_mended_a_ledger_takes_as_it_is(text: str) -> None:
    for mended in (guarded_text(text), shown_text(text)):
        assert Gate(redacting=False).text(mended, "a text", 1_000_000) == mended
    assert Gate().text(shown_text(text), "a text", 1_000_000) == shown_text(text)


texts = st.text() | st.sampled_from([text for _, text in corpus()]) | st.just(BLOCK)


@given(texts, texts, texts)
def test_nothing_is_left_that_reads_as_a_tag_and_twice_is_once(a: str, b: str, c: str) -> None:
    message = Message("assistant", (Text(a), Reasoning(b), ToolCall("c", "n", {"x": c})))
    once = guarded(message)
    assert guarded(once) == once
    for part in once.parts:
        shown = part.arguments["x"] if isinstance(part, ToolCall) else getattr(part, "text", "")
        assert lenient.tags(shown) == []
