"""How late a heartbeat is while an app floods its host, in the same event loop.

    python -m benchmarks --only floods

Each flood comes over a real Unix socket from another process, as fast as it is taken, with the
host's own limits; it runs until it is let go, or for some seconds. What is measured is how
long the loop's thread worked between two beats that were due at once: on a machine that does
nothing else this is how late the second one is, by the clock, which the note has. On a busy
machine only the first is a measure. The peer is the promise: 50 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Row
from sightline.slop.hub.hub import Hub

# The floods are the tests' own, so that what is measured is what is tried.
sys.path.append(str(Path(__file__).parent.parent / "tests"))
from support.floods import Beat, FloodingProgram, heartbeat, host_floods

__all__ = ["PROMISE_S", "run"]

PROMISE_S = 0.05
_BEAT_S = 0.001
_SECONDS = 2.0


def run(*, quick: bool = False) -> list[Row]:
    """Flood a host in every way; `quick` shows that it runs, with small floods."""
    logging.getLogger("sightline").setLevel(logging.CRITICAL)
    size, seconds = (0.02, 0.2) if quick else (1.0, _SECONDS)
    return [_lateness(kind, size, seconds) for kind in host_floods(size)]


def _lateness(kind: str, size: float, seconds: float) -> Row:
    beats = asyncio.run(_flooded(kind, size, seconds))
    slug = kind.replace(" ", "-")
    work = f"a heartbeat during {kind}"
    held_s, late_s = max(beat.worked_s for beat in beats), max(beat.late_s for beat in beats)
    note = f"by the clock {late_s * 1000:.0f} ms"
    return Row(slug, work, len(beats), held_s, PROMISE_S, 1, note=note)


async def _flooded(kind: str, size: float, seconds: float) -> list[Beat]:
    with tempfile.TemporaryDirectory() as place:
        flood = FloodingProgram(Path(place) / "s", kind, size, 1 << 30)
        async with Hub() as hub, heartbeat(_BEAT_S) as beats:
            hub.add("flood", flood.dial)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    async for world in hub.changes():
                        if world.apps and world.apps[0].status == "disconnected":
                            break
            await asyncio.sleep(_BEAT_S * 2)
        flood.stop()
        return list(beats)
