"""Ten thousand connections to one app: what one change costs, and what a connection holds.

    python -m benchmarks --only connections

Real sockets, with all readers in one other process, which answers nothing but pings. Time is
the CPU time of the app's process until the last reader has the change, the best of several;
the slowest and the garbage collector's part of all of them are beside it. Memory is what the
process has grown by. The app's tree is small: what is measured is the way to the readers. The
bars are promises, which stand in the peer's place; the peer has a figure where it ends in time.

Joining and acting are measured in an app in which every connection has a session of its own,
with few of them and with many: the bar is that many cost at most twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from slop_ai import SlopServer
from slop_ai.transports import unix as peer_unix

from benchmarks.harness import Row
from sightline.slop.app.app import App
from sightline.slop.protocol.limits import ProviderLimits
from sightline.slop.transports.link import Link, Peer
from sightline.slop.transports.memory import memory_pair
from sightline.slop.transports.unix import serve_unix
from sightline.slop.transports.websocket import serve_websocket

# The app is the tests' own, so that what is measured is what is tried.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
from support.live import TREE, LiveApp

__all__ = ["run"]

PROMISE_S = {"unix": 0.1, "ws": 0.2}
PROMISE_BYTES = 20 * 1024
_CHANGES = 7
_SPARE_FILES = 200
_PING = 0x89
_PEER_MOST = 1_000
_SUBSCRIBE = b'{"type":"subscribe","id":"s","path":"/","depth":-1}'
_HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Authorization: Bearer {token}\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Change:
    """What one change cost, and when the readers had it, in seconds after it was made."""

    cpu_s: float
    collecting_s: float
    half_s: float
    most_s: float


def run(*, quick: bool = False) -> list[Row]:
    """Run all races of this module; `quick` shows that they run, with few connections."""
    sizes: tuple[int, ...] = (1, 20) if quick else (1, 100, 1_000, 3_000, 10_000)
    room = _raise_files(sizes[-1] + _SPARE_FILES) - _SPARE_FILES
    left_out = [size for size in sizes if size > room]
    if left_out:
        line = f"connections: no more than {room:,} open files are allowed here, not {left_out}"
        print(line, file=sys.stderr)
    sizes = tuple(size for size in sizes if size <= room)
    theirs = asyncio.run(_peer_curve([size for size in sizes if size <= _PEER_MOST]))
    few, many = (1, 20) if quick else (1, 1_000)
    return [
        *asyncio.run(_curve("unix", sizes, theirs)),
        *asyncio.run(_curve("ws", sizes, {})),
        *asyncio.run(_in_sessions(few, many)),
    ]


def _raise_files(wanted: int) -> int:
    """Allow so many open files, or as many as may be allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


async def _curve(kind: str, sizes: Sequence[int], theirs: dict[int, float]) -> list[Row]:
    app, turns = LiveApp(limits=ProviderLimits(connections=1 << 20)), count(1)
    rows: list[Row] = []
    changes: list[Change] = []
    held = 0.0
    name = {"unix": "Unix sockets", "ws": "WebSockets"}[kind]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s"
        serving = serve_unix(app.handle, path) if kind == "unix" else serve_websocket(app.handle)
        async with serving as address, _readers(address) as readers:
            await readers.join(sizes[0])
            gc.collect()
            began = _resident()
            for size in sizes:
                await readers.join(size)
                gc.collect()
                held = (_resident() - began) / max(1, size - sizes[0])
                changes = [
                    await readers.see(lambda: app.publish(TREE.with_property("n", next(turns))))
                    for _ in range(_CHANGES)
                ]
                best = min(change.cpu_s for change in changes)
                more = {
                    "slowest": max(change.cpu_s for change in changes),
                    "collecting": sum(change.collecting_s for change in changes) / len(changes),
                    "half": min(change.half_s for change in changes),
                    "most": min(change.most_s for change in changes),
                }
                promised = size == 10_000
                peer = PROMISE_S[kind] if promised else theirs.get(size)
                note = f"slowest {more['slowest'] * 1e3:.3g} ms"
                work, bar = f"one change to N readers, {name}", 1 if promised else None
                rows.append(
                    Row(f"{kind}-{size}", work, size, best, peer, bar, note=note, more=more)
                )
    fairest = min(changes, key=lambda change: change.most_s / change.half_s)
    arrival = Row(
        f"{kind}-arrival", f"99 of 100 readers have it, {name}", sizes[-1], fairest.most_s,
        2 * fairest.half_s, 1, note="against twice the time until half of them have it",
    )  # fmt: skip
    memory = Row(
        f"{kind}-memory", f"memory per connection, {name}", sizes[-1], max(held, 1),
        PROMISE_BYTES, 1, unit="bytes", note=f"{held:,.0f} bytes",
    )  # fmt: skip
    return [*rows, arrival, memory]


