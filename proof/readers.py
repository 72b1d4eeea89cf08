"""Readers that do not read, by the thousand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import tracemalloc
from dataclasses import replace

from proof.claim import Claim, Trial
from sightline.slop.hub.client import Client
from sightline.slop.protocol.connection import Connection
from sightline.slop.transports.lines import LineLink
from sightline.slop.transports.unix import connect_unix, serve_unix
from support.live import TREE, LiveApp
from support.stalled import (
    LIMITS,
    PER_LARGE_READER,
    PER_READER,
    all_stalled,
    deaf_reader,
    large_tree,
    memory_traced,
    subscribed,
    transport_of,
)
from support.wire import PATIENCE_S

CHANGE_BYTES = 20_000
CHANGES = 200
# What may wait for a reader: the queue, and the snapshot that takes its place.
WAITING = 256 * 1024 + 2 * CHANGE_BYTES
UNBOUNDED = replace(LIMITS, queue_bytes=1 << 40, own_bytes=1 << 40)


def stalled(trial: Trial) -> None:
    """Offer 4 GB to readers that take none of it: in the machine, then over real sockets.

    Most share a view, and with it what waits for them. Some have one of their own: only with
    them does it cost memory if what waits has no bound.
    """
    readers, alone = trial.times(1000, least=20), trial.times(50, least=10)
    _control(trial)
    cost = _in_the_machine(trial, readers - alone, CHANGES)
    _in_the_machine(trial, 200, 100)  # in company, so early, only the queue's own bound helps
    own = _in_the_machine(trial, alone, trial.times(CHANGES, least=40), alone=True)
    trial.note("bytes a reader", f"{cost:,} at most, {own:,} for {alone} with views of their own")
    asyncio.run(_over_sockets(trial, min(readers, _sockets()), trial.times(200, least=10)))
    asyncio.run(_large_snapshots(trial, trial.times(100, least=10)))
    trial.note("offered", f"{readers * CHANGES * CHANGE_BYTES / 1e9:.2g} GB")


def _control(trial: Trial) -> None:
    """Let what waits for readers grow without end: it has to show, in memory and in the line."""
    count, changes = 4, 40
    app, (healthy, *others) = subscribed(count + 1, alone=True, limits=UNBOUNDED)
    peak = _offer(trial, app, healthy, changes)
    waiting = min(_read_at_last(connection)[0] for connection in others)
    trial.control(
        peak > (count + 1) * PER_READER and waiting > WAITING,
        f"with no bound {waiting:,} bytes wait after {changes} changes, {peak // count:,} a reader",
    )


def _in_the_machine(trial: Trial, count: int, changes: int, *, alone: bool = False) -> int:
    app, (healthy, *others) = subscribed(count + 1, alone=alone)
    peak = _offer(trial, app, healthy, changes)
    trial.check(peak < (count + 1) * PER_READER, f"{count} readers cost {peak:,} bytes")
    for connection in others:
        waiting, last = _read_at_last(connection)
        trial.check(waiting <= WAITING, f"{waiting:,} bytes wait for a reader")
        current = json.loads(last).get("version") == app.provider.version
        trial.check(current, "a reader that reads at last does not come to the present")
    return peak // count


def _offer(trial: Trial, app: LiveApp, healthy: Connection, changes: int) -> int:
    """Make changes that one reader takes and the others do not; the most memory it took."""
    with memory_traced():
        for n in range(1, changes + 1):
            text = f"{n}" + "x" * CHANGE_BYTES
            app.provider.publish(TREE.with_property("n", text))
            app.provider.flush()
            [patch] = map(json.loads, healthy.frames_to_send())
            right = (patch["seq"], patch["ops"][0]["value"]) == (n, text)
            trial.check(right, f"the healthy reader did not get change {n}")
        return tracemalloc.get_traced_memory()[1]


def _read_at_last(connection: Connection) -> tuple[int, bytes]:
    """Take everything that waits: how many bytes, and the last message."""
    size, last = 0, b""
    while batch := connection.frames_to_send():
        size, last = size + sum(map(len, batch)), batch[-1]
    return size, last


def _sockets() -> int:
    """How many connections this process may have; both ends of each are here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return (wanted - 200) // 2


async def _over_sockets(trial: Trial, count: int, changes: int) -> None:
    app = LiveApp(limits=LIMITS)
    path = trial.directory("sockets") / "app.sock"
    async with serve_unix(app.handle, path), contextlib.AsyncExitStack() as stack:
        links: list[LineLink] = []
        for _ in range(count):
            links.append(await connect_unix(path))
            await links[-1].send([b'{"type":"subscribe","id":"s"}'])
            transport_of(links[-1]).pause_reading()
        client = await stack.enter_async_context(Client(lambda: connect_unix(path)))
        watch = client.subscribe()
        await watch.first(PATIENCE_S)
        with memory_traced():
            for n in range(changes):
                text = f"{n}" + "x" * CHANGE_BYTES
                await client.invoke("/", "set", {"key": "text", "value": text})
                shown = watch.tree is not None and watch.tree.properties["text"] == text
                trial.check(shown, f"the healthy client did not see change {n}")
            now, _ = tracemalloc.get_traced_memory()
        trial.check(now < count * PER_READER + 2_000_000, f"{count} sockets cost {now:,} bytes")
        trial.note("sockets", f"{count:,}, {now // count:,} bytes each")
        await asyncio.gather(*(link.close() for link in links))


async def _large_snapshots(trial: Trial, count: int) -> None:
    """Let readers stall in the middle of a snapshot of 15 MB: they hold it once, together."""
    app = LiveApp(large_tree(), limits=LIMITS)
    path = trial.directory("large") / "app.sock"
    async with serve_unix(app.handle, path) as address:
        lines = [await asyncio.to_thread(deaf_reader, address)]
        await all_stalled(app.serving, 1)
        with memory_traced():
            lines += [await asyncio.to_thread(deaf_reader, address) for _ in range(count)]
            await all_stalled(app.serving, 1 + count)
            now, _ = tracemalloc.get_traced_memory()
        trial.check(now < count * PER_LARGE_READER, f"{count} readers hold {now:,} bytes")
        trial.note("of a snapshot of 15 MB", f"{now // count:,} bytes each of {count:,}")
        for line in lines:
            line.close()


CLAIMS = (Claim("readers", "1,000 stalled readers: bounded memory, nobody else notices", stalled),)
