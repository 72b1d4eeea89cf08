"""The shipped prices equal those of genai-prices, except where `endpoints` corrects them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import TieredPrices
from proof.prices import PATH, page

from sightline.context.dialects import profile_for
from sightline.context.dialects.events import Usage, cost
from sightline.context.dialects.prices import is_match, listed_values, price_list


def test_list_equals_genai_prices_on_its_day() -> None:
    written = page(date.fromisoformat(price_list().as_of))
    assert PATH.read_text(encoding="utf-8") == written, "renew it: python -m proof.prices"


def names_in(rule: tuple[Any, ...]) -> Iterator[str]:
    """Every literal name of a match rule, as a model name that fits it."""
    sign, *rest = rule
    if sign in ("or", "and"):
        for one in rest:
            yield from names_in(tuple(one))
    elif sign in ("=", "^"):
        yield rest[0]


def test_each_name_of_a_vendor_finds_the_model_that_genai_prices_finds() -> None:
    vendors = {vendor.id: vendor for vendor in get_snapshot().providers}
    hours = [
        datetime.combine(date.fromisoformat(price_list().as_of), time(hour), UTC)
        for hour in range(24)
    ]
    tried, wrong = 0, []
    for vendor, owns, rows in price_list().vendors:
        for name in {name for row in rows for name in names_in(row[0])}:
            model = vendors[vendor].find_model(name)
            if model is None or (owns is not None and not is_match(owns, name)):
                continue
            if vendor == "zhipuai" and vendors["zai"].find_model(name) is not None:
                continue  # The international price list comes first.
            tried += 1
            listed = listed_values(name)
            prices = [model.get_prices(hour).input_mtok for hour in hours]
            found = [one.base if isinstance(one, TieredPrices) else one for one in prices]
            # The highest price of the day counts, because a budget must not promise too little.
            theirs = max((float(one) for one in found if one is not None), default=None)
            ours = None if listed is None else listed["prices.input"]
            if ours != theirs:
                wrong.append((vendor, name, ours, theirs))
    assert tried > 600
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5.6", "gpt-5.4-2026-03-05", "gpt-5.4-20260305", "openai/gpt-5.4", "o3-mini",
        "us.anthropic.claude-opus-4-6-v1:0", "claude-sonnet-4-5@20250929",
        "claude-3-haiku-20240307",
        "gemini-2.5-pro", "models/gemini-2.5-pro", "grok-4-fast", "mistral-large-latest",
    ],
)  # fmt: skip
def test_model_has_a_price_under_each_common_spelling(name: str) -> None:
    listed = listed_values(name)
    assert listed is not None
    assert listed["prices.input"] > 0


@pytest.mark.parametrize("name", ["", "my-own-model", "text-embedding-3-large", "llama-3.3-70b"])
def test_model_without_a_price_is_unknown(name: str) -> None:
    assert listed_values(name) is None


@pytest.mark.parametrize(
    ("model", "prompt", "cost_usd"),
    [
        ("gpt-6-astra", 272_000, 2.72 + 5),
        ("gpt-6-astra", 272_001, 2 * 2.72001 + 1.5 * 5),  # the answer has a factor of its own
        ("gpt-5.4-mini", 300_000, 0.225 + 0.45),  # nothing of gpt-5.4 is left
        ("claude-haiku-5-5", 100_001, 5 * (0.0100001 + 0.05)),
    ],
)
def test_a_long_prompt_costs_what_the_vendor_says(model: str, prompt: int, cost_usd: float) -> None:
    assert cost(Usage(prompt, 100_000), profile_for("openrouter", model).prices) == pytest.approx(
        cost_usd
    )


def test_what_we_know_better_wins() -> None:
    profile = profile_for("openai-responses", "gpt-6.1-sol")
    assert (profile.window_tokens, profile.prices.cache_write_long) == (922_000, 4)
    assert profile.source_of("window_tokens") == "vendor price list, 2026-11"
    assert profile.source_of("prices.cache_read") == price_list().source


def test_nothing_that_runs_imports_the_package_it_is_made_from() -> None:
    code = "import sys, sightline.context.dialects.profiles; print('genai_prices' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("us.anthropic.claude-opus-4-20250514-v1:0", "claude-opus-4-20250514"),
        ("us.anthropic.claude-opus-5-5-20261001-v1:0", "claude-opus-5-5"),
        ("global.anthropic.claude-sonnet-5-v1:0", "claude-sonnet-5"),
        ("claude-opus-4@20250514", "claude-opus-4-20250514"),
        ("claude-fable-5-1@20261001", "claude-fable-5-1"),
    ],
)
def test_a_model_has_its_price_under_the_names_of_bedrock_and_vertex(name: str, model: str) -> None:
    assert listed_values(name) == listed_values(model)
    assert listed_values(model) is not None
