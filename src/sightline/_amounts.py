"""Prices and shares, as every interface writes them.

A price that is not known is "unknown" and never zero. A free model has a known price: $0.
A share is between 0 and 100 %, whatever was reported.
"""

from __future__ import annotations

from typing import Final

LEAST_USD: Final = 0.0001  # the smallest price that is written as a number


def dollars(usd: float | None, unpriced: int = 0) -> str:
    """Return a price as text. `unpriced` counts requests that the sum does not include.

    A sum of nothing but unknown prices is unknown, and so is one of them and of free requests.
    """
    if usd is None or (unpriced and not usd):
        return "unknown"
    cents = f"{usd:.2f}".removesuffix(".00")
    if abs(usd) < 1 and abs(usd - round(usd, 2)) >= LEAST_USD / 2:
        cents = f"{usd:.4f}".rstrip("0")
    text = f"under ${LEAST_USD}" if 0 < usd < LEAST_USD else f"${cents}"
    requests = "1 request" if unpriced == 1 else f"{unpriced:,} requests"
    return f"{text} + {requests} of unknown price" if unpriced else text


def share(part: float, whole: float) -> float:
    """Return the part of a whole, between 0 and 1. Returns 0 if there is no whole."""
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0


def percent(part: float, whole: float = 1) -> str:
    """Return a share as text: "95 %"."""
    return f"{100 * share(part, whole):.0f} %"
