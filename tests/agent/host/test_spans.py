"""A turn as OpenTelemetry sees it: what a collector gets over OTLP is what the table says."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

import sightline.telemetry as telemetry
from agent.host.traced import SECRET
from sightline.agent.host.spans import MAPPING
from sightline.events import CallStarted, HostEvent, RequestBuilt, UsageReported, decode_event
from support.live import command_of

collector_messages = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
metric_messages = pytest.importorskip(
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2"
)


class Collector(BaseHTTPRequestHandler):
    """Keeps what is exported to it."""

    posted: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        self.posted.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.posted.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def value(any_value: Any) -> object:
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return tuple(value(item) for item in any_value.array_value.values)
    return getattr(any_value, kind)


def attributes(found: Any) -> dict[str, object]:
    return {pair.key: value(pair.value) for pair in found.attributes}


def traced(directory: Path, endpoint: str, **more: str) -> tuple[list[HostEvent], list[Any]]:
    """Run the turn; what it told, and its spans."""
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **more}
    command = command_of("agent.host.traced", str(directory))
    done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    exported = [
        collector_messages.ExportTraceServiceRequest.FromString(body)
        for path, body in Collector.posted
        if path == "/v1/traces"
    ]
    spans = [
        span
        for request in exported
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    return [decode_event(line) for line in done.stdout.splitlines()], spans


def of_table(event: HostEvent) -> dict[str, object]:
    wanted = {}
    for name, field in MAPPING[type(event)].items():
        found = getattr(event, field)
        if found not in (None, "", False):
            wanted[name] = found
    return wanted


def test_a_turn_with_three_calls_is_what_the_table_says(tmp_path: Path, collector: str) -> None:
    told, spans = traced(tmp_path, collector)
    by_id = {span.span_id: span for span in spans}
    assert len({span.trace_id for span in spans}) == 1
    (turn,) = (span for span in spans if span.name == "invoke_agent sightline")
    assert by_id[turn.parent_span_id].name == "the caller's own span"
    assert attributes(turn)["sightline.turn.outcome"] == "answered"

    chats = [span for span in spans if span.name.startswith("chat ")]
    built = [event for event in told if isinstance(event, RequestBuilt)]
    used = [event for event in told if isinstance(event, UsageReported)]
    assert len(chats) == len(built) == len(used) == 3
    for span, request, usage in zip(
        sorted(chats, key=lambda span: span.start_time_unix_nano), built, used, strict=True
    ):
        wanted = of_table(request) | of_table(usage)
        assert wanted.items() <= attributes(span).items()
        assert attributes(span)["gen_ai.operation.name"] == "chat"
        assert span.kind == span.SPAN_KIND_CLIENT
        assert span.parent_span_id == turn.span_id

    calls = {
        attributes(span)["gen_ai.tool.call.id"]: span
        for span in spans
        if span.name.startswith("execute_tool ")
    }
    started = [event for event in told if isinstance(event, CallStarted)]
    assert len(started) == 3
    assert {event.call_id for event in started} == calls.keys()
    for event in started:
        assert of_table(event).items() <= attributes(calls[event.call_id]).items()
        assert calls[event.call_id].parent_span_id == turn.span_id
    assert attributes(calls["c2"])["error.type"] == "call_failed"
    assert "error.type" not in attributes(calls["c1"])

    invokes = {span.name: span for span in spans if span.kind == span.SPAN_KIND_SERVER}
    assert invokes.keys() == {"invoke add", "invoke fail"}
    assert invokes["invoke add"].parent_span_id == calls["c1"].span_id
    assert [link.span_id for link in calls["c1"].links] == [invokes["invoke add"].span_id]
    assert attributes(invokes["invoke fail"])["error.type"] == "conflict"
    (work,) = (span for span in spans if span.name == "the app's own work")
    assert work.parent_span_id == invokes["invoke add"].span_id

    logged = (tmp_path / "log.txt").read_text().splitlines()
    session = attributes(turn)["gen_ai.conversation.id"]
    broken, last = invokes["invoke add"], max(chats, key=lambda span: span.start_time_unix_nano)
    in_app = f"{broken.trace_id.hex()} {broken.span_id.hex()}  0 / could not be refreshed"
    assert any(line.startswith(in_app) for line in logged)
    assert f"{last.trace_id.hex()} {last.span_id.hex()} {session} 1 the last request" in logged

    everything = b"".join(body for _, body in Collector.posted)
    assert SECRET.encode() not in everything
    assert b"added" not in everything  # texts stay here unless they are asked for
    measured = {
        metric.name
        for path, body in Collector.posted
        if path == "/v1/metrics"
        for r in metric_messages.ExportMetricsServiceRequest.FromString(body).resource_metrics
        for g in r.scope_metrics
        for metric in g.metrics
    }
    assert measured == {
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
    }


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text(encoding="utf-8")
    for kind, fields in MAPPING.items():
        for name, field in fields.items():
            assert re.search(rf"^\| `{name}` \|.*`{kind.__name__}\.{field}`", page, re.MULTILINE)


def test_texts_are_sent_on_request_and_without_keys(tmp_path: Path, collector: str) -> None:
    traced(tmp_path, collector, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true")
    everything = b"".join(body for _, body in Collector.posted)
    assert b"added" in everything
    assert SECRET.encode() not in everything


def test_who_has_not_loaded_opentelemetry_does_not_get_it_loaded() -> None:
    code = (
        "import sys, sightline.agent.host.running, sightline.slop.app.app"
        "\nimport sightline.telemetry as t"
        "\nwith t.span('x', {}): assert t.context_here() == ''"
        "\nt.measure('gen_ai.client.token.usage', 1, {}); t.link_to('')"
        "\nassert 'opentelemetry.trace' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "context",
    ["", "x", "00-" + "0" * 32 + "-" + "1" * 16 + "-01", "01-" + "1" * 32 + "-" + "1" * 16 + "-01"],
)
def test_a_context_that_cannot_be_read_is_none(context: str) -> None:
    pytest.importorskip("opentelemetry.trace")
    assert telemetry._span_context(context) is None


def test_a_collector_that_is_gone_costs_one_line_and_no_answer(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody is there
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        env = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": nobody,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1",
        }
        command = command_of("agent.host.traced", str(tmp_path))
        done = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0
    assert b"turn_ended" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    assert b"traces were not all sent" in done.stderr
