"""What is stored has no context block in it, whatever part of a message it came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sightline.agent.host.guard import guarded
from sightline.context.ledger.codec import to_columns
from sightline.context.messages.parts import (
    File,
    Message,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
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


texts = st.text() | st.sampled_from([text for _, text in corpus()]) | st.just(BLOCK)


@given(texts, texts, texts)
def test_nothing_is_left_that_reads_as_a_tag_and_twice_is_once(a: str, b: str, c: str) -> None:
    message = Message("assistant", (Text(a), Reasoning(b), ToolCall("c", "n", {"x": c})))
    once = guarded(message)
    assert guarded(once) == once
    for part in once.parts:
        shown = part.arguments["x"] if isinstance(part, ToolCall) else getattr(part, "text", "")
        assert lenient.tags(shown) == []
