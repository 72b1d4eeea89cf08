"""The shipped prices are those of genai-prices, and what we know better wins."""

from __future__ import annotations

import subprocess
import sys
from datetime import date

import pytest
from proof.prices import PATH, page

from sightline.context.dialects import prices, profile_for
from sightline.context.dialects.events import Usage, cost


def test_the_table_is_what_genai_prices_lists_for_its_day() -> None:
    written = page(date.fromisoformat(prices.AS_OF))
    assert PATH.read_text(encoding="utf-8") == written, "renew it: python -m proof.prices"


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
    assert profile.source_of("prices.cache_read") == prices.SOURCE


def test_nothing_that_runs_imports_the_package_it_is_made_from() -> None:
    code = "import sys, sightline.context.dialects.profiles; print('genai_prices' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
