"""What a request shares with the one before it, what caused the difference, and what it cost.

    same        byte for byte
    appended    all of the previous prefix is still there; only the tail and what came after differ
    fold        the prefix starts further on: a window let its oldest messages go, as planned
    tier        a tool result is cut shorter than it was, as planned: see `messages.replay`
    named       tools and instructions went to a named resource at the vendor's, or came back
    regression  something else inside the previous prefix changed

A cache reads a request from its start and stops at the first difference, so that
one byte decides what is paid again. `drift` needs the two requests only as bytes,
with the place of each message in them: it can be asked before anything is sent.

`missed` says what a vendor's cache could have given and did not: how much, why, at what price.

    expected    what an earlier request left there, as far as this one begins alike
    reported    what the vendor says that it reused
    the cause   what changed in the request; else the vendor's own reason; else that nothing was
                marked, that the lifetime ran out, that the mark is out of reach; else it was lost

Whoever knows two requests asks: the gateway of other agents', the inspector of our own.
"""

from __future__ import annotations

from typing import AnyStr, Final, Literal, TypeAlias

import msgspec

from sightline._amounts import dollars
from sightline.context.dialects.profile import Prices
from sightline.context.messages.replay import CUT_MARKS

DriftKind: TypeAlias = Literal["same", "appended", "fold", "tier", "named", "regression"]
MILLION: Final = 1_000_000
_CUTS: Final = tuple(msgspec.json.encode(mark)[1:-1] for mark in CUT_MARKS)


class ByteSpan(msgspec.Struct, frozen=True):
    """Where a piece of a request stands, in bytes.

    `label` names the piece (`tools`, `system`, `message 3`); `slot` and `message` say
    what of the prompt it came from, and `tokens` what that weighs.
    """

    start: int
    end: int
    label: str
    slot: str = ""
    message: int = -1
    tokens: int = 0

    def share_before(self, offset: int) -> float:
        """Return the share of its bytes that are before an offset."""
        return max(0, min(offset, self.end) - self.start) / max(1, self.end - self.start)


class Wire(msgspec.Struct, frozen=True):
    """A request as a cache sees it: its bytes, where its prefix ends, what stands where."""

    data: bytes
    boundary: int
    spans: tuple[ByteSpan, ...] = ()

    @property
    def prefix(self) -> bytes:
        """The bytes before the boundary."""
        return self.data[: self.boundary]

    def tokens_before(self, offset: int) -> int:
        """Weigh the first bytes: whole pieces by their weight, the last one by its share."""
        return int(sum(span.tokens * span.share_before(offset) for span in self.spans))

    def span_at(self, offset: int) -> ByteSpan | None:
        """Return the piece at a byte: the one that holds it, or the next one to begin."""
        return next((span for span in self.spans if offset < span.end), None)


class Drift(msgspec.Struct, frozen=True):
    """The comparison of two requests.

    `first_difference` is a byte offset, None if one request is the beginning of the
    other. `lost_tokens` are those of the previous prefix that must be evaluated again,
    and `lost_cost` is what that costs above reading them from a cache, in dollars, where
    prices were given. `slot`, `message` and `label` name the piece of the *current*
    request in which the difference lies.
    """

    kind: DriftKind
    common_bytes: int
    common_tokens: int
    reused_share: float
    first_difference: int | None
    label: str
    slot: str
    message: int
    lost_tokens: int
    lost_cost: float | None = None

    @property
    def expected(self) -> bool:
        """Whether the prefix held: no more than the tail differs."""
        return self.kind in ("same", "appended")

    def __str__(self) -> str:
        head = f"{self.kind}: {self.common_bytes} bytes ({self.common_tokens} tokens) in common"
        if self.expected:
            return head
        where = self.label + (f" (slot {self.slot!r})" if self.slot else "")
        cost = "" if self.lost_cost is None else f", {dollars(self.lost_cost)}"
        again = f"{self.lost_tokens} tokens again{cost}"
        return f"{head}; differs at byte {self.first_difference} in {where}; {again}"


def drift(
    previous: Wire,
    current: Wire,
    *,
    input_price: float | None = None,
    read_price: float | None = None,
) -> Drift:
    """Compare a request with the previous one. Prices are dollars per million tokens."""
    common = common_start(previous.data, current.data)
    at_end = common == min(len(previous.data), len(current.data))
    held = min(common, previous.boundary)
    span = current.span_at(common)
    lost = previous.tokens_before(previous.boundary) - previous.tokens_before(held)
    cost = None
    if input_price is not None:
        cost = lost * (input_price - (read_price or 0.0)) / MILLION
    return Drift(
        kind=_kind(previous, current, common),
        common_bytes=common,
        common_tokens=previous.tokens_before(common),
        reused_share=held / previous.boundary if previous.boundary else 1.0,
        first_difference=None if at_end else common,
        label="" if span is None else span.label,
        slot="" if span is None else span.slot,
        message=-1 if span is None else span.message,
        lost_tokens=lost,
        lost_cost=cost,
    )


def _kind(previous: Wire, current: Wire, common: int) -> DriftKind:
    if previous.data == current.data:
        return "same"
    if common >= previous.boundary:
        return "appended"
    here, there = current.span_at(common), previous.span_at(common)
    if any(span is not None and span.label == "cachedContent" for span in (here, there)):
        return "named"
    # A field with instructions is not folded: it stands later if the tools before it are gone.
    if here is not None and here.message >= 0 and here.label.endswith("]"):
        piece = current.data[here.start : here.end]
        if _is_later_in(previous, piece, common):
            return "fold"
        if _is_cut_at(current, common):
            return "tier"
    return "regression"


def _is_cut_at(wire: Wire, offset: int) -> bool:
    """Whether a result is cut there, or a little before: texts may go on alike by chance."""
    return any(
        mark in wire.data[max(0, offset - len(mark) + 1) : offset + len(mark)] for mark in _CUTS
    )


def _is_later_in(previous: Wire, piece: bytes, offset: int) -> bool:
    """Whether the previous request said the same further on, within its prefix."""
    return any(
        span.start > offset
        and span.end <= previous.boundary
        and previous.data[span.start : span.end] == piece
        for span in previous.spans
    )


def common_start(one: AnyStr, other: AnyStr) -> int:
    """Count what two requests, or two texts, begin with alike, by halving the range in doubt."""
    limit = min(len(one), len(other))
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


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
    "spaced": ("an earlier message has other white space or formatting",
        "send what was received, byte for byte"),
    "reserialized": ("equal values were written in other bytes",
        "send schemas, arguments and results as they were sent before"),
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


# pydantic-ai and Claude Code call a cache collapsed beyond these: 5 % and 2,000 tokens.
SLACK_SHARE: Final = 0.05
SLACK_TOKENS: Final = 2_000
# OpenAI, "Prompt caching": a cache is read in blocks of so many. What changed costs one, at least.
BLOCK_TOKENS: Final = 128
CLOCK_TOKENS: Final = 16  # but a clock is named at once: it will cost more
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

    little = CLOCK_TOKENS if cause in ("date", "random") else BLOCK_TOKENS
    if cause and could - read > min(SLACK_SHARE * could, little):
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
