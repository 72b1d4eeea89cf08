"""Where the tail goes, what carries a mark, which reasoning comes back, what had to be mended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from context.dialects.cases import ASK, CALL, CASES, FOUND, prompt, state
from context.projection.requirements import proves
from sightline.context.dialects import Options, encode, endpoints, profile_for, usage_from
from sightline.context.dialects.drift import common_start
from sightline.context.dialects.gemini import cached_content_body
from sightline.context.dialects.request import CachedContent, Request
from sightline.context.messages.parts import (
    Entry,
    Message,
    Raw,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from sightline.context.messages.replay import truncate
from sightline.context.slots.prompt import Prompt
from sightline.errors import InvalidInput
from support.vendor_rules import breaches

FREE = {"cache.min_tokens": 0}
TAIL = state("### Mail (mail-app)")


def written(endpoint: str, case: Prompt, model: str = "", **options: Any) -> Request:
    return encode(case, profile_for(endpoint, model, FREE), Options(**options))


def codes(request: Request) -> set[str]:
    return {note.code for note in request.notes}


def say(*texts: str) -> list[Message]:
    return [Message.of("user" if i % 2 == 0 else "assistant", t) for i, t in enumerate(texts)]


@proves("CI-M")
@pytest.mark.parametrize("endpoint", endpoints())
def test_state_never_stands_in_what_the_model_or_a_tool_said(endpoint: str) -> None:
    for case in CASES.values():
        body = written(endpoint, case()).body
        for item in body.get("messages") or body.get("input") or body["contents"]:
            kind = item.get("role") or item.get("type")
            if kind in ("assistant", "model", "tool", "function_call_output", "function_call"):
                assert "<slop-state" not in str(item)
        assert "<slop-state" not in str(body.get("tools"))


@proves("CI-4")
@pytest.mark.parametrize("endpoint", endpoints())
def test_the_tail_is_behind_the_boundary_and_once_only(endpoint: str) -> None:
    for case in CASES.values():
        made = case()
        request = written(endpoint, made)
        # The instructions speak of the tag; only the tail has one with a time in it.
        assert b"<slop-state generated_at" not in request.prefix
        expected = 1 if made.tail else 0
        assert request.data.count(b"<slop-state generated_at") == expected


@pytest.mark.parametrize("endpoint", ["anthropic", "bedrock", "gemini", "openai-responses"])
def test_a_profile_can_put_the_tail_into_the_user_s_turn_anywhere(endpoint: str) -> None:
    values = {**FREE, "tail.plain": "into_user", "tail.after_tools": "into_user"}
    request = encode(CASES["tool_loop"](), profile_for(endpoint, overrides=values))
    written_out = request.data.decode()
    assert written_out.index("<slop-state gen") < written_out.index("call_1")
    assert "tail_before_tool_rounds" in codes(request)
    # A mark behind the tail would be on something that the next tail voids.
    marks = ("cache_control", "cachePoint", "prompt_cache_breakpoint")
    assert all(mark not in written_out[written_out.index("<slop-state gen") :] for mark in marks)


def test_with_nothing_said_the_tail_is_a_message_of_its_own() -> None:
    receipt = CASES["plain"]().receipt
    only = Prompt((Message.of("user", TAIL),), 0, receipt)
    assert written("ollama", only).body["messages"] == [{"role": "user", "content": TAIL}]


@proves("CI-C")
def test_mistral_gets_an_assistant_message_between_results_and_tail() -> None:
    request = written("mistral", CASES["tool_loop"]())
    assert [m["role"] for m in request.body["messages"]][-3:] == ["tool", "assistant", "user"]
    assert "filler" in codes(request)
    assert "filler" not in codes(written("mistral", CASES["plain"]()))
    [call] = request.body["messages"][2]["tool_calls"]
    assert call["id"].isalnum()
    assert len(call["id"]) == 9


def test_llama_on_bedrock_gets_one_too() -> None:
    request = written("bedrock", CASES["tool_loop"](), "meta.llama4-maverick")
    assert [m["role"] for m in request.body["messages"]][-3:] == ["user", "assistant", "user"]
    assert request.body["messages"][-2]["content"] == [{"text": "."}]
    assert request.marks == 0


@proves("CI-C")
def test_qwen_s_reasoning_survives_because_the_tail_is_in_the_user_s_message() -> None:
    request = written("vllm", CASES["tool_loop"](), "Qwen/Qwen3-32B")
    roles = [m["role"] for m in request.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert "<slop-state generated_at" in request.body["messages"][1]["content"]
    assert "tail_before_tool_rounds" in codes(request)


@proves("CI-4a")
def test_a_tail_that_can_only_be_prepended_is_flagged() -> None:
    request = written("anthropic", CASES["plain"](), prepend=True)
    assert "prepend_regression" in codes(request)
    assert "<slop-state generated_at" in str(request.body["messages"][0])
    assert len(request.prefix) < 900
    warned = request.receipt_of(CASES["plain"]()).warnings
    assert "prepend_regression" in [warning.code for warning in warned]
    assert "cache_control" not in str(request.body["messages"])
    assert request.marks == 1


def test_a_tail_is_state_and_nothing_else() -> None:
    receipt = CASES["plain"]().receipt
    for wrong in (FOUND, Message.of("assistant", "x"), Message("user", (CALL,))):
        with pytest.raises(InvalidInput, match="the tail has a"):
            encode(Prompt((ASK, wrong), 1, receipt), profile_for("anthropic"))


MARKS = ("cache_control", "cachePoint", "prompt_cache_breakpoint")


@proves("CI-5", "CI-5a")
def test_the_mark_is_on_the_last_stable_block() -> None:
    body = written("anthropic", CASES["tool_loop"]()).body
    *_, result, tail = body["messages"][-1]["content"]
    assert result["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in tail
    chat = written("openai-chat", CASES["plain"]()).body
    assert chat["messages"][-2]["content"][-1]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert chat["prompt_cache_options"] == {"mode": "explicit", "ttl": "30m"}
    assert str(chat).count("prompt_cache_breakpoint") == 2, "one for the instructions"


@pytest.mark.parametrize(
    "endpoint",
    ["anthropic", "bedrock", "openai-chat", "openai-responses", "openrouter", "dashscope"],
)
def test_after_a_fold_there_is_a_mark_to_read_the_instructions_from(endpoint: str) -> None:
    talk = [f"{n} " * 40 for n in range(9)]
    before, after = (written(endpoint, prompt(say(*talk[at : at + 5]))) for at in (0, 4))
    assert before.marks == after.marks == 2
    common = common_start(before.wire.data, after.wire.data)
    first, last = (offset for offset, _ in before.inserts)
    assert first <= common < last
    instructions = before.wire.data[:first]
    assert b"You help with mail" in instructions
    assert talk[0].encode() not in instructions


@proves("CI-5c")
@pytest.mark.parametrize("endpoint", endpoints())
def test_no_mark_stands_behind_live_state_that_a_layout_puts_before_the_history(
    endpoint: str,
) -> None:
    given = CASES["tool_loop"]()
    system = next(i for i, message in enumerate(given.messages) if message.role != "system")
    moved = (*given.messages[:system], *given.tail, *given.messages[system : given.boundary])
    request = written(endpoint, Prompt(moved, len(moved), given.receipt, given.tools))
    body = request.data.decode()
    before, state, after = body.partition("<slop-state generated_at")
    assert state
    assert not any(mark in after for mark in MARKS)
    assert request.marks == sum(before.count(f'"{mark}":') for mark in MARKS)
    assert request.marks == int(request.profile.cache.max_marks > 0)


@proves("CI-5d")
def test_there_is_no_mark_below_the_minimum() -> None:
    for endpoint in ("anthropic", "bedrock", "openai-chat", "openai-responses", "dashscope"):
        request = encode(CASES["plain"](), profile_for(endpoint))
        assert request.marks == 0
        assert "below_cache_minimum" in codes(request)
        for mark in ("cache_control", "cachePoint", "prompt_cache_breakpoint"):
            assert mark not in request.data.decode()


def test_a_far_previous_end_gets_a_mark_of_its_own() -> None:
    calls = tuple(ToolCall(f"c{i}", "run") for i in range(12))
    results = Message("tool", tuple(ToolResult(call.id, "ok") for call in calls))
    history = [ASK, Message("assistant", calls), results]
    for endpoint, marks in {"anthropic": 3, "bedrock": 3}.items():
        request = written(endpoint, prompt(history))
        assert request.marks == marks
        assert "ephemeral" in str(request.body["messages"][0]) or "cachePoint" in str(
            request.body["messages"][0]
        )
    assert written("anthropic", prompt(say("a", "b", "c"))).marks == 2
    # Qwen counts the messages of tools one by one.
    calls = tuple(ToolCall(f"c{i}", "run") for i in range(20))
    results = Message("tool", tuple(ToolResult(call.id, "ok") for call in calls))
    own = {**FREE, "tail.after_tools": "message"}
    qwen = encode(
        prompt([ASK, Message("assistant", calls), results]), profile_for("dashscope", "", own)
    )
    assert qwen.marks == 3


def long_loop(turns: Sequence[int]) -> Iterator[list[Message]]:
    """Grow a conversation of turns with so many calls each; what is asked with at each request."""
    groups: list[list[Entry]] = []

    def store(message: Message) -> None:
        number = sum(map(len, groups)) + 1
        groups[-1].append(
            Entry(number, 1, len(groups), number, message, "complete", "x", 0, "counted", "")
        )

    def shown() -> list[Message]:
        return [entry.message for entry in truncate([e for group in groups for e in group])]

    for turn, calls in enumerate(turns):
        groups.append([])
        store(Message.of("user", f"question {turn}"))
        yield shown()
        for number in range(calls):
            call = ToolCall(f"t{turn}n{number}", "mail.search", {})
            store(Message("assistant", (Text("Next."), call)))
            store(Message("tool", (ToolResult(call.id, f"{turn}/{number} " * 300, "mail.search"),)))
            yield shown()
        store(Message.of("assistant", "Done."))


@proves("CI-5")
@pytest.mark.parametrize("endpoint", ["anthropic", "bedrock", "openai-responses"])
def test_a_long_tool_loop_reads_all_but_the_results_that_are_cut_next(endpoint: str) -> None:
    """A vendor keeps what requests have marked, and looks back from the marks of the next one."""
    block = re.compile(
        rb'\{"type":"(?:text|tool_use|tool_result)|\{"text":"(?:Next|question|Done)'
        rb'|\{"tool(?:Use|Result)":'
    )
    kept: set[bytes] = set()
    for history in long_loop([9, 30, 1]):
        request = written(endpoint, prompt(history, [TAIL]))
        back, data = request.profile.cache.lookback_blocks or 999, request.wire.data
        places = [at for at, _ in request.inserts]
        assert len(places) == request.marks <= 4
        read = max(
            (
                len(held)
                for held in kept
                if data.startswith(held)
                and any(
                    len(block.findall(data, len(held), at)) <= back
                    for at in places
                    if at >= len(held)
                )
            ),
            default=0,
        )
        kept |= {data[:at] for at in places}
        asked = [message.text for message in history if message.role == "user"]
        if history[-1].role == "user":
            assert len(asked) == 1 or read > data.index(asked[-2].encode())
        else:
            assert places[-1] - read < 10_500, "five whole results, and one that is cut by now"


def test_marks_of_one_s_own_count() -> None:
    extra = {"cache_control": {"type": "ephemeral"}}
    *_, history = long_loop([9, 30])
    assert [written("anthropic", prompt(history), extra=e).marks for e in ({}, extra)] == [4, 4]
    body = written("anthropic", prompt(history), extra=extra).data.decode()
    assert body.count('"cache_control"') == 4


@proves("CI-5c")
@pytest.mark.parametrize("endpoint", endpoints())
def test_no_mark_stands_on_the_tail_or_behind_it(endpoint: str) -> None:
    for case in CASES.values():
        body = written(endpoint, case()).data.decode()
        _, tail, after = body.partition("<slop-state generated_at")
        assert not tail or not any(mark in after for mark in MARKS)


@proves("CI-5b")
@pytest.mark.parametrize("endpoint", endpoints())
def test_where_caching_is_automatic_there_is_no_mark_and_the_hits_can_be_read(
    endpoint: str,
) -> None:
    profile = profile_for(endpoint, overrides={**FREE, "cache.style": "automatic"})
    for case in CASES.values():
        request = encode(case(), profile)
        assert request.marks == 0
        assert not any(mark in request.data.decode() for mark in MARKS)
    if profile.dialect != "ollama":
        # Ollama tells what it evaluated, which is the rest.
        hits = usage_from(profile.dialect, REPORTED[profile.dialect]).cache_read_tokens
        assert hits == 700


REPORTED: dict[str, dict[str, Any]] = {
    "openai_chat": {"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 700}},
    "openai_responses": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 700}},
    "anthropic": {"input_tokens": 300, "cache_read_input_tokens": 700},
    "gemini": {"promptTokenCount": 1000, "cachedContentTokenCount": 700},
    "bedrock": {"inputTokens": 300, "cacheReadInputTokens": 700},
}


@proves("CI-L")
@pytest.mark.parametrize("endpoint", endpoints())
def test_the_catalogue_stands_with_the_state_behind_the_boundary(endpoint: str) -> None:
    request = written(endpoint, CASES["three_apps"]())
    assert b"<slop-apps-available generated_at" not in request.prefix
    assert request.data.count(b"<slop-apps-available generated_at") == 1


@proves("CI-I")
@pytest.mark.parametrize("endpoint", endpoints())
def test_the_same_prompt_is_the_same_bytes_with_its_tools_in_their_order(endpoint: str) -> None:
    for case in CASES.values():
        once, again = (written(endpoint, case(), conversation="c7") for _ in range(2))
        assert (once.data, once.headers, once.path) == (again.data, again.headers, again.path)
        if not once.profile.tools.calls:
            assert "tools" not in once.body
            continue
        tools = str(once.body.get("tools") or once.body["toolConfig"])
        assert tools.index("slop_invoke") < tools.index("Search mail.")


def test_a_single_mark_is_for_the_last_stable_block() -> None:
    for endpoint in ("anthropic", "bedrock"):
        profile = profile_for(endpoint, overrides={**FREE, "cache.max_marks": 1})
        request = encode(CASES["tool_loop"](), profile)
        assert request.marks == 1
        assert "cache" not in str(request.body["system"])


def test_no_cache_point_follows_a_document() -> None:
    from sightline.context.messages.parts import File

    paper = File("data:application/pdf;base64,aGk=", "application/pdf", "p.pdf")
    made = written("bedrock", prompt([Message("user", (Text("read"), paper))]))
    kinds = [next(iter(block)) for block in made.body["messages"][0]["content"]]
    assert kinds == ["text", "cachePoint", "document", "text"]


def test_lifetimes_are_checked_and_sent() -> None:
    request = written("anthropic", CASES["plain"](), cache_ttl="1h")
    assert '"cache_control":{"type":"ephemeral","ttl":"1h"}' in request.data.decode()
    assert '"ttl":"1h"' in written("bedrock", CASES["plain"](), cache_ttl="1h").data.decode()
    assert (
        '"ttl":"12h"'
        in written("openai-responses", CASES["plain"](), cache_ttl="12h").data.decode()
    )
    with pytest.raises(InvalidInput, match=r"openai-chat does not have a cache lifetime of '12h'"):
        written("openai-chat", CASES["plain"](), cache_ttl="12h")


@proves("CI-I")
def test_hints_keep_a_conversation_on_one_cache() -> None:
    told = {"conversation": "c7"}
    assert written("openai-chat", CASES["plain"](), **told).body["prompt_cache_key"] == "c7"
    assert written("openrouter", CASES["plain"](), **told).body["session_id"] == "c7"
    assert written("xai", CASES["plain"](), **told).headers == {"x-grok-conv-id": "c7"}


def test_diagnostics_are_asked_for_and_stay_out_of_the_comparison() -> None:
    request = written("anthropic", CASES["plain"](), previous_id="msg_1")
    assert request.body["diagnostics"] == {"previous_message_id": "msg_1"}
    assert b"msg_1" not in request.wire.data
    asked = written("openai-responses", CASES["plain"](), previous_id="resp_1").body
    assert asked["prompt_cache_options"]["comparison_response_id"] == "resp_1"


THOUGHT = Reasoning("t", Raw("anthropic", {"type": "thinking", "thinking": "t", "signature": "s"}))
LOOP = [
    ASK,
    Message("assistant", (THOUGHT, Text("Found."))),
    Message.of("user", "reply"),
    Message("assistant", (THOUGHT, CALL)),
    FOUND,
]


def thinking_blocks(request: Request) -> int:
    return str(request.body["messages"]).count("'thinking'")


def test_bound_reasoning_is_dropped_by_the_vendor_by_default() -> None:
    request = written("anthropic", prompt(LOOP))
    assert request.thinking == "drop"
    assert request.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert request.body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert thinking_blocks(request) == 4
    assert "thinking" in codes(request)


def test_older_models_get_their_reasoning_back_as_it_was() -> None:
    request = written("anthropic", prompt(LOOP), "claude-opus-4-8")
    assert request.thinking == "auto"
    assert thinking_blocks(request) == 4
    assert "thinking" not in request.body


def test_reasoning_can_be_stripped() -> None:
    assert thinking_blocks(written("anthropic", prompt(LOOP), thinking="strip")) == 0
    fixed = {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    kept = written("anthropic", prompt(LOOP), thinking="strip", extra=fixed)
    assert thinking_blocks(kept) == 2


def test_turn_append_keeps_reasoning_valid_inside_a_tool_loop() -> None:
    """Everything that stood before a thinking block stands there again, byte for byte."""
    first = written("anthropic", prompt(LOOP[:3], [TAIL]), thinking="turn_append")
    assert "Observation 1 of this turn" in first.data.decode()
    second = written("anthropic", prompt(LOOP, [TAIL]), thinking="turn_append", sent=first.sent)
    closing = len(b"]}]}")
    assert second.wire.data.startswith(first.wire.data[:-closing])
    assert "Observation 2 of this turn" in second.data.decode()
    assert thinking_blocks(second) == 2
    assert [sent.after for sent in second.sent] == [4, 6]


def test_bedrock_strips_bound_reasoning_and_replays_what_is_not() -> None:
    raw = Raw("bedrock", {"reasoningText": {"text": "t", "signature": "s"}})
    history = [ASK, Message("assistant", (Reasoning("t", raw), CALL)), FOUND]
    assert "reasoningContent" not in str(written("bedrock", prompt(history)).body)
    older = written("bedrock", prompt(history), "anthropic.claude-opus-4-8")
    assert "reasoningContent" in str(older.body)
    with pytest.raises(InvalidInput, match="not documented for Converse"):
        written("bedrock", prompt(history), thinking="drop")


@pytest.mark.parametrize(
    ("endpoint", "model", "raw"),
    [
        ("anthropic", "claude-haiku-4-5", {"type": "thinking", "thinking": "t", "signature": "s"}),
        (
            "bedrock",
            "anthropic.claude-opus-4-8",
            {"reasoningText": {"text": "t", "signature": "s"}},
        ),
    ],
)
def test_reasoning_that_is_not_bound_stays_where_tails_are_kept(
    endpoint: str, model: str, raw: dict[str, object]
) -> None:
    thought = Reasoning("t", Raw(endpoint, raw))
    history = [ASK, Message("assistant", (thought, CALL)), FOUND, Message.of("user", "and?")]
    request = written(endpoint, prompt(history, [TAIL]), model, thinking="turn_append")
    assert str(request.body).count("signature") == 1
    assert "thinking" not in [note.code for note in request.notes]


@pytest.mark.parametrize(
    ("endpoint", "model", "field"),
    [
        ("deepseek", "deepseek-v4-pro", "reasoning_content"),
        ("together", "deepseek-ai/DeepSeek-V4-Pro", "reasoning_content"),
        ("together", "moonshotai/Kimi-K3", "reasoning_content"),
        ("fireworks", "accounts/fireworks/models/deepseek-v4-pro", "reasoning_content"),
        ("fireworks", "accounts/fireworks/models/kimi-k3", "reasoning_content"),
        ("groq", "moonshotai/kimi-k3", "reasoning"),
    ],
)
def test_deepseek_and_kimi_get_their_reasoning_with_every_call_be_it_empty(
    endpoint: str, model: str, field: str
) -> None:
    request = written(endpoint, CASES["switched_vendor"](), model)
    with_calls = [m for m in request.body["messages"] if m.get("tool_calls")]
    assert [m[field] for m in with_calls] == ["", "Bob now."]
    assert breaches(request) == []


def test_a_result_without_its_call_is_left_out_and_noted() -> None:
    history = [ASK, Message("tool", (ToolResult("nobody", "x"),)), *say("b")]
    request = written("openai-chat", prompt(history))
    assert "orphan_result" in codes(request)
    assert "nobody" not in request.data.decode()


def test_a_late_result_is_moved_to_its_call() -> None:
    history = [ASK, Message("assistant", (CALL,)), Message.of("user", "hm?"), FOUND, FOUND]
    request = written("openai-chat", prompt(history))
    assert [m["role"] for m in request.body["messages"]][:5] == [
        "developer", "user", "assistant", "tool", "user",
    ]  # fmt: skip
    assert "orphan_result" in codes(request)


def test_a_conversation_may_begin_with_the_assistant() -> None:
    history = [Message.of("assistant", "Hello!"), *say("hi")]
    for endpoint, key in (
        ("anthropic", "messages"),
        ("bedrock", "messages"),
        ("gemini", "contents"),
    ):
        assert written(endpoint, prompt(history)).body[key][0]["role"] == "user"


def test_later_instructions_keep_their_role_where_the_api_has_one() -> None:
    history = [ASK, Message.of("system", "be kind"), *say("go")]
    assert "system" in str(written("anthropic", prompt(history)).body["messages"])
    for endpoint, model in (
        ("anthropic", "claude-sonnet-5"), ("gemini", ""), ("bedrock", ""), ("vllm", ""),
    ):  # fmt: skip
        assert "system_as_user" in codes(written(endpoint, prompt(history), model))


def test_several_instructions_are_one_where_the_api_takes_one() -> None:
    history = [Message.of("system", "Be kind."), *say("hi")]
    messages = written("vllm", prompt(history)).body["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[0]["content"].endswith("\n\nBe kind.")


def test_a_message_s_phase_comes_back() -> None:
    said = Message("assistant", (Text("Hm.", Raw("openai_responses", {"phase": "commentary"})),))
    items = written("openai-responses", prompt([ASK, said, *say("and?")])).body["input"]
    assert items[2] == {
        "type": "message", "role": "assistant", "content": "Hm.", "phase": "commentary",
    }  # fmt: skip


def test_files_at_an_address_are_left_for_the_vendor_to_fetch() -> None:
    from sightline.context.messages.parts import File

    picture = File("https://example.org/cat.png", "image/png")
    paper = File("https://example.org/p.pdf", "application/pdf")
    bucket = File("s3://bucket/cat.png", "image/png")
    said = [Message("user", (Text("see"), picture, paper, bucket))]
    for endpoint in ("gemini", "anthropic", "openai-responses"):
        out = written(endpoint, prompt(said)).data.decode()
        assert "https://example.org/cat.png" in out
        assert "https://example.org/p.pdf" in out
    assert (
        '"s3Location":{"uri":"s3://bucket/cat.png"}'
        in written("bedrock", prompt(said)).data.decode()
    )


def test_a_result_without_a_name_gets_its_call_s_where_one_is_needed() -> None:
    answer = Message("tool", (ToolResult("call_1", "x"),))
    body = written("gemini", prompt([ASK, Message("assistant", (CALL,)), answer])).body
    assert body["contents"][2]["parts"][0]["functionResponse"]["name"] == "mail.search"


def test_where_nothing_may_be_marked_nothing_is() -> None:
    from sightline.context.messages.parts import File

    paper = File("data:application/pdf;base64,aGk=", "application/pdf", "p.pdf")
    receipt = CASES["plain"]().receipt
    assert written("bedrock", Prompt((Message("user", (paper,)),), 1, receipt)).marks == 0
    tools = ({"name": "run"},)
    only_tools = written("anthropic", Prompt((ASK,), 1, receipt, tools))
    assert only_tools.body["tools"][-1]["cache_control"] == {"type": "ephemeral"}


def test_a_named_cached_content_replaces_what_it_holds() -> None:
    case = CASES["plain"]()
    profile = profile_for("gemini")
    held = cached_content_body(case, profile, 2)
    assert held["model"] == "models/gemini-3.8-flash"
    assert held["ttl"] == "3600s"
    assert {"tools", "systemInstruction", "contents"} <= set(held)
    request = encode(case, profile, Options(cached_content=CachedContent("cachedContents/x", 2)))
    assert request.body["cachedContent"] == "cachedContents/x"
    assert not {"tools", "toolConfig", "systemInstruction"} & set(request.body)
    assert len(request.body["contents"]) == 3 - 1 + 1 - 1
    with pytest.raises(InvalidInput, match="the prefix has 4"):
        cached_content_body(case, profile, 9)
    with pytest.raises(InvalidInput, match="no named cached content"):
        encode(case, profile_for("ollama"), Options(cached_content=CachedContent("x", 1)))


def test_bedrock_with_calls_and_no_tools_still_has_a_tool() -> None:
    case = CASES["tool_loop"]()
    bare = Prompt(case.messages, case.boundary, case.receipt)
    assert written("bedrock", bare).body["toolConfig"]["tools"][0]["toolSpec"]["name"] == "none"


def test_limits_are_errors_that_name_them() -> None:
    case = CASES["plain"]()
    many = tuple({"name": f"t{i}"} for i in range(129))
    with pytest.raises(InvalidInput, match="129 tools, and groq takes 128"):
        encode(Prompt(case.messages, case.boundary, case.receipt, many), profile_for("groq"))
    with pytest.raises(InvalidInput, match="extra: 'messages' is written from the prompt"):
        written("groq", case, extra={"messages": []})
    with pytest.raises(InvalidInput, match="max_output_tokens is 0"):
        written("groq", case, max_output_tokens=0)


BAD_TOOLS: list[tuple[dict[str, Any], str]] = [
    ({}, "tools\\[0\\]: a tool needs a name"),
    ({"function": 3}, "its function is not an object"),
    ({"name": "a", "description": 3}, "its description is not text"),
    ({"name": "a", "parameters": 3}, "not a JSON Schema"),
]


@pytest.mark.parametrize(("tool", "message"), BAD_TOOLS)
def test_a_bad_tool_says_what_is_wrong(tool: dict[str, Any], message: str) -> None:
    case = CASES["plain"]()
    with pytest.raises(InvalidInput, match=message):
        encode(Prompt(case.messages, case.boundary, case.receipt, (tool,)), profile_for("groq"))
