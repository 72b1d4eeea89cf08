"""What a gateway adds to the time until a reply begins, against two proxies and a bare pipe.

    python -m benchmarks --only latency

A vendor on loopback answers at once. The same request goes to it directly, through a pipe that
passes bytes and looks at nothing, through `sightline gateway` as it is run (it records), through
mitmproxy as a reverse proxy and through LiteLLM's pass-through of the same API; each is a process
of its own. They take turns, in an order of chance, so that all have the same machine. What is added
is the median time until the first byte of a reply's body, less the median without anybody between.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.faults import session
from benchmarks.harness import Row
from benchmarks.peers import python_with

REQUESTS, QUICK_REQUESTS = 201, 5
SIZES = {"50k": 50_000, "1m": 1_000_000}
PROMISED_S = {"50k": 0.004, "1m": 0.008}
STARTED_S = 600.0
REPLY = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{}}}\n\n'
HEADERS = {"content-type": "application/json", "x-api-key": "none", "connection": "keep-alive"}


async def vendor(port: int) -> None:
    """Answer every request with a short stream, at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                kind = b"content-type: text/event-stream\r\n"
                size = b"content-length: %d\r\n\r\n" % len(REPLY)
                writer.write(b"HTTP/1.1 200 OK\r\n" + kind + size + REPLY)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=2**20)
    await server.serve_forever()


async def pipe(port: int, onward: int) -> None:
    """Pass bytes on, both ways, and look at none."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", onward)
        await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


def _free() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def _running(*command: str, port: int = 0, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a server for as long as a block does, from when its port answers."""
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=log, text=True
    )
    try:
        until = time.monotonic() + STARTED_S
        while port:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise RuntimeError(f"{command[0]} did not start: {log.read()[-500:]}") from None
                time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()
        log.close()


@contextmanager
def _ways() -> Iterator[dict[str, str]]:
    """Start everybody; gives the address of each."""
    here = [sys.executable, "-m", "benchmarks.latency"]
    at, through, mitm, lite = (_free() for _ in range(4))
    upstream = f"http://127.0.0.1:{at}"
    peers = python_with("proxies.txt", ".venv-proxies")
    with ExitStack() as stack, tempfile.TemporaryDirectory() as place:

        def run(*command: str, port: int = 0, **environment: str) -> subprocess.Popen[str]:
            return stack.enter_context(_running(*command, port=port, **environment))

        run(*here, "vendor", str(at), port=at)
        run(*here, "pipe", str(through), str(at), port=through)
        ours = [str(Path(sys.executable).with_name("sightline")), "gateway", "--upstream", upstream]
        gateway = run(*ours, "--db", f"{place}/l.db")
        assert gateway.stdout is not None
        address = gateway.stdout.readline().strip().partition("=")[2]
        ways = {"direct": upstream, "pipe": f"http://127.0.0.1:{through}", "gateway": address}
        if peers is not None:
            programs = peers.parent
            run(str(programs / "mitmdump"), "-q", "--mode", f"reverse:{upstream}",
                "-p", str(mitm), "--set", f"confdir={place}", port=mitm)  # fmt: skip
            run(str(programs / "litellm"), "--port", str(lite), "--host", "127.0.0.1",
                port=lite, ANTHROPIC_API_BASE=upstream, ANTHROPIC_API_KEY="none",
                LITELLM_LOCAL_MODEL_COST_MAP="True")  # fmt: skip
            ways["mitmproxy"] = f"http://127.0.0.1:{mitm}"
            ways["litellm"] = f"http://127.0.0.1:{lite}/anthropic"
        yield ways


def _body(size: int, number: int) -> bytes:
    """A request of a session, of about a size: most of it was said before, the end is new."""
    body = session(random.Random(1), "anthropic", 1)[0]
    text = 'The quick brown fox says "no" to the dog, and it\'s a long story. '
    body["messages"][0]["content"].insert(0, {"type": "text", "text": text * (size // 70)})
    body["messages"].append({"role": "assistant", "content": "And then?"})
    body["messages"].append({"role": "user", "content": f"This is {number}."})
    return json.dumps(body).encode()


def measure(ways: dict[str, str], size: int, requests: int) -> dict[str, float]:
    """Return the median seconds until a reply begins, for each way."""
    parts = {name: urlsplit(url) for name, url in ways.items()}
    clients = {
        name: http.client.HTTPConnection("127.0.0.1", part.port, timeout=60)
        for name, part in parts.items()
    }
    for client in clients.values():
        client.connect()
        # As agents' clients do: else a request's last piece may wait for an acknowledgement.
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times: dict[str, list[float]] = {name: [] for name in ways}
    bodies = [_body(size, number) for number in range(requests + 3)]
    chance = random.Random(1)
    for number, body in enumerate(bodies):
        for name, client in chance.sample([*clients.items()], len(clients)):
            started = time.perf_counter()
            client.request("POST", f"{parts[name].path}/v1/messages", body, HEADERS)
            reply = client.getresponse()
            first = reply.read(1)
            seconds = time.perf_counter() - started
            if reply.status != 200 or not first:
                raise RuntimeError(f"{name}: {reply.status} {(first + reply.read())[:500]!r}")
            reply.read()
            if number >= 3:
                times[name].append(seconds)
    for client in clients.values():
        client.close()
    return {name: statistics.median(found) for name, found in times.items()}


def run(*, quick: bool = False) -> list[Row]:
    """Race them at 50 kB and at a megabyte."""
    rows = []
    requests = QUICK_REQUESTS if quick else REQUESTS
    with _ways() as ways:
        for name, size in SIZES.items():
            medians = measure(ways, size, requests)
            added = {way: max(1e-6, medians[way] - medians["direct"]) for way in medians}
            ours, length = added["gateway"], len(_body(size, 0))
            more = {"direct": medians["direct"], "pipe": added["pipe"]}
            rows += [
                Row(f"added-{name}", "a reply begins later through the gateway, against what is "
                    "promised", length, ours, PROMISED_S[name], bar=1.0, more=more),
                Row(f"litellm-{name}", "the same, against LiteLLM's proxy", length, ours,
                    added.get("litellm"), bar=2.0),
                Row(f"mitmproxy-{name}", "the same, against mitmproxy", length, ours,
                    added.get("mitmproxy")),
                Row(f"pipe-{name}", "the same, against a pipe that looks at nothing", length, ours,
                    added["pipe"]),
            ]  # fmt: skip
    return rows


if __name__ == "__main__":
    what, *ports = sys.argv[1:]
    serving = vendor(int(ports[0])) if what == "vendor" else pipe(int(ports[0]), int(ports[1]))
    asyncio.run(serving)
