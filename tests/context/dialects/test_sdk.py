"""Lists of dicts as the vendors' SDKs take them: read, given back, cached; nothing is lost."""

from __future__ import annotations

import json
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
from anthropic.types import TextBlock
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from sightline.context import Budget, Ledger, Message, Messages, Slots, ToolCall, cached
from sightline.context.messages.parts import ToolResult
from sightline.errors import InvalidInput

text = st.text('aé<"\\ \n', min_size=1, max_size=9)
name = st.sampled_from(["slop_invoke", "look", "f"])
number = st.integers(0, 99).map("call_{}".format)
values = st.dictionaries(text, st.one_of(text, st.integers(), st.none()), max_size=2)
mark = st.sampled_from([{}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}])


def shuffled(value: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The same fields in any order: bytes are more than equality."""
    return st.permutations(list(value.items())).map(dict)


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields).flatmap(shuffled)


part = st.one_of(
    record(type=st.just("text"), text=text),
    record(
        type=st.just("image_url"),
        image_url=record(url=st.just("https://a.example/b.png"), detail=st.just("low")),
    ),
)
content = st.one_of(text, st.lists(part, min_size=1, max_size=2))
function = record(name=name, arguments=st.one_of(values.map(json.dumps), st.just("{ broken")))
call = record(id=number, type=st.just("function"), function=function)
openai_message = st.one_of(
    record(role=st.sampled_from(["system", "developer", "user"]), content=content),
    record(role=st.just("user"), content=text, name=text),
    record(role=st.just("assistant"), content=text, refusal=st.none(), annotations=st.just([])),
    record(role=st.just("assistant"), content=st.none(), tool_calls=st.lists(call, min_size=1)),
    record(role=st.just("tool"), tool_call_id=number, content=text),
)
picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}
block = st.one_of(
    st.builds(lambda value, more: {**value, **more}, record(type=st.just("text"), text=text), mark),
    record(type=st.just("image"), source=st.just(picture)),
    record(type=st.just("tool_use"), id=number, name=name, input=values),
    record(type=st.just("tool_result"), tool_use_id=number, content=text, is_error=st.booleans()),
    record(type=st.just("thinking"), thinking=text, signature=text),
)
anthropic_message = record(
    role=st.sampled_from(["user", "assistant"]),
    content=st.one_of(text, st.lists(block, min_size=1, max_size=3)),
)


@given(st.lists(openai_message, max_size=4), st.lists(anthropic_message, max_size=4))
def test_what_was_read_is_given_back_byte_for_byte(
    chat: list[dict[str, Any]], claude: list[dict[str, Any]]
) -> None:
    before = json.dumps([chat, claude])
    read = Messages.from_openai(chat), Messages.from_anthropic(claude)
    assert json.dumps([read[0].to_openai(), read[1].to_anthropic()]) == before
    for message in (*read[0].to_openai(), *chat):
        message.clear()
    assert json.dumps([read[0].to_openai(), read[1].to_anthropic()]) == json.dumps(
        [json.loads(before)[0], claude]
    )


neutral = st.one_of(
    st.builds(Message.of, st.sampled_from(["user", "assistant"]), text),
    st.builds(lambda c: Message("assistant", (c,)), st.builds(ToolCall, number, name, values)),
    st.builds(lambda r: Message("tool", (r,)), st.builds(ToolResult, number, text)),
)


@given(st.lists(neutral, max_size=5))
def test_what_no_vendor_wrote_says_the_same_in_every_form(messages: list[Message]) -> None:
    ours = Messages(messages)
    assert list(Messages.from_openai(ours.to_openai())) == messages
    read = Messages.from_anthropic(Messages.from_openai(ours.to_openai()).to_anthropic())
    assert [p for m in read for p in m.parts] == [p for m in messages for p in m.parts]
    assert all(one.role != other.role or {one.role, other.role} == {"user", "tool"}
               for one, other in pairwise(read))  # fmt: skip


@given(
    st.lists(openai_message, max_size=5),
    st.lists(anthropic_message, max_size=5),
    st.sampled_from(["openai", "mistral", "openrouter", "dashscope", "vllm", "llama.cpp"]),
    st.sampled_from(["", "gpt-5.6", "qwen3-max", "mistral-7b"]),
)
def test_the_tail_is_behind_everything_marked_and_nothing_else_changes(
    chat: list[dict[str, Any]], claude: list[dict[str, Any]], vendor: str, model: str
) -> None:
    before = deepcopy((chat, claude))
    for messages, sent in (
        (chat, cached(chat, "THE TAIL", vendor=vendor, model=model)),
        (claude, cached(claude, "THE TAIL", vendor="anthropic", model=model)),
    ):
        written = json.dumps(sent)
        assert written.count("THE TAIL") == 1
        tail = written.index("THE TAIL")
        own = json.dumps(messages).count("cache_control")
        marks = [written.rfind(field) for field in ("cache_control", "prompt_cache_breakpoint")]
        assert max(marks) < tail
        assert written.count("cache_control") <= max(own, 4)
        assert written.count("prompt_cache_breakpoint") <= 4
        assert cached(messages, "", vendor="mistral") == messages
    assert (chat, claude) == before


def test_marks_move_on_and_the_rest_of_the_prefix_stays() -> None:
    first: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    assert cached(first, "T1", vendor="anthropic") == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "T1"},
            ],
        }
    ]
    later = [*first, {"role": "assistant", "content": [TextBlock(type="text", text="hello")]}]
    assert cached(later, "T2", vendor="anthropic") == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}],
        },
        {"role": "user", "content": [{"type": "text", "text": "T2"}]},
    ]
    # A state that somebody kept is marked no more, nor is anything behind it.
    kept = [{"role": "user", "content": "<slop-state generated_at=…>"}, *first]
    assert "cache_control" not in json.dumps(cached(kept, "T", vendor="anthropic"))
    assert "cache_control" not in json.dumps(cached(first, "T", vendor="anthropic", marked=4))


def test_an_object_of_an_sdk_is_a_message_too() -> None:
    reply = ChatCompletionMessage(role="assistant", content="hello")
    assert Messages.from_openai([reply]).to_openai() == [{"role": "assistant", "content": "hello"}]
    assert cached([reply], "T", vendor="openai")[0]["content"] == "hello"


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "input_audio"),
        ([{"role": "user", "content": "a"}, {"role": "user", "contents": "b"}], "contents"),
        ([{"role": "owner", "content": "a"}], "owner"),
        (["hello"], "hello"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(messages: Any, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        Messages.from_openai(messages)


def test_anthropic_forms_that_cannot_be_read_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="server_tool_use"):
        Messages.from_anthropic([{"role": "user", "content": [{"type": "server_tool_use"}]}])
    with pytest.raises(InvalidInput, match="behind others"):
        Messages([Message.of("user", "a"), Message.of("system", "b")]).to_anthropic()
    with pytest.raises(InvalidInput, match="gemini"):
        cached([], "T", vendor="gemini")
    read = Messages.from_anthropic([{"role": "user", "content": "hi"}], system="Be brief.")
    assert (read.system, read.to_openai()[0]["role"]) == ("Be brief.", "system")


def test_slots_and_the_ledger_take_and_give_the_same_dicts(tmp_path: Any) -> None:
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
    ]
    slots = Slots(Budget(1_000), "chars/4")
    slots.add("history", Messages.from_openai(history))
    assert Messages(slots.render().messages).to_openai() == history
    with Ledger(tmp_path / "a.db") as ledger:
        session = ledger.sessions.create("a")
        ledger.append(session.id, history)
        assert Messages(ledger.window(session.id)).to_openai() == history
        more = Messages.from_openai(history) + ledger.window(session.id)
        assert more.to_openai() == history + history
