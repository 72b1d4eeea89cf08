"""`sightline bridge`: keep the current tail in a file, or read it while it is true."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading

import click

from sightline.agent.bridge import BridgeWriter, read_bridge, run_bridge
from sightline.cli.io import MAX_BYTES, read_as
from sightline.cli.options import examples
from sightline.cli.out import notice, write_text
from sightline.context.projection.bridge import BUDGET, WINDOW_S
from sightline.context.projection.tail import FORMATS, check_format
from sightline.context.projection.world_json import read_world
from sightline.slop.discovery.directory import Discovery
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.world import World

# Written three times in a window, one late beat does not make a live bridge look dead.
_BEATS_PER_WINDOW = 3
_FIRST_SIGHT_S = 5.0


@examples(
    "sightline bridge --file tail.json --from world.json --once",
    "sightline bridge --file t --from world.json --once --pid $$; sightline bridge --file t --read",
)
@click.command()
@click.option("--file", "path", required=True, metavar="PATH", help="The bridge file.")
@click.option(
    "--from", "source", metavar="WORLD",
    help="A world in JSON, read at every beat, instead of the apps of this machine.",
)  # fmt: skip
@click.option(
    "--read", "reading", is_flag=True, help="Print the tail if it is fresh, else nothing."
)
@click.option("--once", is_flag=True, help="Write once and leave the file behind.")
@click.option("--pid", type=click.IntRange(min=1), help="The file counts while this process runs.")
@click.option(
    "--window", type=click.FloatRange(min=0.1), default=WINDOW_S, show_default=True,
    help="Seconds after which the file is not trusted.",
)  # fmt: skip
@click.option(
    "--budget", type=click.IntRange(min=0), default=BUDGET, show_default=True,
    help="How many tokens of state, estimated; what matters most is kept.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def bridge(
    *,
    path: str,
    source: str | None,
    reading: bool,
    once: bool,
    pid: int | None,
    window: float,
    budget: int,
    form: str,
) -> None:
    """Write the current tail to a file for other agents' prompt hooks, or read it there.

    The file is replaced at once, three times per window. --read prints nothing when
    the file is older than the window or its writer is gone, and says why on stderr;
    its exit code is 0 either way, so that a hook simply adds what it gets.
    """
    if reading:
        found = read_bridge(path, window_s=window)
        if found.dropped:
            notice(f"{path}: {found.dropped}")
        else:
            write_text([found.tail])
        return
    writer = BridgeWriter(path, form=check_format(form), budget=budget, window_s=window, pid=pid)
    if once:
        writer.write(asyncio.run(_first_sight()) if source is None else _world_in(source))
        write_text([path])
        return
    beat_s = window / _BEATS_PER_WINDOW
    with writer:
        if source is None:
            asyncio.run(_follow_apps(writer, beat_s))
        else:
            _follow_file(writer, source, beat_s)


def _follow_file(writer: BridgeWriter, source: str, beat_s: float) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    _announce(writer)
    run_bridge(writer, lambda: _world_in(source), lambda: not stop.wait(beat_s))


def _announce(writer: BridgeWriter) -> None:
    notice(f"writing {writer.path}; Ctrl-C stops")


def _world_in(source: str) -> World:
    return read_as(read_world, source, MAX_BYTES)


async def _first_sight() -> World:
    """The apps of this machine, once each has shown itself or had the time to."""
    async with Hub(Discovery()) as hub:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SIGHT_S):
                async for world in hub.changes():
                    if all(app.status != "awaiting" for app in world.apps):
                        break
        return hub.world


async def _follow_apps(writer: BridgeWriter, beat_s: float) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    _announce(writer)
    async with Hub(Discovery()) as hub:
        while not stop.is_set():
            await asyncio.to_thread(writer.write, hub.world)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(beat_s):
                    await stop.wait()
