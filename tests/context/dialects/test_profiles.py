"""Profiles: tables, sources, overrides, and what is said about a bad one."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context.projection.requirements import proves
from sightline.context.dialects import DIALECTS, endpoints, prices, profile_for
from sightline.context.dialects.endpoints import ENDPOINTS, MODELS
from sightline.context.dialects.profile import DialectName, Layer
from sightline.errors import InvalidInput


def test_every_endpoint_has_a_profile_in_a_dialect_we_speak() -> None:
    for name in endpoints():
        profile = profile_for(name)
        assert profile.dialect in DIALECTS
        assert profile.path.startswith("/")
        assert profile.model


def test_every_fact_of_the_tables_has_a_source() -> None:
    layers = [*MODELS, *(x for e in ENDPOINTS.values() for x in (*e.layers, *e.model_layers))]
    assert all(layer.source for layer in layers)
    profile = profile_for("anthropic", "claude-haiku-4-5")
    assert profile.source_of("cache.min_tokens") == "claude-docs"
    assert profile.source_of("prices.input") == prices.price_list().source
    assert profile.source_of("tail.plain") == "default"


@given(st.text("ab-", max_size=6), st.text("ab-*?[]", max_size=6))
def test_a_layer_is_for_the_models_that_its_patterns_match(model: str, pattern: str) -> None:
    layer = Layer("a test", {}, (pattern,))
    assert layer.matches(model) == fnmatchcase(model, pattern)


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("claude-sonnet-5-5", 512), ("claude-sonnet-5", 1024), ("claude-opus-4-8", 1024),
        ("claude-opus-4-7", 2048), ("claude-haiku-4-5", 4096), ("claude-fable-5-1", 512),
    ],
)  # fmt: skip
def test_a_model_s_own_minimum_wins(model: str, minimum: int) -> None:
    assert profile_for("anthropic", model).cache.min_tokens == minimum


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        ("claude-fable-5-1", True),
        ("claude-fable-5-2-20261001", True),
        ("anthropic.claude-fable-5-1-v1:0", True),
        ("claude-fable-5", False),
        ("claude-fable-5-20260301", False),
        ("claude-mythos-5-20260301", False),
        ("claude-mythos-5-2", True),
    ],
)
def test_a_date_is_no_version(model: str, bound: bool) -> None:
    profile = profile_for("anthropic", model)
    assert profile.reasoning.bound is bound
    assert profile.messages.inline_system


def test_bedrock_has_minima_of_its_own() -> None:
    assert profile_for("bedrock", "us.anthropic.claude-sonnet-5-5").cache.min_tokens == 1024
    assert profile_for("bedrock", "anthropic.claude-opus-4-7").cache.min_tokens == 4096


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("anthropic.claude-opus-5", 512), ("anthropic.claude-opus-5-v1:0", 512),
        ("us.anthropic.claude-opus-5-20260801-v1:0", 512),
        ("us.anthropic.claude-opus-5-5", 1024), ("anthropic.claude-opus-5-5-v1:0", 1024),
    ],
)  # fmt: skip
def test_what_bedrock_puts_behind_a_model_s_name_does_not_hide_it(model: str, minimum: int) -> None:
    assert profile_for("bedrock", model).cache.min_tokens == minimum


@pytest.mark.parametrize(
    ("model", "minimum", "lookback"),
    [
        ("anthropic/claude-sonnet-5-5", 512, 20), ("anthropic/claude-opus-4-7", 2048, 20),
        ("qwen/qwen3.8-max", 1024, 20), ("openai/gpt-6.1-sol", 1024, 0),
        ("google/gemini-3.8-flash", 4096, 0), ("google/gemini-2.5-pro", 2048, 0),
    ],
)  # fmt: skip
def test_openrouter_has_the_limits_of_the_backend(model: str, minimum: int, lookback: int) -> None:
    cache = profile_for("openrouter", model).cache
    assert (cache.min_tokens, cache.lookback_blocks) == (minimum, lookback)


@pytest.mark.parametrize("model", ["qwen/qwen3.8-max", "google/gemma-4-27b-it"])
def test_openrouter_puts_no_tail_behind_reasoning_that_a_template_would_forget(model: str) -> None:
    tail = profile_for("openrouter", model).tail
    assert (tail.plain, tail.after_tools) == ("into_user", "into_user")
    assert profile_for("openrouter").tail.after_tools == "message"


@proves("CI-K")
@pytest.mark.parametrize("endpoint", endpoints())
def test_every_endpoint_is_classified_by_its_cache_with_a_source(endpoint: str) -> None:
    profile = profile_for(endpoint)
    assert profile.cache.style != "none"
    assert profile.source_of("cache.style") != "default"


@proves("CI-K")
def test_explicit_breakpoints_begin_with_gpt_5_6() -> None:
    styles = {m: profile_for("openai-chat", m).cache.style for m in ("gpt-5.5", "gpt-5.6-sol")}
    assert styles == {"gpt-5.5": "automatic", "gpt-5.6-sol": "breakpoint"}
    assert profile_for("openai-chat", "gpt-6.1-sol").cache.style == "breakpoint"
    assert profile_for("openai-chat", "gpt-4o").cache.style == "automatic"


def test_a_routing_prefix_does_not_hide_the_model() -> None:
    assert profile_for("openrouter", "openai/gpt-6.1-sol").prices.input == 2


def test_an_unknown_model_has_the_endpoint_s_ways_and_no_price() -> None:
    profile = profile_for("vllm", "my-finetune")
    assert profile.cache.style == "automatic"
    assert profile.prices.input is None


def test_an_override_wins_and_is_its_own_source() -> None:
    nested = profile_for("anthropic", overrides={"cache": {"min_tokens": 9}, "window_tokens": 50})
    assert (nested.cache.min_tokens, nested.window_tokens) == (9, 50)
    assert nested.source_of("cache.min_tokens") == "override"
    layer = Layer("my measurement", {"cache.min_tokens": 7}, ("claude-*",))
    assert profile_for("anthropic", overrides=[layer]).source_of("cache.min_tokens") == layer.source
    assert profile_for("anthropic", overrides=layer).cache.min_tokens == 7
    assert profile_for("gemini", overrides=layer).cache.min_tokens == 4096


BAD: list[tuple[dict[str, Any], str]] = [
    ({"cache.min_token": 1}, "override: there is no 'cache.min_token'; did you mean 'cache.min_"),
    ({"cache": {"stile": "none"}}, "there is no 'cache.stile'; did you mean 'cache.style'"),
    ({"window_tokens": "big"}, "override: window_tokens: Expected `int`, got `str`"),
    ({"cache.style": "magic"}, "override: cache.style: Invalid enum value 'magic'"),
    ({"cache": 7}, "there is no 'cache'"),
    ({"window_tokens": -1}, "window_tokens: Expected `int` >= 0"),
    ({"endpoint": "x"}, "'endpoint' is not for a profile to set"),
    ({"zzz": 1}, "there is no 'zzz'; there are"),
    ({"dialect": "zzz"}, "override: dialect: Invalid enum value 'zzz'"),
    ({"tools.first": ""}, "override: tools: no rule of names: "),
    ({"tools.rest": "z-a"}, "override: tools: no rule of names: bad character range z-a"),
    ({"tools.max_name": 9}, "override: tools.max_name: a name takes 10 characters, or 0 for no"),
    ({"tools.max_name": 10**12}, "override: tools: no rule of names: "),
    ({"prices.input": -1}, "override: prices.input: Expected `float` >= 0"),
    ({"prices.output": float("nan")}, "override: prices.output: Expected `float` >= 0"),
    ({"prices": {"cache_read": float("inf")}}, "override: prices.cache_read: Expected `float` <="),
]  # fmt: skip


@pytest.mark.parametrize(("values", "message"), BAD)
def test_a_bad_override_says_what_is_wrong(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        profile_for("anthropic", overrides=values)
    assert message in str(caught.value)


def test_every_dialect_can_be_named_in_a_profile() -> None:
    assert set(get_args(DialectName)) == set(DIALECTS)


def test_an_unknown_dialect_is_named_with_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"no dialect 'antropic'; did you mean 'anthropic'\?"):
        profile_for("antropic")
    assert profile_for("openai_chat").endpoint == "openai-chat"
