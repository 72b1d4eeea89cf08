"""When everything in a turn happened, in milliseconds from the making of its first request on.

A request is placed by when it was sent, and what belongs to it by how long after that it
was. The clock on the wall can be put back; so nothing of a request is placed before what
is known to have been over when it was made. What lies between is a wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from sightline.agent.host.journal import RequestLine
from sightline.context.projection.moment import parse_moment
from sightline.errors import InvalidInput

# A shorter gap is the program's own work: storing, judging, handing over.
GAP_MS: Final = 50


class TimelineSpan(msgspec.Struct, frozen=True):
    """One thing that took time. `kind` is step, wait, stream or tool."""

    name: str
    kind: str
    start_ms: int
    end_ms: int
    request: int

    def later(self, ms: int) -> TimelineSpan:
        """Return the span, moved to a later time."""
        return msgspec.structs.replace(self, start_ms=self.start_ms + ms, end_ms=self.end_ms + ms)


class Timeline(msgspec.Struct, frozen=True):
    """The spans of a turn, by their beginning.

    `duration_ms` is from the sending of the first request to the last that is known.
    """

    spans: tuple[TimelineSpan, ...] = ()
    duration_ms: int = 0


def timeline_of(lines: Sequence[RequestLine]) -> Timeline:
    """Lay out the requests of one turn."""
    if not lines:
        return Timeline()
    spans: list[TimelineSpan] = []
    for line, sent, _ in _placed(lines):
        timed = (*_steps(line), *_stream(line), *_timed(line), *_untimed(line))
        spans += (span.later(sent) for span in timed)
    duration = duration_of(lines)
    spans += list(_gaps(spans, _making_ms(lines[0]) + duration))
    return Timeline(tuple(sorted(spans, key=_beginning)), duration)


def duration_of(lines: Sequence[RequestLine]) -> int:
    """How long a turn took, in milliseconds: that of its timeline, without laying it out."""
    ends = [max(over, sent + _untimed_ms(line)) for line, sent, over in _placed(lines)]
    return max(ends) - _making_ms(lines[0]) if ends else 0


def _placed(lines: Sequence[RequestLine]) -> Iterator[tuple[RequestLine, int, int]]:
    """Each request, when it was sent, and when what is timed of it was over."""
    first = over = 0
    for at, line in enumerate(lines):
        making = _making_ms(line)
        first = first if at else making
        sent = max(first + ms_between(lines[0].sent_at, line.sent_at), over + making)
        over = sent + _over_ms(line.timings)
        yield line, sent, over


def _over_ms(timings: dict[str, Any]) -> int:
    first, last = timings.get("first_ms"), timings.get("last_ms")
    ends = [0, timings.get("ended", {}).get("after_ms") or 0]
    if first is not None:
        ends += first, last or 0
    for key in ("calls", "waits"):
        ends += (took + start for _, took, *began in timings.get(key, ()) for start in began)
    return max(ends)


def _untimed_ms(line: RequestLine) -> int:
    untimed = [took for _, took, *began in line.timings.get("calls", ()) if not began]
    return (line.timings.get("last_ms") or 0) + sum(untimed) if untimed else 0


def _beginning(span: TimelineSpan) -> tuple[int, int]:
    return span.start_ms, span.end_ms


def _making_ms(line: RequestLine) -> int:
    return sum(took for _, took in line.timings.get("steps", ()))


def _steps(line: RequestLine) -> Iterator[TimelineSpan]:
    """The making of a request, up to its sending."""
    start = -_making_ms(line)
    for name, took in line.timings.get("steps", ()):
        yield TimelineSpan(name, "step", start, start + took, line.number)
        start += took


def _stream(line: RequestLine) -> Iterator[TimelineSpan]:
    first, last = line.timings.get("first_ms"), line.timings.get("last_ms")
    if first is not None:
        yield TimelineSpan("first token", "wait", 0, first, line.number)
        yield TimelineSpan("stream", "stream", first, max(first, last or 0), line.number)


def _timed(line: RequestLine) -> Iterator[TimelineSpan]:
    """The calls and waits of which it is known when they began."""
    for kind, key in (("tool", "calls"), ("wait", "waits")):
        for name, took, *began in line.timings.get(key, ()):
            for start in began:
                yield TimelineSpan(name, kind, start, start + took, line.number)


def _untimed(line: RequestLine) -> Iterator[TimelineSpan]:
    """Calls of an old journal, which knows how long they took: one after the other."""
    start = line.timings.get("last_ms") or 0
    for name, took, *began in line.timings.get("calls", ()):
        if not began:
            yield TimelineSpan(name, "tool", start, start + took, line.number)
            start += took


def _gaps(spans: Sequence[TimelineSpan], end: int) -> Iterator[TimelineSpan]:
    over, request = 0, 1
    for span in sorted(spans, key=_beginning):
        if span.start_ms - over >= GAP_MS:
            yield TimelineSpan("waiting", "wait", over, span.start_ms, request)
        if span.end_ms >= over:
            over, request = span.end_ms, span.request
    if end - over >= GAP_MS:
        yield TimelineSpan("waiting", "wait", over, end, request)


def ms_between(old: str, new: str) -> int:
    """How much later a moment was; 0 where one of them is none."""
    if old == new:
        return 0
    try:
        return round((parse_moment(new) - parse_moment(old)).total_seconds() * 1000)
    except InvalidInput:
        return 0
