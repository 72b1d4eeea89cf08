"""Readers that do not read, by the thousand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import tracemalloc

from proof.claim import Claim, Trial
from sightline.hub.client import Client
from sightline.protocol.limits import ProviderLimits
from sightline.transports.lines import LineLink
from sightline.transports.unix import connect_unix, serve_unix
from support.live import TREE, LiveApp
from support.stalled import PER_READER, memory_traced, subscribed, transport_of
from support.wire import PATIENCE_S

CHANGE_BYTES = 20_000


def stalled(trial: Trial) -> None:
    """Offer 4 GB to readers that take none of it: in the machine, then over real sockets."""
    readers, changes = trial.times(1000, least=20), 200
    _in_the_machine(trial, readers, changes)
    asyncio.run(_over_sockets(trial, min(readers, _sockets()), trial.times(200, least=10)))
    trial.note("offered", f"{readers * changes * CHANGE_BYTES / 1e9:.2g} GB")


def _in_the_machine(trial: Trial, count: int, changes: int) -> None:
    app, (healthy, *others) = subscribed(count + 1)
    with memory_traced():
        for n in range(1, changes + 1):
            text = f"{n}" + "x" * CHANGE_BYTES
            app.provider.publish(TREE.with_property("n", text))
            app.provider.flush()
            [patch] = map(json.loads, healthy.frames_to_send())
            right = (patch["seq"], patch["ops"][0]["value"]) == (n, text)
            trial.check(right, f"the healthy reader did not get change {n}")
        _, peak = tracemalloc.get_traced_memory()
    trial.note("bytes a reader", f"{peak // count:,} at most")
    trial.check(peak < count * PER_READER, f"{count} readers cost {peak:,} bytes")
    for connection in others:
        last = b""
        while batch := connection.frames_to_send():
            last = batch[-1]
        current = json.loads(last).get("version") == app.provider.version
        trial.check(current, "a reader that reads at last does not come to the present")


def _sockets() -> int:
    """How many connections this process may have; both ends of each are here."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return (wanted - 200) // 2


async def _over_sockets(trial: Trial, count: int, changes: int) -> None:
    app = LiveApp(limits=ProviderLimits(kept_versions=1))
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


CLAIMS = (Claim("readers", "1,000 stalled readers: bounded memory, nobody else notices", stalled),)
