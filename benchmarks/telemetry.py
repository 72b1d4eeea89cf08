"""What a span costs its caller: with the API of OpenTelemetry alone, and with its SDK and OTLP.

Each in a process of its own, because a tracer provider is set once. Behind the SDK there is a
collector that takes everything. The promises are 10 and 100 microseconds a span.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from benchmarks.harness import LeftOut, Row
from sightline._distribution import install

__all__ = ["run"]

API_S = 10e-6
SDK_S = 100e-6
SPANS = """
import time
{before}
from sightline.telemetry import span
attributes = {{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "tokens": 1}}
best = 9.0
for _ in range({rounds}):
    began = time.thread_time()
    for _ in range(1_000):
        with span("chat m", attributes, kind="client"):
            pass
    best = min(best, time.thread_time() - began)
print(best / 1_000)
"""
API = "import opentelemetry.trace"
SDK = """
import os, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
    def log_message(self, *arguments): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_address[1]}"
from sightline.cli.tracing import send_traces
send_traces()
"""


def run(*, quick: bool) -> list[Row]:
    """Time spans by the CPU of the thread that makes them."""
    if importlib.util.find_spec("opentelemetry.exporter") is None:
        raise LeftOut(install("otel"))
    rounds = 1 if quick else 15
    return [
        Row("api", "a span, with the API alone", 1, _span_s(API, rounds), API_S, bar=1),
        Row("sdk", "a span, with the SDK and OTLP", 1, _span_s(SDK, rounds), SDK_S, bar=1),
        Row("none", "a span that nobody asked for", 1, _span_s("", rounds)),
    ]


def _span_s(before: str, rounds: int) -> float:
    program = SPANS.format(before=before, rounds=rounds)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return float(done.stdout)
