"""Why a cache was missed: seeded faults are named, and nothing is found where nothing happened."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable

import pytest
from benchmarks.faults import FAULTS, Body, Case, cases, clean, session
from benchmarks.gateway import judge

from benchmarks import (
    blind_faults,
    blind_faults_again,
    blind_faults_fifth,
    blind_faults_fourth,
    blind_faults_third,
)
from sightline.context.dialects.drift import CAUSES
from sightline.gateway.bodies import Api, RequestBody, read_body
from sightline.gateway.losses import between, compare


def test_causes_and_places_of_seeded_faults_are_named() -> None:
    tried = [
        *cases(random.Random(4), 6, FAULTS),
        *cases(random.Random(4), 2, blind_faults.BLIND),
        *cases(random.Random(4), 1, blind_faults_again.BLIND),
        *cases(random.Random(4), 1, blind_faults_fifth.BLIND),
    ]
    wrong = Counter[tuple[str, str]]()
    misplaced = 0
    for case in tried:
        loss = judge(case)
        cause = "" if loss is None else loss.cause
        if cause != case.cause:
            wrong[case.cause, cause] += 1
        elif loss is not None and not loss.path.startswith(case.path):
            misplaced += 1
    assert sum(wrong.values()) <= 0.01 * len(tried), wrong
    assert misplaced <= 0.05 * len(tried)
    assert {case.cause for case in tried} <= CAUSES.keys()
    assert len({case.cause for case in tried}) >= 25


def test_every_kind_of_the_later_blind_sets_is_named() -> None:
    faults = blind_faults_third.BLIND + blind_faults_fourth.BLIND
    judged = [(case, judge(case)) for case in cases(random.Random(4), 1, faults)]
    wrong = [
        (case.kind, case.layout, loss and (loss.cause, loss.path))
        for case, loss in judged
        if loss is None or loss.cause != case.cause or not loss.path.startswith(case.path)
    ]
    assert wrong == []


def test_nothing_is_found_where_nothing_happened() -> None:
    tried = [
        *clean(random.Random(5), 200),
        *cases(random.Random(5), 2, blind_faults.HARMLESS),
        *cases(random.Random(5), 1, blind_faults_again.HARMLESS),
        *cases(random.Random(5), 1, blind_faults_third.HARMLESS + blind_faults_fourth.HARMLESS),
        *cases(random.Random(5), 1, blind_faults_fifth.HARMLESS),
    ]
    assert [loss for case in tried if (loss := judge(case)) is not None] == []


def test_a_loss_says_what_changed_and_what_to_do() -> None:
    [date, *_] = [case for case in cases(random.Random(6), 1) if case.cause == "date"]
    loss = judge(date)
    assert loss is not None
    assert "2026-11-15" in loss.before
    assert "2026-11-16" in loss.now
    assert loss.words == "a date or a time stands in the prefix"
    assert loss.advice
    assert loss.tokens > 0
    assert loss.cost is not None


def test_a_vendor_that_read_everything_is_believed() -> None:
    [edited, *_] = [case for case in cases(random.Random(7), 1) if case.cause == "edited"]
    assert judge(edited, read=100_000) is None


def test_another_last_question_is_no_loss() -> None:
    before = session(random.Random(8), "anthropic", 2)[3]
    now = copy.deepcopy(before)
    now["messages"][-1]["content"] = "something else"
    assert judge(Case("anthropic", before, now, "")) is None


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("reasoning", {"effort": "xhigh"}, "effort"),
        ("tool_choice", "required", "tool_choice"),
        ("text", {"verbosity": "high"}, "setting"),
        ("service_tier", "flex", "setting"),
        ("parallel_tool_calls", False, "setting"),
        ("truncation", "auto", "setting"),
        ("prompt_cache_retention", "24h", "setting"),
        ("prompt_cache_options", {"ttl": "12h"}, "setting"),
        ("prompt_cache_options", {"mode": "explicit"}, "unmarked"),
        ("reasoning", {"effort": "medium", "summary": "auto"}, "setting"),
        ("text", {"format": {"type": "text"}}, "lost"),
        ("prompt_cache_options", {"comparison_response_id": "resp_1"}, "lost"),
        ("metadata", {"a": "b"}, "lost"),
    ],
)
def test_a_setting_that_changed_is_named_where_only_the_vendor_could_know(
    name: str, value: object, cause: str
) -> None:
    before = session(random.Random(9), "openai-responses", 2)[3]
    if name == "prompt_cache_options":
        before[name] = {}
    now = {**before, name: value}
    loss = judge(Case("openai-responses", before, now, "", reported="nothing"))
    assert loss is not None
    assert loss.cause == cause
    assert cause in ("lost", "unmarked") or name in loss.detail
    assert judge(Case("openai-responses", before, now, ""), read=100_000) is None


@pytest.mark.parametrize(
    ("was", "now", "cause"),
    [
        ("15th of November 2026", "16th of November 2026", "date"),
        ("15 novembre 2026", "16 novembre 2026", "date"),
        ("2026/11/15", "2026/11/16", "date"),
        ("Sun, 15 Nov 2026 23:58:41 +0000", "Mon, 16 Nov 2026 00:03:12 +0000", "date"),
        ("2026년 11월 15일", "2026년 11월 16일", "date"),
        ("It is November 2026.", "It is December 2026.", "date"),
        ("Heed hook feedback.\nIt is 9:14.", "Heed hook feedback.\nIt is 9:15.", "date"),
        ("Be brief.\ncwd: /a\nport: 1", "Be exact.\ncwd: /a\nport: 2", "instructions"),
        ("fence k7Qp2xZ9vB", "fence Wm4tR8sLq1", "random"),
        ("use base64url1", "use utf8mb4", "instructions"),
        ("runs version 1.14.20 now", "runs version 1.15.20 now", "random"),
        ("<environment_info>\n# Tabs\na.py", "<environment_info>\n# Tabs\nb.py", "environment"),
        ("<env>x</env>\nDo this.", "<env>x</env>\nDo that.", "instructions"),
        ("From .windsurfrules:\n- Read.", "From .windsurfrules:\n- Write.", "memory"),
        ("Read the rules.\n- Read.", "Read the rules.\n- Write.", "instructions"),
        ("Heute ist Sonntag, der 15.", "Heute ist Montag, der 16.", "date"),
        ("今天是2026年11月15日 星期日", "今天是2026年11月16日 星期一", "date"),
        ("Unix time: 1794700000", "Unix time: 1794700123", "date"),
        ("Turn 3 on 2026-11-15", "Turn 4 on 2026-11-16", "random"),
        ("On 2026-11-15 in turn 3", "On 2026-11-16 in turn 4", "date"),
        ("Write at most 4 lines.", "Write at most 8 lines.", "instructions"),
        ("Tokens left: 181,204", "Tokens left: 170,951", "random"),
        ("nonce: Zx81kQ", "nonce: p0Lm3T", "random"),
        ("# Environment\n\nPython: 3.11", "# Environment\n\nPython: 3.12", "environment"),
        ("# Environment\n\nBe kind.", "# Environment\n\nBe fast.", "instructions"),
        ("Status:\n\nLast commits:\n3f9a b", "Status:\n\nLast commits:\n77aa c", "environment"),
        ("Run git status first.", "Run git diff first.", "instructions"),
        ("Say A.\nGit status: clean", "Say B.\nGit status: dirty", "instructions"),
        ("Heed AGENTS.md files.\nBe kind.", "Heed AGENTS.md files.\nBe fast.", "instructions"),
        ("# From AGENTS.md\nIndent by 4.", "# From AGENTS.md\nIndent by 2.", "memory"),
        ("# From AGENTS.md\nIndent.", "# From AGENTS.md\nIndent.\n\nBe fast.", "instructions"),
        ("# From AGENTS.md\nA.\n# Tone\nB.", "# From AGENTS.md\nA.\n# Tone\nC.", "instructions"),
    ],
)
def test_the_author_of_a_line_is_told_by_its_form(was: str, now: str, cause: str) -> None:
    def request(line: str) -> Body:
        return {**session(random.Random(10), "anthropic", 2)[3], "system": f"You work.\n\n{line}"}

    loss = judge(Case("anthropic", request(was), request(now), cause))
    assert loss is not None
    assert loss.cause == cause


@pytest.mark.parametrize(
    ("was", "now", "cause"),
    [
        ("read", "read\n<system-reminder>\nSave.\n</system-reminder>", "reminder"),
        ("read <system-reminder>Save.</system-reminder>", "r", "result_cut"),
        ("[[a81bc81b-dead-4e5d-abff-90865d1e13b1\nread", "[[" + "0" * 12 + "\nread", "random"),
        ("call a_function_with_a_long_name", "call a_function_with_another_name", "edited"),
        ("41 files", "42 files", "edited"),
        ("all of it is green", "two have failed", "edited"),
        ("read at 10:00:01\nall", "read at 10:07:44\nall", "date"),
        ("read", "read\nPostToolUse hook additional context: lint is clean", "hook"),
        ("the token is abcdef123456 for all", "the token is *** for all of it", "edited"),
        ("done", "[Old tool result content cleared]", "result_cut"),
        ("one\ntwo\nthree", "one\ntwo", "result_cut"),
    ],
)
def test_what_stands_around_a_result_is_not_its_own_words(was: str, now: str, cause: str) -> None:
    before = session(random.Random(11), "anthropic", 2)[4]
    after = copy.deepcopy(before)
    for body, words in ((before, was), (after, now)):
        body["messages"][2]["content"][0]["content"] = words
    loss = judge(Case("anthropic", before, after, cause))
    assert loss is not None
    assert loss.cause == cause


def test_a_question_for_a_summary_is_no_compaction() -> None:
    before = session(random.Random(12), "anthropic", 3)[-1]
    now = copy.deepcopy(before)
    del now["messages"][1:3]
    now["messages"].append({"role": "user", "content": "Write a summary of the conversation."})
    loss = judge(Case("anthropic", before, now, ""))
    assert loss is not None
    assert loss.cause != "compaction"


@pytest.mark.parametrize(
    ("was", "now", "cause"),
    [
        ("Fix the 3 bugs.", "Fix the 4 bugs.", "edited"),
        ("Do step 3 again", "Do step 4 again", "edited"),
        ("[step 3 of 9]", "[step 4 of 9]", "random"),
        ("Write it into AGENTS.md:\n- A", "Write it into AGENTS.md:\n- B", "edited"),
        ("<file path='AGENTS.md'>\nA\n</file>", "<file path='AGENTS.md'>\nB\n</file>", "memory"),
        ("What does git status say?", "What does git status tell?", "edited"),
        ("<cwd>/a</cwd>", "<cwd>/b</cwd>", "environment"),
        ("[System reminder] 3 tasks", "[System reminder] 4 tasks", "reminder"),
        ("Go.\n<todo-reminder>a</todo-reminder>", "Go.", "reminder"),
        ("[PreToolUse hook] a", "[PreToolUse hook] b", "hook"),
        ("Why does my hook fail?", "Why did my hook fail?", "edited"),
    ],
)
def test_what_a_message_speaks_of_is_not_who_wrote_it(was: str, now: str, cause: str) -> None:
    before = session(random.Random(13), "anthropic", 3)[-1]
    after = copy.deepcopy(before)
    for body, words in ((before, was), (after, now)):
        body["messages"][6]["content"].append({"type": "text", "text": words})
    loss = judge(Case("anthropic", before, after, cause))
    assert loss is not None
    assert loss.cause == cause


def _order(tools: list[Body], first: str) -> list[Body]:
    return sorted(tools, key=lambda tool: str(tool["name"]) != first)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda t: [t[0] | {"description": "x"}, *t[1:], t[0] | {"name": "more"}], "tool_reworded"),
        (lambda t: [t[0] | {"name": "more"}, t[0] | {"description": "x"}, *t[1:]], "tool_added"),
        (lambda t: _order([t[0] | {"description": "x"}, *t[1:]], "Bash"), "tools_reordered"),
        (lambda t: [t[0] | {"input_schema": {}}, *t[1:-1]], "tool_schema"),
        (lambda t: [*t, t[-1]], "tool_added"),
    ],
)
def test_of_several_changes_the_first_is_named(
    change: Callable[[list[Body]], list[Body]], cause: str
) -> None:
    before = session(random.Random(14), "anthropic", 2)[-1]
    now = {**before, "tools": change(before["tools"])}
    loss = judge(Case("anthropic", before, now, cause))
    assert loss is not None
    assert loss.cause == cause


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("## Summary\nIt parses.", "compaction"),
        ("<context-summary>\nIt parses.", "compaction"),
        ("Previous messages were summarised: it parses.", "compaction"),
        ("Summarize the conversation so far.", "window"),
        ("it parses and writes " * 30, "compaction"),
    ],
)
def test_what_stands_for_a_conversation_says_so_or_is_long(words: str, cause: str) -> None:
    before = session(random.Random(15), "anthropic", 4)[-1]
    now = copy.deepcopy(before)
    asked = [i for i, one in enumerate(before["messages"]) if one["role"] == "user"]
    said = {"role": "user", "content": words}
    now["messages"][: asked[-2]] = [] if cause == "window" else [said]
    now["messages"] += [said] * (cause == "window")
    loss = judge(Case("anthropic", before, now, cause))
    assert loss is not None
    assert loss.cause == cause


def _chat(**words: str) -> tuple[Api, Body]:
    said = {"role": "instructions", "asked": "Do it.", "result": "read " * 99, "why": "so"} | words
    call = {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    answer = {"role": "assistant", "reasoning_content": said["why"], "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "a", "content": said["result"]}
    spoken = [
        {"role": "system", "content": said["role"]},
        {"role": "user", "content": said["asked"]},
    ]
    return "openai-chat", {"model": "gpt-6.1", "messages": [*spoken, answer, result, *spoken[1:]]}


def _gemini(**words: str) -> tuple[Api, Body]:
    said = {"role": "instructions", "asked": "Do it.", "result": "read " * 99, "why": "so"} | words
    thought = {"text": said["why"], "thought": True}
    call = {"functionCall": {"name": "Read", "args": {}}, "thoughtSignature": "s"}
    answer = {"functionResponse": {"name": "Read", "response": {"output": said["result"]}}}
    asked = {"role": "user", "parts": [{"text": said["asked"]}]}
    return "gemini", {
        "systemInstruction": {"parts": [{"text": said["role"]}]},
        "contents": [
            asked, {"role": "model", "parts": [thought, call]},
            {"role": "user", "parts": [answer]}, asked,
        ],
    }  # fmt: skip


@pytest.mark.parametrize("write", [_chat, _gemini])
@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"role": "other instructions"}, "instructions"),
        ({"asked": "Do it now."}, "edited"),
        ({"result": "[cleared]"}, "result_cut"),
        ({"result": "read  " + "read " * 98}, "spaced"),
        ({"why": "so and so"}, "reasoning"),
    ],
)
def test_every_api_has_the_same_causes(
    write: Callable[..., tuple[Api, Body]], changed: dict[str, str], cause: str
) -> None:
    (api, before), (_, now) = write(), write(**changed)
    old, new = (read_body(api, json.dumps(body).encode()) for body in (before, now))
    assert old is not None
    assert new is not None
    assert compare(old, new).cause == cause


def test_how_long_a_cache_lives_is_what_the_last_mark_says() -> None:
    before = session(random.Random(16), "anthropic", 2)[-1]
    before["system"][-1]["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    loss = judge(Case("anthropic", before, before, "", idle_s=900.0, reported="nothing"))
    assert loss is not None
    assert loss.cause == "expired"
    before["messages"][-1]["content"][-1]["cache_control"]["ttl"] = "1h"
    loss = judge(Case("anthropic", before, before, "", idle_s=900.0, reported="nothing"))
    assert loss is not None
    assert loss.cause == "lost"


@pytest.mark.parametrize(("cause", "least"), [("edited", 128), ("date", 16)])
def test_a_visible_cause_is_named_from_one_block_on_and_a_clock_at_once(
    cause: str, least: int
) -> None:
    [found, *_] = [case for case in cases(random.Random(6), 1) if case.cause == cause]
    assert judge(found, read=100_000 - least) is None
    loss = judge(found, read=100_000 - least - 1)
    assert loss is not None
    assert (loss.cause, loss.tokens) == (cause, least + 1)


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        ("It is 10:00:01.\n", "It is 10:00:02.\n", "date"),
        ("Be kind.\n", "Be brief.\n", ""),
    ],
)
def test_a_clock_in_the_shared_prompt_of_single_requests_is_named(
    first: str, second: str, cause: str
) -> None:
    prompt = "".join(f"Rule {n}: be exact about what {n} is.\n" for n in range(200))

    def request(begin: str, item: str) -> RequestBody:
        text = f"{begin}{prompt}Text: {item}"
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        read = read_body("openai-chat", json.dumps(body).encode())
        assert read is not None
        return read

    found = between(request(first, "a"), request(second, "b"))
    assert (found.cause if found else "") == cause
    assert found is None or (found.path, found.detail) == ("messages[0]", "between conversations")
