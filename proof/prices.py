"""Write `context/dialects/prices.json`, the windows and prices of models, from genai-prices.

    python -m proof.prices [DATE]

genai-prices follows the price lists of vendors and requires an HTTP client. So Sightline ships its
data, and not the package. Before a release, `make lock` installs the newest list, this command
writes the list of the day, and a test compares both. `endpoints.py` corrects single values.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import MatchLogic, ModelInfo, ModelPrice, Provider, TieredPrices

import sightline.context.dialects as dialects

__all__ = ["PATH", "page"]

PATH: Final = Path(str(dialects.__file__)).with_name("prices.json")
# The vendors that sell models of their own, in the order of the search.
VENDORS: Final = (
    "anthropic", "openai", "google", "deepseek", "x-ai", "mistral", "moonshotai", "zai", "zhipuai",
    "minimax", "cohere", "perplexity", "meta", "arcee", "aws",
)  # fmt: skip
PRICES: Final = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok",
                 "cache_write_1h_mtok")  # fmt: skip
_SIGNS: Final = {
    "equals": "=", "starts_with": "^", "ends_with": "$", "contains": "in", "regex": "~",
}  # fmt: skip


def page(day: date) -> str:
    """Return the file with the prices of a day: one line for each model."""
    vendors = {vendor.id: vendor for vendor in get_snapshot().providers}
    written = [
        f" [{json.dumps(name)}, {_json(vendors[name].model_match)}, [\n"
        + ",\n".join(f"  {row}" for row in _rows(vendors[name], day))
        + "\n ]]"
        for name in VENDORS
    ]
    head = {"source": f"genai-prices {version('genai-prices')}", "as_of": day.isoformat()}
    start = json.dumps(head).removesuffix("}")
    return f'{start},\n"vendors": [\n' + ",\n".join(written) + "\n]}\n"


def _rows(vendor: Provider, day: date) -> Iterator[str]:
    midnight = datetime.combine(day, time(), UTC)
    hours = [midnight + timedelta(hours=hour) for hour in range(24)]
    for model in vendor.models:
        if vendor.id == "aws" and "nova" not in model.id:
            continue  # AWS sells these models for other vendors.
        # Some prices depend on the hour. The highest never promises too little.
        dearest = max((model.get_prices(hour) for hour in hours), key=_input)
        yield json.dumps([_rule(model.match), *_fields(model, dearest)])


def _json(match: MatchLogic | None) -> str:
    return json.dumps(None if match is None else _rule(match))


def _rule(match: MatchLogic) -> list[Any]:
    """Return a rule as a list: a sign and its text, or "or" and "and" with further rules."""
    for name in ("or", "and"):
        if (rules := getattr(match, f"{name}_", None)) is not None:
            return [name, *map(_rule, rules)]
    for name, sign in _SIGNS.items():
        if (text := getattr(match, name, None)) is not None:
            return [sign, text if sign == "~" else text.lower()]
    raise ValueError(f"a match rule of an unknown type: {match}")


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
        raise ValueError(f"a profile cannot store the prices of {model.id}: {prices}")
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
    """Write the file, as of today or of the given day."""
    day = date.fromisoformat(arguments[0]) if arguments else datetime.now(UTC).date()
    PATH.write_text(page(day), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
