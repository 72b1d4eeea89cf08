"""Apps and consumers that send what holds a careless reader, without end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import re
import resource
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

from proof.claim import Claim, Trial
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.patience import Patience
from sightline.slop.transports import pace
from sightline.slop.transports.memory import memory_pair
from sightline.slop.transports.unix import serve_unix
from sightline.testing import connect
from support import real
from support.floods import (
    MIB,
    FloodingApp,
    FloodingConsumer,
    FloodingProgram,
    Steps,
    host_floods,
    provider_floods,
    watched_loop,
)

# What one callback may keep the loop, in CPU time without the interpreter's own collector of
# garbage, which runs in whichever it likes: some times what it does.
HELD_S = 0.15
# How many times as long the loop must be seen held where no turns are given.
SEEN_TIMES = 10
GROWTH_BYTES = 150 * MIB
# So hasty that a flood is let go within a second, and so generous that it never is.
HASTY = Patience(busy_s=0.1, busy_share=0.02, held_s=0.2, faults=5, rest_s=3600)
ENDLESS = Patience(busy_s=math.inf, faults=1 << 60)
_LIMIT_S = 120.0


def floods(trial: Trial) -> None:
    """Flood a host and an app in every way, until they let go and to the end."""
    size = min(1.0, max(0.05, trial.scale))
    longest = (0.0, "")
    grown = 0
    with _quiet():
        for kind in _some(trial, host_floods(size)):
            for _ in range(trial.times(3)):
                with _Growth() as growth:
                    until_let_go = partial(_flood_host, trial, kind, size, HASTY, 1 << 30)
                    took_s = _held(trial, kind, until_let_go)
                longest, grown = max(longest, (took_s, kind)), max(grown, growth.bytes)
            with _Growth() as growth:
                took_s = _held(trial, kind, partial(_flood_host, trial, kind, size, ENDLESS, 2))
            longest, grown = max(longest, (took_s, f"{kind}, to its end")), max(grown, growth.bytes)
        for kind in _some(trial, provider_floods(size)):
            for _ in range(trial.times(3)):
                with _Growth() as growth:
                    took_s = _held(trial, f"app, {kind}", partial(_flood_app, trial, kind, size))
                longest = max(longest, (took_s, f"an app, {kind}"))
                grown = max(grown, growth.bytes)
        in_turns = asyncio.run(_held_by_patches(trial, pace.STEP_S))
        in_one_go = asyncio.run(_held_by_patches(trial, math.inf))
    trial.check(grown <= GROWTH_BYTES, f"memory grew by {grown:,} bytes")
    # A ratio, since a fast machine reads in a moment what holds the loop of a slow one.
    trial.control(
        in_one_go > SEEN_TIMES * in_turns,
        f"with no turns in between the loop is held {in_one_go / in_turns:.0f} times as long",
    )
    trial.note("memory", f"{grown / MIB:.0f} MiB more in any of them")
    took_s, what = longest
    trial.note("longest", f"{took_s * 1000:.0f} ms of CPU ({what})")


def _held(trial: Trial, what: str, flood: Callable[[], Coroutine[None, None, Steps]]) -> float:
    """Flood, and say how long the loop was held: the least of three times, should it be too long.

    A busy machine makes any callback slow now and then; what holds the loop does so every time.
    """
    least = asyncio.run(flood())
    for _ in range(2):
        if least.longest_s > HELD_S:
            least = min(least, asyncio.run(flood()), key=lambda steps: steps.longest_s)
    trial.check(least.longest_s <= HELD_S, f"{what}: {least.longest_s:.2f} s in {least.what}")
    return least.longest_s


def _some(trial: Trial, kinds: Iterable[str]) -> list[str]:
    """All of them, or a few in a small run."""
    known = list(kinds)
    return trial.random.sample(known, min(len(known), trial.times(len(known), least=2)))


async def _flood_host(
    trial: Trial, kind: str, size: float, patience: Patience, times: int
) -> Steps:
    """One app floods; another one changes, and is seen to."""
    path = trial.directory("host") / "s"
    flood = FloodingProgram(path, kind, size, times)
    honest = real.Mailbox()
    with watched_loop() as steps:
        async with Hub(patience=patience) as hub:
            serving = await _seat(hub, honest)
            hub.add("flood", flood.dial)
            let_go = await _until_over(hub)
            honest.app.update("me", props={"user": f"after {kind}"})
            fresh = await _shows(hub, f"after {kind}")
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    flood.stop()
    trial.check(fresh, f"{kind}: another app is not fresh")
    if times > 2:
        trial.check(let_go.startswith("let go: "), f"{kind}: {let_go!r}")
    await honest.app.close()
    return steps


async def _seat(hub: Hub, honest: real.Mailbox) -> asyncio.Task[None]:
    ours, theirs = memory_pair()

    async def dial() -> object:
        return ours

    serving = asyncio.create_task(honest.app.handle(theirs))
    hub.add("honest", dial)  # type: ignore[arg-type]  # a memory link is a link
    await _shows(hub, "ada")
    return serving


async def _shows(hub: Hub, user: str) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LIMIT_S):
            async for world in hub.changes():
                app = world.app("honest")
                me = None if app is None or app.tree is None else app.tree.child("me")
                if me is not None and me.properties["user"] == user:
                    return True
    return False


async def _until_over(hub: Hub) -> str:
    """Wait until the flood is let go, or has been taken to its end; returns why it ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LIMIT_S):
            async for world in hub.changes():
                app = world.app("flood")
                if app is not None and app.status == "disconnected":
                    return app.reason
    return "not over"