async def _peer_curve(sizes: Sequence[int]) -> dict[int, float]:
    """What one change costs the peer, over Unix sockets."""
    state = {"n": 0}
    server = SlopServer("live", "Live")
    server.node("app")(lambda: {"type": "group", "props": dict(state)})

    def change() -> None:
        state["n"] += 1
        server.refresh()

    costs: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "s"
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        listening = await peer_unix.listen(server, str(path))
        async with _readers(f"unix:{path}") as readers:
            for size in sizes:
                await readers.join(size)
                costs[size] = min([(await readers.see(change)).cpu_s for _ in range(_CHANGES)])
        listening.close()
        while server._connections:
            await asyncio.sleep(0.01)
    return costs


class Readers:
    """The other process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    async def join(self, size: int) -> None:
        """Let there be so many readers, each with the first snapshot."""
        self._tell(f"join {size}")
        await self._answer()

    async def see(self, change: Callable[[], None]) -> Change:
        """Make a change and wait until all have it."""
        self._tell("wait")
        await self._answer()
        gc.collect()
        with _collecting() as collecting:
            cpu, clock = time.process_time(), time.monotonic()
            change()
            half, most = map(float, (await self._answer()).split())
            spent = time.process_time() - cpu
        return Change(spent, collecting[0], half - clock, most - clock)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    async def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = (await asyncio.to_thread(self._process.stdout.readline)).decode()
        if not answer:
            raise ConnectionError("a reader was let go")
        return answer


@contextlib.asynccontextmanager
async def _readers(address: str) -> AsyncIterator[Readers]:
    command = [sys.executable, "-m", "benchmarks.connections", address]
    here = Path(__file__).parent.parent
    with subprocess.Popen(
        command, cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield Readers(process)
        finally:
            process.kill()


@contextlib.contextmanager
def _collecting() -> Iterator[list[float]]:
    """Count the time of the garbage collector, in the first item."""
    spent, began = [0.0], [0.0]

    def note(phase: str, _: object) -> None:
        if phase == "start":
            began[0] = time.thread_time()
        else:
            spent[0] += time.thread_time() - began[0]

    gc.callbacks.append(note)
    try:
        yield spent
    finally:
        gc.callbacks.remove(note)


def _resident() -> int:
    """The bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


async def _in_sessions(few: int, many: int) -> list[Row]:
    """Join an app, and act in it, where few and where many others have a session of their own."""
    costs = {size: await _session_costs(size) for size in (few, many)}
    rows = []
    for at, (slug, work) in enumerate((("join", "join an app"), ("act", "act in an app"))):
        before, cost = costs[few][at], costs[many][at]
        work, note = f"{work} with N sessions", f"against {few}: at most twice"
        rows.append(Row(f"{slug}-{few}", work, few, before))
        rows.append(Row(f"{slug}-{many}", work, many, cost, before, 0.5, note=note))
    return rows


