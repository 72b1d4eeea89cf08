"""Spans and metrics of the command line, sent by OTLP where OpenTelemetry's variables say so."""

from __future__ import annotations

import atexit
import logging
import os
from typing import Any, Final

from sightline.cli.out import notice

# OpenTelemetry, OTLP exporter configuration: where a collector is, for all or for one kind.
_EVERYTHING: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_SPANS: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_METRICS: Final = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
# How long the end of a program waits for a collector that does not answer, unless it is set.
_PATIENCE_S: Final = 3.0


class _LastWord(logging.Handler):
    """Keeps what the exporters complain of for the end: a chat has the screen until then."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._words = ""
        atexit.register(self._say)

    def emit(self, record: logging.LogRecord) -> None:
        self._words = record.getMessage()

    def _say(self) -> None:
        if self._words:
            notice(f"traces were not all sent: {self._words:.200}")


def send_traces() -> None:
    """Set up OpenTelemetry's SDK, if a collector is named and nobody has turned it off."""
    named = [name for name in (_EVERYTHING, _SPANS, _METRICS) if os.environ.get(name)]
    if not named or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        from sightline._distribution import install

        notice(f"{named[0]} is set, but nothing is sent: {install('otel')}")
        return
    log = logging.getLogger("opentelemetry")
    log.addHandler(_LastWord())  # before the SDK, whose own end comes first then
    log.propagate = False
    is_set = "OTEL_EXPORTER_OTLP_TIMEOUT" in os.environ
    patience: dict[str, Any] = {} if is_set else {"timeout": _PATIENCE_S}
    # Not by the environment, which the commands of an agent have too.
    is_named = "OTEL_SERVICE_NAME" in os.environ
    resource = Resource.create({} if is_named else {"service.name": "sightline"})
    if {_EVERYTHING, _SPANS} & {*named}:
        traces = TracerProvider(resource=resource)
        traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(**patience)))
        trace.set_tracer_provider(traces)
    if {_EVERYTHING, _METRICS} & {*named}:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(**patience))
        metrics.set_meter_provider(MeterProvider([reader], resource=resource))
