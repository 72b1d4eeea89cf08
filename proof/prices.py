"""Write `context/dialects/prices.py`, the windows and prices of models, from genai-prices.

    python -m proof.prices [DATE]

genai-prices keeps up with what vendors publish, and brings an HTTP client with it; so its
facts are shipped, and not the package. Done for a release: `make lock` brings the newest
list, this writes it down as of the day, and a test compares the two. What is wrong or
missing there is set right in `endpoints.py`, which comes after it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Final

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

import sightline.context.dialects as dialects

__all__ = ["PATH", "page"]

PATH: Final = Path(str(dialects.__file__)).with_name("prices.py")

# Whose models, and how the names begin of those that our dialects are for.
KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("claude-fable-", "claude-haiku-", "claude-opus-", "claude-sonnet-"),
    "openai": ("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"),
    "google": ("gemini-3.8-flash", "gemini-4"),
    "deepseek": ("deepseek-v4",),
    "x-ai": ("grok-4.",),
    "moonshotai": ("kimi-k3",),
    "zai": ("glm-5",),
}
PRICES: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok",
                 "cache_write_1h_mtok")  # fmt: skip

_HEAD: Final = '''\
"""Windows, and dollars per million tokens, as genai-prices {version} lists them for {day}.

Written by `python -m proof.prices`; a test compares the two. `endpoints` has the last word.
"""

from typing import Final

SOURCE: Final = "genai-prices {version}"
AS_OF: Final = "{day}"
FIELDS: Final = (
    "window_tokens", "prices.input", "prices.output", "prices.cache_read", "prices.cache_write",
    "prices.cache_write_long", "prices.long_tokens", "prices.long_factor",
    "prices.long_output_factor",
)  # fmt: skip
# A model, and its fields in that order; None is what is not published, or not different.
ROWS: Final[tuple[tuple[str, tuple[float | None, ...]], ...]] = (
'''


def page(day: date) -> str:
    """The module, with the prices of a day."""
    head = _HEAD.format(version=version("genai-prices"), day=day.isoformat())
    # Where one name begins another, the longer is the more special, and the later row wins.
    rows = sorted(_rows(day), key=lambda row: (row[0].partition("-")[0], len(row[0]), row[0]))
    return head + "".join(f"    {row},\n" for row in rows) + ")  # fmt: skip\n"


def _rows(day: date) -> Iterator[tuple[str, tuple[float | None, ...]]]:
    midnight = datetime.combine(day, time(), UTC)
    hours = [midnight + timedelta(hours=hour) for hour in range(24)]
    for vendor in get_snapshot().providers:
        for model in vendor.models:
            name = model.id.lower()
            if name.startswith(KNOWN.get(vendor.id, ("/",))) and not model.deprecated:
                # Where the hour makes a difference, the dearest: nobody is told too little.
                dearest = max((model.get_prices(hour) for hour in hours), key=_input)
                yield name, tuple(_fields(model, dearest))


def _fields(model: ModelInfo, prices: ModelPrice) -> Iterator[float | None]:
    found = [getattr(prices, name) for name in PRICES]
    yield model.context_window
    yield from map(_base, found)
    tiers = [price for price in found if isinstance(price, TieredPrices)]
    if not tiers:
        yield from (0, 1, None)
        return
    starts = {tier.start for price in tiers for tier in price.tiers}
    factors = [_factor(price) for price in found if price is not None]
    if len(starts) != 1 or len({factors[0], *factors[2:]}) != 1:
        raise ValueError(f"{model.id} has prices that a profile cannot hold: {prices}")
    yield from (*starts, factors[0], None if factors[1] == factors[0] else factors[1])


def _input(prices: ModelPrice) -> float:
    return _base(prices.input_mtok) or 0


def _base(price: Decimal | TieredPrices | None) -> float | None:
    if price is None:
        return None
    return _number(price.base if isinstance(price, TieredPrices) else price)


def _factor(price: Decimal | TieredPrices) -> float:
    return _number(price.tiers[0].price / price.base) if isinstance(price, TieredPrices) else 1


def _number(value: Decimal) -> float:
    return int(value) if value == int(value) else float(value)


def main(arguments: list[str]) -> None:
    """Write it, as of today or of the day that is named."""
    day = date.fromisoformat(arguments[0]) if arguments else datetime.now(UTC).date()
    PATH.write_text(page(day), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
