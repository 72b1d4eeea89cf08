"""Spans and measurements for OpenTelemetry, for programs that have loaded its API; else nothing.

Whoever wants traces imports `opentelemetry.trace` and sets up an SDK; the command line does both
where `OTEL_…` asks for it. Nothing here imports OpenTelemetry, so that nobody else pays for it.
A span is made by `span`, which is current inside; `context_here` is what a message carries to
another process (`x-trace`), in the form of W3C Trace Context. `logger` gives loggers whose records
say which span and which turn they are part of.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias

SCOPE: Final = "sightline"
Attributes: TypeAlias = Mapping[str, str | int | float | bool | tuple[str, ...]]
Kind: TypeAlias = Literal["client", "internal", "server"]

# W3C Trace Context, traceparent: version 00, and neither id is all zeros.
_PARENT: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
# GenAI conventions, metrics: the unit of each and what it is.
_INSTRUMENTS: Final = {
    "gen_ai.client.token.usage": ("{token}", "Tokens of a request, by type"),
    "gen_ai.client.operation.duration": ("s", "How long an operation took"),
    "gen_ai.client.operation.time_to_first_chunk": ("s", "Until the first part of a reply"),
}
_histograms: dict[str, Any] = {}
_turn: Final[ContextVar[tuple[str, int]]] = ContextVar("sightline_turn", default=("", 0))


def is_on() -> bool:
    """Whether this program has loaded OpenTelemetry's API."""
    return "opentelemetry.trace" in sys.modules


def started(
    name: str, attributes: Attributes, *, kind: Kind = "internal", parent: str = "", at_ns: int = 0
) -> Any:
    """Begin a span that its caller ends; None where nobody traces.

    Its parent is the one of another process if its context is given and can be read, else the
    current span.
    """
    if not is_on():
        return None
    from opentelemetry import trace

    above = _span_context(parent)
    return trace.get_tracer(SCOPE).start_span(
        name,
        None if above is None else trace.set_span_in_context(trace.NonRecordingSpan(above)),
        trace.SpanKind[kind.upper()],
        dict(attributes),
        None,
        at_ns or None,
    )


@contextmanager
def span(
    name: str, attributes: Attributes, *, kind: Kind = "internal", parent: str = ""
) -> Iterator[Any]:
    """Have a span be current inside, and end it after; what is raised is noted as its type."""
    begun = started(name, attributes, kind=kind, parent=parent)
    with current(begun):
        try:
            yield begun
        except BaseException as error:
            fail(begun, type(error).__name__)
            raise
        finally:
            if begun is not None:
                begun.end()


def current(begun: Any) -> AbstractContextManager[Any]:
    """Have a span be current inside: what is begun there is part of it."""
    if begun is None or not begun.get_span_context().is_valid:
        return nullcontext()  # without an SDK a span is nothing
    from opentelemetry import trace

    return trace.use_span(begun, record_exception=False, set_status_on_exception=False)


def fail(begun: Any, kind: str, detail: str = "") -> None:
    """Mark a span as failed; `kind` is a code or the name of an exception."""
    if begun is None:
        return
    from opentelemetry.trace import Status, StatusCode

    begun.set_attribute("error.type", kind)
    begun.set_status(Status(StatusCode.ERROR, detail or None))


def context_here() -> str:
    """The current span's context, to be sent to another process; empty where there is none."""
    if not is_on():
        return ""
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return ""
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


def link_to(context: str) -> None:
    """Note on the current span that a span of another process belongs to it."""
    if is_on() and (found := _span_context(context)) is not None:
        from opentelemetry import trace

        trace.get_current_span().add_link(found)


def measure(name: str, value: float, attributes: Attributes) -> None:
    """Record one value of a metric."""
    if not is_on():
        return
    if name not in _histograms:
        from opentelemetry import metrics

        unit, what = _INSTRUMENTS[name]
        meter = metrics.get_meter(SCOPE)
        _histograms[name] = meter.create_histogram(name, unit=unit, description=what)
    _histograms[name].record(value, dict(attributes))


def enter_turn(session: str, turn: int) -> None:
    """Say for which turn the current task works, and those that it begins."""
    _turn.set((session, turn))


def logger(name: str) -> logging.Logger:
    """Give a logger whose records have a trace_id, span_id, session and turn, empty if none is."""
    found = logging.getLogger(name)
    found.addFilter(_identify)
    return found


def _identify(record: logging.LogRecord) -> bool:
    # OpenTelemetry, Trace Context in non-OTLP Log Formats: `trace_id` and `span_id`, in hex.
    here = context_here()
    session, turn = _turn.get()
    found = {"trace_id": here[3:35], "span_id": here[36:52], "session": session, "turn": turn}
    record.__dict__.update(found)
    return True


def _span_context(text: str) -> Any:
    from opentelemetry import trace

    if (found := _PARENT.fullmatch(text)) is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    flag = trace.TraceFlags(flags)
    return trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flag)
