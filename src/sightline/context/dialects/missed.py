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

from sightline.context.dialects.drift import Drift
from sightline.context.dialects.profile import Prices

# Why a cache was missed: cause → (in words, what to do about it)
CAUSES: Final[dict[str, tuple[str, str]]] = {
    "model": ("the model was switched",
        "a cache belongs to one model: switch between tasks, not within one"),
    "effort": ("the effort was changed",
        "choose the effort before the conversation, or at its compaction"),
    "thinking": ("thinking was switched or its budget changed",
        "leave thinking as it is within a conversation"),
    "tool_choice": ("tool_choice was changed",
        "leave the tool choice alone; say in the message which tool to use"),
    "output": ("the format of the answer was changed", "keep one schema for a conversation"),
    "routing": ("prompt_cache_key was changed", "keep one key for a conversation"),
    "setting": ("a setting of the request was changed", "keep it within a conversation"),
    "tool_added": ("a tool was added",
        "connect servers before the first question, or let tools be searched for"),
    "tool_removed": ("a tool was removed", "disconnect servers between conversations"),
    "tools_replaced": ("tools were added and others removed",
        "connect servers before the first question"),
    "tools_reordered": ("the tools came in another order",
        "sort the tools: the order of a set differs from run to run"),
    "tool_reworded": ("a tool's description was reworded",
        "take what changes out of a tool's description"),
    "tool_schema": ("a tool's schema was changed", "take what changes out of a tool's schema"),
    "date": ("a date or a time stands in the prefix",
        "say the time behind the history, or by the day"),
    "billing": ("the billing line changed",
        "the agent writes it: newer versions keep it, or switch the header off"),
    "environment": ("the environment or the git status was written anew",
        "state that changes belongs behind the history"),
    "random": ("an id or a counter stands in the prefix",
        "take what is new each time out of the instructions"),
    "memory": ("a file of instructions was changed",
        "it costs the prefix once; change it between conversations"),
    "instructions": ("the instructions were reworded", "what changes belongs behind the history"),
    "reminder": ("a reminder was changed, added or taken out",
        "the agent moves it; nothing to do but a newer version"),
    "hook": ("the output of a hook was changed, added or taken out",
        "let the hook say only what changed, or use the live tail"),
    "compaction": ("the conversation was compacted",
        "planned: everything before the summary is paid once more"),
    "cleared": ("the conversation began anew", "planned"),
    "rewound": ("the conversation went back and took another way",
        "planned: what is still shared is reused"),
    "edited": ("an earlier message was edited", "say it again instead of changing what was said"),
    "spaced": ("an earlier message has other white space", "send what was received, byte for byte"),
    "reserialized": ("the arguments of an earlier call were written in another order",
        "replay arguments as they came, as text"),
    "inserted": ("something was put between earlier messages", "put what is new at the end"),
    "dropped": ("an earlier message was dropped", "drop from the history at compaction only"),
    "window": ("the oldest messages were dropped", "let the window grow and fold in large steps"),
    "reordered": ("earlier messages came in another order", "keep the order in which results came"),
    "result_cut": ("an earlier tool result was cut or cleared", "clear many at once, seldom"),
    "reasoning": ("reasoning was dropped or changed", "replay reasoning as it came, or never"),
    "image": ("an image was changed, added or dropped",
        "an image is part of the prefix: leave it where it was"),
    "expired": ("the cache's lifetime ran out", "go on sooner, or ask for the longer lifetime"),
    "unmarked": ("nothing was marked for the cache", "mark the last block that stays"),
    "lookback": ("more than 20 blocks came since the last mark",
        "mark more often in long tool loops"),
    "lost": ("the vendor lost it", "nothing to do: the request was the same"),
    "tail": ("the state of apps that stood there has left",
        "let the gateway's tail stay: `--tail session`"),
    "unknown": ("the transcript does not tell why",
        "run the agent through `sightline gateway`: it sees the requests"),
    # Of conversations of our own, in which more is known than two requests can tell.
    "folded": ("the window folded: the oldest turns left the prompt",
        "planned: with more slack it happens less often"),
    "undone": ("a turn was taken back", "planned: what stood before it is reused"),
    "tools": ("the tools were changed", "keep one set of tools for a conversation"),
    "named": ("tools and instructions went to a named resource at the vendor's, or came back",
        "planned"),
}  # fmt: skip


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
