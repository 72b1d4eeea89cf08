"""What a request shares with the one before it, and what caused the difference.

    same        byte for byte
    appended    all of the previous prefix is still there; only the tail and what came after differ
    fold        the prefix starts further on: a window let its oldest messages go, as planned
    tier        a tool result is cut shorter than it was, as planned: see `messages.replay`
    named       tools and instructions went to a named resource at the vendor's, or came back
    regression  something else inside the previous prefix changed

A cache reads a request from its start and stops at the first difference, so that
one byte decides what is paid again. `drift` needs the two requests only as bytes,
with the place of each message in them: it can be asked before anything is sent.
"""

from __future__ import annotations

from typing import AnyStr, Final, Literal, TypeAlias

import msgspec

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
        total = 0.0
        for span in self.spans:
            if span.start >= offset:
                break
            share = 1.0 if span.end <= offset else (offset - span.start) / (span.end - span.start)
            total += span.tokens * share
        return int(total)

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
        cost = "" if self.lost_cost is None else f", ${self.lost_cost:.4f}"
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
    if here is not None and here.message >= 0:
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
