"""What a vendor's cache could have given and did not: how much, why, and what it cost.

    expected    what an earlier request left there, as far as this one begins alike
    reported    what the vendor says that it reused
    the cause   what changed in the request; else the vendor's own reason; else that nothing was
                marked, that the lifetime ran out, that the mark is out of reach; else it was lost

Whoever knows two requests calls it: the gateway of other agents', the inspector of our own.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sightline.context.dialects.causes import CAUSES
from sightline.context.dialects.drift import Drift
from sightline.context.dialects.profile import Prices

MILLION: Final = 1_000_000
# pydantic-ai and Claude Code call a cache collapsed beyond these: 5 % and 2,000 tokens.
SLACK_SHARE: Final = 0.05
SLACK_TOKENS: Final = 2_000
_SPANS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0}
# What a change is called that the host plans, or that a place in the prompt explains.
_KINDS: Final = {"fold": "folded", "tier": "result_cut", "named": "named"}
_LABELS: Final = {"tools": "tools", "system": "instructions"}
_SLOTS: Final = {"system": "instructions", "guidelines": "instructions"}


class Loss(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens that were paid again, why, and what that cost above reading them, in dollars."""

    cause: str
    tokens: int
    cost: float | None
    path: str = ""
    detail: str = ""
    before: str = ""
    now: str = ""

    @property
    def words(self) -> str:
        """The cause in words, with what it concerns."""
        return CAUSES[self.cause][0] + (f" ({self.detail})" if self.detail else "")

    @property
    def advice(self) -> str:
        """What to do about it."""
        return CAUSES[self.cause][1]


def missed(
    could: int,
    read: int,
    *,
    shared: int,
    whole: int,
    kept: int,
    cause: str = "",
    detail: str = "",
    reason: str = "",
    idle_s: float = 0.0,
    lifetime_s: float = 0.0,
    least_tokens: int = 0,
    slack_tokens: int = SLACK_TOKENS,
    is_unmarked: bool = False,
    setting: tuple[str, str] | None = None,
    is_out_of_reach: bool = False,
    extra_price: float | None = None,
    most: int | None = None,
) -> Loss | None:
    """Hold what a cache could have given against what it gave; None if nothing was lost.

    `could` are the tokens of the earlier request and `kept` those of them that its vendor keeps;
    the later request begins with `shared` of its `whole`, in one unit. `read` is what was reported,
    `reason` the vendor's own word. `cause` is what changed between the two, empty for nothing, and
    `setting` a changed one with what it is, which is blamed only if nothing else explains a loss.
    `extra_price` is what a token costs above being read, in dollars a million. `most` are the
    tokens of the later request that were not read and could have been: no more are paid again.
    """

    def loss(cause: str, tokens: int, detail: str = "") -> Loss | None:
        tokens = tokens if most is None else min(tokens, most)
        if tokens <= 0:
            return None
        cost = None if extra_price is None else tokens * extra_price / MILLION
        return Loss(cause, tokens, cost, detail=detail)

    if cause and read < (1 - SLACK_SHARE) * could:
        share = shared / whole if whole else 1.0
        return loss(cause, min(int(could * (1 - share)), could - read), detail)
    expected = int(kept * shared / whole) if whole else kept
    missing = expected - read
    if could < least_tokens or missing < max(slack_tokens, SLACK_SHARE * expected):
        return None
    if is_unmarked:
        return loss("unmarked", missing)
    if lifetime_s and idle_s > lifetime_s:
        return loss("expired", missing, f"{_span(idle_s)} since the last request")
    if setting is not None:
        changed, what = setting
        return loss(changed, missing, what)
    if is_out_of_reach:
        return loss("lookback", missing)
    why = f"; the vendor says {reason}" if reason else ""
    return loss("lost", missing, f"{read:,} of {expected:,} read{why}")


def cause_of(
    change: Drift | None, before: str, now: str, *, is_taken_back: bool = False
) -> tuple[str, str]:
    """Name what changed between two requests of a conversation of our own, and what it concerns.

    `before` and `now` are their models; `is_taken_back` says that the earlier one's turn was
    undone. Nothing is named where the later request holds the whole prefix of the earlier.
    """
    if before != now:
        return "model", f"{before} → {now}"
    if change is None or change.expected:
        return "", ""
    if is_taken_back:
        return "undone", ""
    if change.kind in _KINDS:
        return _KINDS[change.kind], ""
    cause = _LABELS.get(change.label) or _SLOTS.get(change.slot) or "edited"
    return cause, f"in {change.slot}" if cause == "edited" and change.slot else ""


def extra_price(prices: Prices, written: int | None = None) -> float | None:
    """Tell what a token costs above being read from a cache, in dollars a million.

    `written` are the tokens that the vendor says it wrote to its cache: where it says none, what
    was read again cost what the input does. A missing cache price is the input's, as in `cost`.
    """
    if prices.input is None:
        return None
    paid = prices.input if written == 0 or prices.cache_write is None else prices.cache_write
    return paid - (prices.input if prices.cache_read is None else prices.cache_read)


def lifetime_s(span: str) -> float:
    """Read a cache's lifetime as vendors write it, `5m` or `1h`; 0 where there is none."""
    number = span[:-1]
    return float(number) * _SPANS[span[-1]] if span[-1:] in _SPANS and number.isdigit() else 0.0


def _span(seconds: float) -> str:
    minutes = int(seconds // 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
