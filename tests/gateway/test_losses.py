"""Why a cache was missed: seeded faults are named, and nothing is found where nothing happened."""

from __future__ import annotations

import copy
import random
from collections import Counter

import pytest
from benchmarks.faults import FAULTS, Body, Case, cases, clean, session
from benchmarks.gateway import judge

from benchmarks import (
    blind_faults,
    blind_faults_again,
    blind_faults_fourth,
    blind_faults_third,
)
from sightline.context.dialects.causes import CAUSES


def test_causes_and_places_of_seeded_faults_are_named() -> None:
    tried = [
        *cases(random.Random(4), 6, FAULTS),
        *cases(random.Random(4), 2, blind_faults.BLIND),
        *cases(random.Random(4), 1, blind_faults_again.BLIND),
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
        ("prompt_cache_options", {"mode": "explicit"}, "setting"),
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
    assert cause == "lost" or name in loss.detail
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
