"""`sightline bridge`: keep the current tail in a file, or read it while it is true."""

from __future__ import annotations

import signal
import threading

import click

from sightline.bridge import BridgeWriter, read_bridge, run_bridge
from sightline.cli.io import MAX_BYTES, read_as, write_text
from sightline.projection.body import FORMATS, check_format
from sightline.projection.bridge import WINDOW_S
from sightline.projection.world_json import read_world
from sightline.protocol.world import World

# Written three times in a window, one late beat does not make a live bridge look dead.
_BEATS_PER_WINDOW = 3


@click.command(
    epilog="""\b
Examples:
  sightline bridge --file tail.json --from world.json --once
  sightline bridge --file t --from world.json --once --pid $$; sightline bridge --file t --read
"""
)
@click.option("--file", "path", required=True, metavar="PATH", help="The bridge file.")
@click.option("--from", "source", metavar="WORLD", help="A world in JSON, read at every beat.")
@click.option(
    "--read", "reading", is_flag=True, help="Print the tail if it is fresh, else nothing."
)
@click.option("--once", is_flag=True, help="Write once and leave the file behind.")
@click.option("--pid", type=click.IntRange(min=1), help="Whose life vouches for the file.")
@click.option(
    "--window", type=click.FloatRange(min=0.1), default=WINDOW_S, show_default=True,
    help="Seconds after which the file is not trusted.",
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
    form: str,
) -> None:
    """Write the current tail to a file for other agents' prompt hooks, or read it there.

    The file is replaced at once, three times per window. --read prints nothing when
    the file is older than the window or its writer is gone, and says why on stderr;
    its exit code is 0 either way, so that a hook simply adds what it gets.
    """
    if reading:
        _read(path, window)
        return
    if source is None:
        raise click.UsageError("where does the state come from? give --from WORLD")
    writer = BridgeWriter(path, form=check_format(form), window_s=window, pid=pid)

    def world() -> World:
        return read_as(read_world, source, MAX_BYTES)

    if once:
        writer.write(world())
        write_text([path])
        return
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    click.echo(f"sightline: writing {path}; Ctrl-C stops", err=True)
    with writer:
        run_bridge(writer, world, lambda: not stop.wait(window / _BEATS_PER_WINDOW))


def _read(path: str, window: float) -> None:
    found = read_bridge(path, window_s=window)
    if found.dropped:
        click.echo(f"sightline: {path}: {found.dropped}", err=True)
    else:
        write_text([found.tail])
