"""Programs that send what holds a careless reader, over a real socket, as fast as it is taken."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest import mock

from sightline.slop.hub.client import Dial
from sightline.slop.transports.link import Link
from sightline.slop.transports.unix import connect_unix
from support.live import command_of

MIB: Final = 1024 * 1024
HELLO: Final = (
    b'{"type":"hello","provider":{"id":"flood","name":"Flood","slop_version":"0.1",'
    b'"capabilities":["state","patches"]}}\n'
)


def _snapshot(tree: bytes, own: str, number: int) -> bytes:
    head = b'{"type":"snapshot","id":"%b","version":%d,"seq":0,"tree":' % (own.encode(), number)
    return head + tree + b"}\n"


def _tree(nodes: int, fields: bytes = b"") -> bytes:
    inner = b",".join(b'{"id":"n%d","type":"t"%b}' % (n, fields) for n in range(nodes - 1))
    return b'{"id":"r","type":"t","children":[' + inner + b"]}"


def host_floods(size: float = 1.0) -> dict[str, Callable[[str, int], bytes]]:
    """What an app may send its host: by name, the message for a subscription and a number.

    `size` 1 is the whole charge: just below the limit of a message, or far beyond one of a tree.
    """
    deep, wide = round(4_000_000 * size), round(60_000 * size)
    room = round(16 * MIB * size)
    node = b'{"id":"a","type":"t","children":['
    levels = deep // 20
    whole: dict[str, Callable[[], bytes]] = {
        "a nested array": lambda: b"[" * deep + b"]" * deep + b"\n",
        "an unclosed array": lambda: b"[" * deep * 2 + b"\n",
        "nested objects": lambda: (
            b'{"type":"event","name":"e","data":'
            + b'{"a":' * levels
            + b"1"
            + b"}" * levels
            + b"}\n"
        ),
        "a long batch": lambda: (
            b'{"type":"batch","messages":['
            + b",".join([b'{"type":"event","name":"e"}'] * min(9_000, wide))
            + b"]}\n"
        ),
        "batches in batches": lambda: (
            b'{"type":"batch","messages":[' * 60
            + b'{"type":"event","name":"e","data":"'
            + b"x" * (room // 2)
            + b'"}'
            + b"]}" * 60
            + b"\n"
        ),
        "a wide event": lambda: (
            b'{"type":"event","name":"e","data":[' + b"[]," * (room // 3) + b"0]}\n"
        ),
        "an event of a mebibyte": lambda: (
            b'{"type":"event","name":"e","data":[' + b"[]," * round(240_000 * size) + b"0]}\n"
        ),
        "a deep event": lambda: (
            b'{"type":"event","name":"e","data":['
            + (b"[" * 600 + b"]" * 600 + b",") * round(400 * size)
            + b"0]}\n"
        ),
        "events": lambda: b'{"type":"event","name":"e"}\n' * 2_000,
        "an unknown type": lambda: b'{"type":"x","data":[' + b"{}," * (room // 3) + b"0]}\n",
        "an unknown type of a mebibyte": lambda: (
            b'{"type":"x","data":[' + b"{}," * round(340_000 * size) + b"0]}\n"
        ),
        "rubbish": lambda: b'{}\n\xff\xff\n"\n' * 50,
    }
    trees: dict[str, Callable[[], bytes]] = {
        "a deep tree": lambda: node * levels + b"]}" * levels,
        "deep properties": lambda: (
            b'{"id":"a","type":"t","properties":{"p":' + b"[" * deep + b"]" * deep + b"}}"
        ),
        "too many nodes": lambda: _tree(wide),
        "unknown fields": lambda: _tree(round(49_000 * size), b',"x":1'),
        "a large tree": lambda: _tree(
            round(45_000 * size), b',"properties":{"t":"%b","k":[1,2]}' % (b"x" * 250)
        ),
        "twins": lambda: node + b",".join([b'{"id":"twin","type":"t"}'] * wide) + b"]}",
        "one long string": lambda: (
            b'{"id":"a","type":"t","properties":{"p":"' + b"x" * room + b'"}}'
        ),
        "long properties": lambda: (
            b'{"id":"a","type":"t","properties":{"p":[' + b"[]," * (room // 3) + b"0]}}"
        ),
    }
    kinds: dict[str, Callable[[str, int], bytes]] = {}
    kinds.update((name, _repeated(cache(make))) for name, make in whole.items())
    kinds.update((name, _snapshots(cache(make))) for name, make in trees.items())
    ops = cache(
        lambda: b",".join(
            b'{"op":"add","path":"/properties/k%d","value":%d}' % (n % 50, n) for n in range(wide)
        )
    )
    small = b'{"id":"r","type":"t","properties":{}}'

    def patches(own: str, number: int) -> bytes:
        if number == 1:
            return _snapshot(small, own, number)
        head = b'{"type":"patch","subscription":"%b","version":%d,"seq":%d,"ops":['
        return head % (own.encode(), number, number - 1) + ops() + b"]}\n"

    kinds["long patches"] = patches
    large = cache(
        lambda: (
            b'{"id":"r","type":"t","properties":{"p":['
            + (b"[]," * round(60_000 * size) + b'"",') * 5
            + b"0]}}"
        )
    )

    def inner_patches(own: str, number: int) -> bytes:
        if number == 1:
            return _snapshot(large(), own, number)
        head = b'{"type":"patch","subscription":"%b","version":%d,"seq":%d,"ops":['
        op = b'{"op":"replace","path":"/properties/p/0","value":%d}]}\n'
        return head % (own.encode(), number, number - 1) + op % number

    kinds["patches in a large value"] = inner_patches
    return kinds


def provider_floods(size: float = 1.0) -> dict[str, bytes]:
    """What a consumer may send an app, again and again."""
    room = round(1_000_000 * size)
    head = b'{"type":"invoke","id":"i","path":"/","action":"echo","params":'
    query = b'{"type":"query","id":"q","path":"/"}\n'
    return {
        "a nested array": b"[" * (room // 2) + b"]" * (room // 2) + b"\n",
        "nested params": head + b'{"a":' * (room // 6) + b"1" + b"}" * (room // 6) + b"}\n",
        "wide params": head + b'{"a":[' + b"{}," * (room // 3 - 100) + b"0]}}\n",
        "an unknown type": b'{"type":"x","data":[' + b"{}," * (room // 3 - 100) + b"0]}\n",
        "too long": b'{"type":"query","id":"' + b"x" * (5 * room) + b'"}\n',
        "rubbish": b'{}\n\xff\xff\n"\n' * 400,
        "lone surrogates": b'{"type":"query","id":"\\ud800","path":1}\n' * 400,
        "queries": query * 400,
        "subscriptions": b"".join(
            b'{"type":"subscribe","id":"s%d","max_nodes":%d}\n{"type":"unsubscribe","id":"s%d"}\n'
            % (n, n + 1, n)
            for n in range(400)
        ),
    }


def _repeated(make: Callable[[], bytes]) -> Callable[[str, int], bytes]:
    return lambda _own, _number: make()


def _snapshots(make: Callable[[], bytes]) -> Callable[[str, int], bytes]:
    return lambda own, number: _snapshot(make(), own, number)


@dataclass(slots=True)
class Steps:
    """How long each callback of the event loop kept it, in CPU time of its own thread.

    Without the collector of garbage: it walks all that the process holds, and in a run of all
    tests that is a gigabyte of others.
    """

    longest_s: float = 0.0
    total_s: float = 0.0
    count: int = 0
    what: str = ""
    _run: Any = field(default=asyncio.Handle._run, repr=False)
    _thread: int = field(default_factory=threading.get_ident, repr=False)
    _collecting: float = 0.0

    def run(self, handle: asyncio.Handle) -> None:
        """Run one callback as the loop would, and note how long it took."""
        collected = self._collecting
        began = time.thread_time()
        self._run(handle)
        took = time.thread_time() - began - (self._collecting - collected)
        self.total_s += took
        self.count += 1
        if took > self.longest_s:
            self.longest_s, self.what = took, repr(handle)

    def collect(self, phase: str, _info: dict[str, int]) -> None:
        """Take the time of a collection that a callback of ours set off (`gc.callbacks`)."""
        if threading.get_ident() == self._thread:
            self._collecting += time.thread_time() * (1 if phase == "stop" else -1)


@contextlib.contextmanager
def watched_loop() -> Iterator[Steps]:
    """Note how long the callbacks of an event loop take while the block runs."""
    steps = Steps()
    gc.callbacks.append(steps.collect)
    try:
        with mock.patch.object(asyncio.Handle, "_run", lambda handle: steps.run(handle)):
            yield steps
    finally:
        gc.callbacks.remove(steps.collect)


class FloodingApp(threading.Thread):
    """An app that greets, and then sends the same again and again until it is hung up on."""

    def __init__(self, path: Path, message: Callable[[str, int], bytes], times: int) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._message = message
        self._times = times
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.sent = 0

    @property
    def dial(self) -> Dial:
        """How the host gets here."""

        async def dialled() -> Link:
            return await connect_unix(self._path)

        return dialled

    def run(self) -> None:
        """Serve one connection."""
        with contextlib.suppress(OSError), self._listener.accept()[0] as line:
            line.sendall(HELLO)
            ask = json.loads(line.makefile("rb").readline())
            while self.sent < self._times:
                self.sent += 1
                line.sendall(self._message(ask["id"], self.sent))

    def stop(self) -> None:
        """Serve nobody else."""
        self._listener.close()


class FloodingProgram:
    """A `FloodingApp` in a process of its own, so that what it sends weighs nothing here."""

    def __init__(self, path: Path, kind: str, size: float, times: int) -> None:
        self._path = path
        self._process = subprocess.Popen(
            command_of("support.floods", str(path), kind, str(size), str(times)),
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it listens

    @property
    def dial(self) -> Dial:
        """How the host gets here."""

        async def dialled() -> Link:
            return await connect_unix(self._path)

        return dialled

    def stop(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()


class FloodingConsumer(threading.Thread):
    """A consumer that sends the same again and again until it is hung up on; it reads, too."""

    def __init__(self, path: Path, message: bytes, times: int) -> None:
        super().__init__(daemon=True)
        self._message = message
        self._times = times
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(str(path))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self.last = b""
        self.ended = threading.Event()

    def run(self) -> None:
        """Flood, while another thread reads."""
        self._reader.start()
        with contextlib.suppress(OSError):
            for _ in range(self._times):
                self._line.sendall(self._message)
            self._line.shutdown(socket.SHUT_WR)
        self._reader.join()
        self._line.close()

    def _read(self) -> None:
        kept = b""
        with contextlib.suppress(OSError):
            while data := self._line.recv(65536):
                kept = (kept + data)[-4096:]
        self.last = kept
        self.ended.set()


@dataclass(frozen=True, slots=True)
class Beat:
    """How late one beat was by the clock, and how long the loop's thread had worked before it."""

    late_s: float
    worked_s: float


@contextlib.asynccontextmanager
async def heartbeat(every_s: float) -> AsyncIterator[list[Beat]]:
    """Beat in the same loop; gives the beats."""
    beats: list[Beat] = []

    async def beat() -> None:
        while True:
            due, began = time.perf_counter() + every_s, time.thread_time()
            await asyncio.sleep(every_s)
            worked_s = time.thread_time() - began
            beats.append(Beat(time.perf_counter() - due, worked_s))

    beating = asyncio.create_task(beat())
    try:
        yield beats
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)


if __name__ == "__main__":
    where, what, how_large, how_often = sys.argv[1:]
    app = FloodingApp(Path(where), host_floods(float(how_large))[what], int(how_often))
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    app.run()
