"""Spans and metrics of the command line, sent by OTLP where OpenTelemetry's variables say so."""

from __future__ import annotations

import os
from typing import Final

from sightline.cli.out import notice

__all__ = ["send_traces"]

# OpenTelemetry, OTLP exporter configuration: either says where a collector is.
_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
# How long the end of a program waits for a collector that does not answer, unless it is set.
_PATIENCE_S: Final = "3"


def send_traces() -> None:
    """Set up OpenTelemetry's SDK, if a collector is named and nobody has turned it off."""
    named = next((name for name in _VARIABLES if os.environ.get(name)), None)
    if named is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
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
        notice(f"{named} is set, but nothing is sent: pip install 'sightline[otel]'")
        return
    os.environ.setdefault("OTEL_EXPORTER_OTLP_TIMEOUT", _PATIENCE_S)
    os.environ.setdefault("OTEL_SERVICE_NAME", "sightline")
    resource = Resource.create()
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(traces)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    metrics.set_meter_provider(MeterProvider([reader], resource=resource))
