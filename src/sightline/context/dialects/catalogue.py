"""Models: windows, output limits, prices, cache minima. Data, as listed in November 2026.

Prices are dollars per million tokens. Cache writes cost 1.25 x input where a vendor
charges for them (5 minutes at Anthropic, every write since GPT-5.6) and 2 x for the
longer lifetime. A model that is not here has the defaults of `Profile` and no price.
"""

from __future__ import annotations

from typing import Any, Final

from sightline.context.dialects.profile import Layer

__all__ = ["MODELS"]

LISTED: Final = "vendor price list, 2026-11"
WRITE, WRITE_LONG = 1.25, 2.0


def _model(
    name: str,
    window: int,
    output: int,
    prices: tuple[float, ...] = (),
    *,
    writes: bool = False,
    source: str = LISTED,
    **more: Any,
) -> Layer:
    """`prices` are input, output and cache read, as far as they are published."""
    values: dict[str, Any] = {"window_tokens": window, "max_output_tokens": output}
    values |= {f"prices.{k}": v for k, v in zip(("input", "output", "cache_read"), prices)}  # noqa: B905 - the list is as long as what was published
    if writes and prices:
        values["prices.cache_write"] = round(prices[0] * WRITE, 6)
        values["prices.cache_write_long"] = round(prices[0] * WRITE_LONG, 6)
    values |= {f"prices.{key}": value for key, value in more.items()}
    return Layer(source, values, (f"*{name}*",))


def _minimum(tokens: int, *models: str) -> Layer:
    return Layer("claude-docs", {"cache.min_tokens": tokens}, tuple(f"*{m}*" for m in models))


M, K128 = 1_000_000, 128_000

# Later rows win, so a family comes before its special members.
MODELS: Final[tuple[Layer, ...]] = (
    _model("claude", 200_000, 64_000, source="claude-docs"),
    _model("claude-fable-5", M, K128, (10, 50, 0.25), writes=True),
    _model("claude-mythos-5", M, K128, source="anthropic-sdk 2.8"),
    _model("claude-opus-5", M, K128, source="claude-docs"),
    _model("claude-opus-5-5", M, K128, (4, 20, 0.2), writes=True),
    _model("claude-sonnet-5", M, K128, source="claude-docs"),
    _model("claude-sonnet-5-5", M, K128, (2, 10, 0.1), writes=True),
    _model("claude-haiku-5-5", M, K128, (0.1, 0.5, 0.01), writes=True,
           long_tokens=100_000, long_factor=5.0),
    _model("claude-opus-4-8", M, K128, (5, 25, 0.5), writes=True),
    _model("claude-haiku-4-5", 200_000, 64_000, (1, 5, 0.1), writes=True),
    _minimum(4096, "claude-opus-4-5", "claude-opus-4-6", "claude-haiku-4-5"),
    _minimum(2048, "claude-opus-4-7"),
    _minimum(1024, "claude-opus-4-8", "claude-sonnet-5", "claude-sonnet-4"),
    _minimum(512, "claude-opus-5", "claude-fable-5", "claude-mythos-5", "claude-sonnet-5-5",
             "claude-haiku-5-5"),
    _model("gpt-5.4", 1_050_000, K128, source="openai-docs"),
    _model("gpt-5.5", 1_050_000, K128, source="openai-docs"),
    _model("gpt-5.6-sol", 922_000, K128, (4, 20, 0.4), writes=True),
    _model("gpt-5.6-terra", 922_000, K128, (2, 12, 0.2), writes=True),
    _model("gpt-5.6-luna", 922_000, K128, (0.2, 1.2, 0.02), writes=True),
    _model("gpt-6-astra", 922_000, K128, (10, 50, 1), writes=True,
           long_tokens=272_000, long_factor=2.0),
    _model("gpt-6.1-sol", 922_000, K128, (2, 10, 0.1), writes=True),
    _model("gpt-6-luna", 922_000, K128, (0.1, 0.5, 0.01), writes=True),
    # The list gives the window as its output limit too, which looks wrong: the family's.
    _model("gemini-4-argon", 1_048_576, 65_536, (2, 10, 0.1)),
    _model("gemini-3.8-flash", 1_048_576, 65_536, (0.75, 3.75, 0.075)),
    _model("qwen3.8-max", 991_808, 131_072, (2, 6, 0.2), writes=True, source="dashscope-docs"),
    _model("qwen3.8-flash", 991_808, 131_072, (0.15, 0.47, 0.015), writes=True,
           source="dashscope-docs"),
    _model("deepseek-v4-pro", M, 393_216, (1.32, 3.96)),
    _model("deepseek-v4-flash", M, 393_216, (0.3, 1.2)),
    _model("grok-4.7", 500_000, 500_000, (2, 6)),
    _model("kimi-k3", 1_048_576, 1_048_576, (3, 15)),
    _model("glm-5.3", M, K128, (1.4, 4.4)),
    _model("gpt-oss-120b", 131_072, 65_536, (0.15, 0.6)),
)  # fmt: skip
