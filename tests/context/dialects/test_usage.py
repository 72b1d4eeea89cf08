"""Usage and cost, per vendor, and compared with an independent reading."""

from __future__ import annotations

from typing import Any

import pytest
from genai_prices import extract_usage

from context.projection.requirements import proves
from sightline.context.dialects import (
    DIALECTS,
    anthropic,
    openai_responses,
    profile_for,
    usage_from,
)
from sightline.context.dialects.events import CacheMiss, Usage, cost
from sightline.context.dialects.profile import Prices


@proves("CI-V")
def test_what_a_runtime_evaluated_shows_whether_it_reused_the_prefix() -> None:
    assert usage_from("ollama", {"prompt_eval_count": 40}).evaluated_tokens == 40
    for dialect, report in REPORTS.items():
        if dialect != "ollama":
            assert usage_from(dialect, report).evaluated_tokens == 300


REPORTS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "prompt_tokens": 1000, "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 700},
        "completion_tokens_details": {"reasoning_tokens": 20},
    },
    "openai_responses": {
        "input_tokens": 1000, "output_tokens": 50,
        "input_tokens_details": {"cached_tokens": 700},
        "output_tokens_details": {"reasoning_tokens": 20},
    },
    "anthropic": {
        "input_tokens": 100, "output_tokens": 50, "cache_read_input_tokens": 700,
        "cache_creation_input_tokens": 200,
        "cache_creation": {"ephemeral_1h_input_tokens": 150, "ephemeral_5m_input_tokens": 50},
        "output_tokens_details": {"thinking_tokens": 20},
    },
    "gemini": {
        "promptTokenCount": 1000, "candidatesTokenCount": 30, "thoughtsTokenCount": 20,
        "cachedContentTokenCount": 700, "totalTokenCount": 1050,
    },
    "bedrock": {
        "inputTokens": 100, "outputTokens": 50, "totalTokens": 1050, "cacheReadInputTokens": 700,
        "cacheWriteInputTokens": 200, "cacheDetails": [{"ttl": "1h", "inputTokens": 150}],
    },
    "ollama": {"prompt_eval_count": 1000, "eval_count": 50},
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_vendor_is_read_in_the_same_unit(dialect: str) -> None:
    usage = usage_from(dialect, REPORTS[dialect])
    assert (usage.input_tokens, usage.output_tokens) == (1000, 50)
    assert usage.cache_read_tokens == (0 if dialect == "ollama" else 700)
    assert usage.cache_write_tokens == (200 if dialect in ("anthropic", "bedrock") else 0)
    assert usage.cache_write_long_tokens == (150 if dialect in ("anthropic", "bedrock") else 0)
    assert usage.reasoning_tokens == (0 if dialect in ("bedrock", "ollama") else 20)
    assert usage.fresh_tokens + usage.cache_read_tokens + usage.cache_write_tokens == 1000


FLAVOURS = {
    "openai_chat": ("openai", "chat", "usage", "gpt-4o"),
    "openai_responses": ("openai", "responses", "usage", "gpt-4o"),
    "anthropic": ("anthropic", "default", "usage", "claude-haiku-4-5"),
    "gemini": ("google", "default", "usageMetadata", "gemini-2.5-pro"),
}


@pytest.mark.parametrize("dialect", FLAVOURS)
def test_an_independent_reader_agrees(dialect: str) -> None:
    vendor, flavour, key, model = FLAVOURS[dialect]
    field = "modelVersion" if vendor == "google" else "model"
    response = {field: model, key: REPORTS[dialect]}
    theirs = extract_usage(response, provider_id=vendor, api_flavor=flavour).usage
    ours = usage_from(dialect, REPORTS[dialect])
    assert ours.input_tokens == theirs.input_tokens
    assert ours.output_tokens == theirs.output_tokens
    assert ours.cache_read_tokens == theirs.cache_read_tokens
    assert ours.cache_write_tokens == (theirs.cache_write_tokens or 0)


def test_what_is_not_reported_or_not_a_number_is_nothing() -> None:
    for dialect in DIALECTS:
        assert usage_from(dialect, {}) == Usage()
    odd = {"prompt_tokens": None, "completion_tokens": True, "prompt_tokens_details": 3}
    assert usage_from("openai_chat", odd) == Usage(unusable=("completion_tokens",))
    assert usage_from("openai_chat", {"prompt_cache_hit_tokens": 5}).cache_read_tokens == 5
    assert Usage().cached_share == 0.0
    assert Usage(input_tokens=4, cache_read_tokens=3).cached_share == 0.75


def test_cost_is_the_sum_of_four_prices() -> None:
    prices = Prices(input=2, output=10, cache_read=0.2, cache_write=2.5, cache_write_long=4)
    usage = Usage(1_000_000, 100_000, 700_000, 200_000, 150_000)
    fresh, read, short, long, out = 0.1 * 2, 0.7 * 0.2, 0.05 * 2.5, 0.15 * 4, 0.1 * 10
    assert cost(usage, prices) == pytest.approx(fresh + read + short + long + out)


def test_a_missing_cache_price_is_the_input_s_and_no_price_is_no_cost() -> None:
    usage = Usage(1_000_000, 0, 500_000, 100_000, 50_000)
    assert cost(usage, Prices(input=2, output=10)) == pytest.approx(2)
    assert cost(usage, Prices()) is None
    assert cost(Usage(1000, 10), profile_for("ollama").prices) is None


def test_a_long_prompt_costs_more_where_the_vendor_says_so() -> None:
    prices = profile_for("openai-chat", "gpt-6-astra").prices
    assert cost(Usage(272_000, 0), prices) == pytest.approx(2.72)
    assert cost(Usage(272_001, 0), prices) == pytest.approx(2 * 2.72001)


def test_cache_misses_are_explained_in_the_vendor_s_word() -> None:
    told = {"diagnostics": {"cache_miss_reason": {"type": "previous_message_not_found"}}}
    assert anthropic.read_cache_miss(told) == CacheMiss("previous_message_not_found")
    assert anthropic.read_cache_miss({"diagnostics": {"cache_miss_reason": None}}) is None
    lost = {"prompt_cache_diagnostics": {"type": "comparison_response_not_found"}}
    assert openai_responses.read_cache_miss(lost) == CacheMiss("comparison_response_not_found")
    hit = {"prompt_cache_diagnostics": {"type": "cache_hit"}}
    assert openai_responses.read_cache_miss(hit) is None