async def _flood_app(trial: Trial, kind: str, size: float) -> Steps:
    """One consumer floods an app; another one uses it."""
    path = trial.directory("app") / "s"
    mailbox = real.Mailbox(patience=HASTY)
    with watched_loop() as steps:
        async with serve_unix(mailbox.app.handle, path), connect(mailbox.app) as other:
            flood = FloodingConsumer(path, provider_floods(size)[kind], 1 << 30)
            flood.start()
            await other.invoke("/", "count")
            await asyncio.to_thread(flood.ended.wait, _LIMIT_S)
            await other.invoke("/", "count")
            fresh = other.tree.properties["n"] == 2
    trial.check(fresh, f"app, {kind}: another consumer is not served")
    trial.check(b"let go: " in flood.last, f"app, {kind}: {flood.last[-200:]!r}")
    await mailbox.app.close()
    return steps


async def _held_by_patches(trial: Trial, step_s: float) -> float:
    """How long the harness sees the loop held by patches read in such steps, to their end."""
    path = trial.directory("control") / "s"
    flood = FloodingApp(path, host_floods()["long patches"], 2)
    flood.start()
    with mock.patch.object(pace, "STEP_S", step_s), watched_loop() as steps:
        async with Hub(patience=ENDLESS) as hub:
            hub.add("flood", flood.dial)
            await _until_over(hub)
    flood.stop()
    return steps.longest_s


class _Growth:
    """How much memory a block needed beyond what there was before it, at its worst."""

    def __enter__(self) -> _Growth:
        gc.collect()
        with contextlib.suppress(OSError):  # Linux can forget the peak so far (proc(5), clear_refs)
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._before = _memory("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = max(0, _memory("VmHWM") - self._before)


def _memory(which: str) -> int:
    """Read a figure of this process' memory; the peak of its whole life where there is none."""
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(re.findall(rf"{which}:\s+(\d+) kB", status)[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Every message that is skipped is logged; here that is the point."""
    logger = logging.getLogger("sightline")
    before, logger.disabled = logger.level, False
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


CLAIMS = (
    Claim("floods", "floods of every kind: nobody waits, others are fresh, the flooder is let go",
          floods),
)  # fmt: skip