async def _session_costs(size: int) -> tuple[float, float]:
    """What it costs to join and leave, and to act, beside so many sessions."""
    app = App("desk", "Desk", limits=ProviderLimits(connections=1 << 20), coalesce_s=0)
    counts: dict[object, int] = {}
    app.node("board")(lambda: {"type": "group", "props": {"title": "For all"}})

    @app.node("mine")
    def mine(session: object) -> dict[str, object]:
        return {"type": "group", "props": {"n": counts.get(session, 0)}}

    @app.action("mine", "count", refreshes=())
    def add(session: object) -> None:
        counts[session] = counts.get(session, 0) + 1
        app.refresh("mine", where=lambda other: bool(other == session))

    names = count()
    app.authenticate(lambda _peer: next(names))
    tasks: list[asyncio.Task[None]] = []

    async def join() -> Link:
        ours, theirs = memory_pair()
        theirs.peer = Peer("memory")
        tasks.append(asyncio.create_task(app.handle(theirs)))
        await ours.send([_SUBSCRIBE])
        await _until(ours, b'"snapshot"')
        return ours

    links = [await join() for _ in range(size)]
    joining, acting = [], []
    for turn in range(20):
        gc.collect()
        began = time.process_time()
        link = await join()
        joining.append(time.process_time() - began)
        await link.close()
        await tasks[-1]
        began = time.process_time()
        asked = b'{"type":"invoke","id":"i%d","path":"/mine","action":"count"}' % turn
        await links[0].send([asked])
        await _until(links[0], b'"result"')
        acting.append(time.process_time() - began)
    for link in links:
        await link.close()
    await asyncio.gather(*tasks)
    return min(joining), min(acting)


async def _until(link: Link, word: bytes) -> None:
    while word not in (await link.receive() or word):
        pass


class _Crowd:
    """All readers: what the other process runs."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_unix = address.startswith("unix:")
        self._poll = select.epoll()
        self._lines: dict[int, socket.socket] = {}

    def join(self, size: int) -> None:
        while len(self._lines) < size:
            line = self._joined()
            line.setblocking(False)
            self._lines[line.fileno()] = line
            self._poll.register(line.fileno(), select.EPOLLIN)
            self.heard(0)
        while self.heard(0):
            pass

    def wait(self) -> tuple[float, float]:
        """Wait until everyone has heard something; returns when half and when nearly all had."""
        times: list[float] = []
        seen: set[int] = set()
        while len(seen) < len(self._lines):
            fresh = self.heard(-1) - seen
            seen |= fresh
            times += [time.monotonic()] * len(fresh)
        return times[len(times) // 2], times[int(len(times) * 0.99)]

    def heard(self, timeout: float) -> set[int]:
        """Read what is there; returns who was told something."""
        told = set()
        for handle, _ in self._poll.poll(timeout):
            line = self._lines[handle]
            data = line.recv(1 << 16)
            if not data:
                sys.exit("a reader was let go")
            pings = [] if self._is_unix else [body for kind, body in _frames(data) if kind == _PING]
            for body in pings:
                line.sendall(bytes([0x8A, 0x80 | len(body), 0, 0, 0, 0]) + body)  # a pong
            if len(data) > sum(2 + len(body) for body in pings):
                told.add(handle)
        return told

    def _joined(self) -> socket.socket:
        if self._is_unix:
            line = socket.socket(socket.AF_UNIX)
            line.connect(self._address.removeprefix("unix:"))
            line.sendall(_SUBSCRIBE + b"\n")
        else:
            where = urlsplit(self._address)
            line = socket.create_connection((where.hostname, where.port))
            host = where.netloc.rpartition("@")[2]
            asked = _HANDSHAKE.format(path=where.path, host=host, token=where.username or "none")
            line.sendall(asked.encode())
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                answer += line.recv(1)
            line.sendall(bytes([0x81, 0x80 | len(_SUBSCRIBE), 0, 0, 0, 0]) + _SUBSCRIBE)
        data = b""
        while b'"snapshot"' not in data:
            more = line.recv(1 << 16)
            if not more:
                sys.exit("a reader was let go")
            data += more
        return line


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The frames of a server, each with its first byte; all of them are short and whole."""
    while data:
        size, start = data[1], 2
        if size == 126:  # RFC 6455 §5.2
            size, start = int.from_bytes(data[2:4]), 4
        yield data[0], data[start : start + size]
        data = data[start + size :]


def _serve_commands(address: str) -> None:
    _raise_files(1 << 20)
    crowd = _Crowd(address)
    gc.disable()
    for line in sys.stdin:
        command, _, size = line.strip().partition(" ")
        if command == "join":
            crowd.join(int(size))
            print("joined", flush=True)
        else:
            print("waiting", flush=True)
            half, most = crowd.wait()
            print(half, most, flush=True)


if __name__ == "__main__":
    _serve_commands(sys.argv[1])
