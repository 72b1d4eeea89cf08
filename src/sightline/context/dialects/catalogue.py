"""Models: windows, output limits, prices, cache minima. Data, as of November 2026.

Windows and prices come from `prices`, which is generated; output limits, cache minima and
whatever is known better are set here, and win. Prices are dollars per million tokens. A
model that is in neither has the defaults of `Profile` and no price.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sightline.context.dialects import prices
from sightline.context.dialects.profile import Layer

LISTED: Final = "vendor price list, 2026-11"
M, K128 = 1_000_000, 128_000


def _layer(source: str, models: tuple[str, ...], **values: Any) -> Layer:
    """`cache__min_tokens=512` sets `cache.min_tokens`; models are known by a part of their name."""
    spelled = {field.replace("__", "."): value for field, value in values.items()}
    return Layer(source, spelled, tuple(f"*{model}*" for model in models))


def _limits(source: str, window: int, output: int, *models: str) -> Layer:
    return _layer(source, models, window_tokens=window, max_output_tokens=output)


def _minimum(tokens: int, *models: str) -> Layer:
    return _layer("claude-docs", models, cache__min_tokens=tokens)


def _prices(model: str, source: str, *published: float) -> Layer:
    """Input, output, and, where caching is offered, to read, to write, to write for longer."""
    return Layer(source, dict(zip(prices.FIELDS[1:], published)), (f"*{model}*",))  # noqa: B905 - as far as it is published


def _listed() -> Iterator[Layer]:
    """What the generated table says; a window that it does not know is the family's."""
    for model, row in prices.ROWS:
        values = dict(zip(prices.FIELDS, row, strict=True))
        if values["window_tokens"] is None:
            del values["window_tokens"]
        source, input_price = prices.SOURCE, values["prices.input"]
        yield Layer(source, values, (f"*{model}*",))
        if model.startswith("gpt-") and values["prices.cache_write"] and input_price:
            # Not in the table: what OpenAI keeps for twelve hours costs twice the input.
            yield _layer(LISTED, (model,), prices__cache_write_long=2 * input_price)


# Later rows win, so a family comes before its special members.
MODELS: Final[tuple[Layer, ...]] = (
    _limits("claude-docs", 200_000, 64_000, "claude"),
    *_listed(),
    _limits("anthropic-sdk 2.8", M, K128, "claude-mythos-5"),
    _limits("claude-docs", M, K128, "claude-fable-5", "claude-opus-5", "claude-sonnet-5",
            "claude-haiku-5-5", "claude-opus-4-8"),
    _minimum(4096, "claude-opus-4-5", "claude-opus-4-6", "claude-haiku-4-5"),
    _minimum(2048, "claude-opus-4-7"),
    _minimum(1024, "claude-opus-4-8", "claude-sonnet-5", "claude-sonnet-4"),
    _minimum(512, "claude-opus-5", "claude-fable-5", "claude-mythos-5", "claude-sonnet-5-5",
             "claude-haiku-5-5"),
    _limits("openai-docs", 1_050_000, K128, "gpt-5.4", "gpt-5.5"),
    _limits("openai-docs", 400_000, K128, "gpt-5.4-mini", "gpt-5.4-nano"),
    # What is published as the window is shared with the answer; this is the prompt's part.
    _limits(LISTED, 922_000, K128, "gpt-5.6", "gpt-6-", "gpt-6.1"),
    # The list gives the window as its output limit too, which looks wrong: the family's.
    _limits(LISTED, 1_048_576, 65_536, "gemini-4-argon", "gemini-3.8-flash"),
    _limits("dashscope-docs", 991_808, 131_072, "qwen3.8-max", "qwen3.8-flash"),
    _prices("qwen3.8-max", "dashscope-docs", 2, 6, 0.2, 2.5, 4),
    _prices("qwen3.8-flash", "dashscope-docs", 0.15, 0.47, 0.015, 0.1875, 0.3),
    _limits(LISTED, M, 393_216, "deepseek-v4-pro", "deepseek-v4-flash"),
    _limits(LISTED, 500_000, 500_000, "grok-4.7"),
    _limits(LISTED, 1_048_576, 1_048_576, "kimi-k3"),
    _limits(LISTED, M, K128, "glm-5.3"),
    _limits(LISTED, 131_072, 65_536, "gpt-oss-120b"),
    _prices("gpt-oss-120b", LISTED, 0.15, 0.6),
)  # fmt: skip
