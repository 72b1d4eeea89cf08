"""`sightline watch`: a live app, as it changes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final

import click
import msgspec
from msgspec import Raw

from sightline.cli.examples import examples
from sightline.cli.live import address_argument, token_option, view_options, wanted_filter
from sightline.cli.out import tell, write_json_lines, write_screen, write_text
from sightline.slop.hub.address import dial_address
from sightline.slop.hub.client import Client, Lost, Silent
from sightline.slop.hub.watch import Watch
from sightline.slop.protocol.codec import encode
from sightline.slop.protocol.consumer import Connected, ConsumerEvent, EventArrived, MirrorChanged
from sightline.slop.protocol.diff import diff
from sightline.slop.protocol.patch import encode_ops
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node

FIRST_S: Final = 30.0


@examples(
    "sightline watch demo --count 1",
    "sightline watch unix:demo.sock /inbox --depth 1 --json --count 2",
)
@click.command()
@address_argument
@click.argument("path", default="/")
@view_options
@click.option("--json", "as_json", is_flag=True, help="One JSON event per line.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many trees or events.")
@token_option
def watch(
    *,
    address: str,
    path: str,
    depth: int,
    max_nodes: int | None,
    min_salience: float | None,
    types: str | None,
    as_json: bool,
    count: int | None,
    token: str | None,
) -> None:
    """Show the state at PATH of an app, and show it again whenever it changes.

    On a terminal the tree stays in place and the lines that changed are marked. With
    --json each line is an event: connected, snapshot (with the tree), patch (with the
    operations), event, silent (no sign of life), heard (again), disconnected. A provider that
    goes away is waited for; the first connection must succeed.
    """
    asyncio.run(
        _watch(
            dial_address(address, token=token),
            {
                "path": path,
                "depth": depth,
                "max_nodes": max_nodes,
                "filter": wanted_filter(types, min_salience),
            },
            _Printer(as_json=as_json, left=count),
        )
    )


async def _watch(dial: Any, wanted: dict[str, Any], printer: _Printer) -> None:
    client = Client(dial)
    watch = client.subscribe(**wanted)
    async with client:
        stop = client.listen(lambda event: printer.take(event, watch))
        try:
            await client.ready()
            await watch.first(FIRST_S)
            await printer.done.wait()
        finally:
            stop()
    if printer.problem is not None:
        raise printer.problem


@dataclass(slots=True)
class _Printer:
    """Writes what happens in an app. Blocks while nobody reads: then the provider sends less."""

    as_json: bool
    left: int | None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    problem: BaseException | None = None
    was_connected: bool = False
    _shown: Node | None = None
    _lines: list[str] = field(default_factory=list)

    def take(self, event: ConsumerEvent | Lost | Silent, watch: Watch) -> None:
        """Write one event, if it is one that is shown."""
        if isinstance(event, Connected):
            self.was_connected = True
        if self.done.is_set() or not self.was_connected:
            return
        try:
            if not (self._as_json if self.as_json else self._as_text)(event, watch):
                return
        except BaseException as problem:  # noqa: BLE001 - told to who waits, in its own task
            self.problem = problem
            self.done.set()
            return
        if self.left is not None:
            self.left -= 1
            if not self.left:
                self.done.set()

    def _as_json(self, event: ConsumerEvent | Lost | Silent, watch: Watch) -> bool:
        """Write an event as JSON; tell whether it is one that is shown."""
        match event:
            case Connected(provider):
                fields: dict[str, Any] = {"event": "connected", "provider": provider}
            case Lost(reason):
                fields = {"event": "disconnected", "reason": str(reason)}
            case Silent(is_silent):
                fields = {"event": "silent" if is_silent else "heard"}
            case EventArrived(name, data):
                fields = {"event": "event", "name": name, "data": data}
            case MirrorChanged() if event.subscription == watch.id:
                before, self._shown = self._shown, event.tree
                fields = {"event": "snapshot", "version": event.version}
                if event.patched and before is not None:
                    fields["event"] = "patch"
                    fields["ops"] = Raw(encode_ops(diff(before, event.tree)))
                else:
                    fields["tree"] = Raw(encode(event.tree))
            case _:
                return False
        write_json_lines([msgspec.json.encode(fields)])
        return True

    def _as_text(self, event: ConsumerEvent | Lost | Silent, watch: Watch) -> bool:
        """Write a tree as text; tell whether there was one."""
        if isinstance(event, Lost):
            tell(f"disconnected: {event.reason}")
            return False
        if isinstance(event, Silent):
            tell("no sign of life: what is shown may be old" if event.is_silent else "alive again")
            return False
        if not isinstance(event, MirrorChanged) or event.subscription != watch.id:
            return False
        before, self._lines = self._lines, format_tree(event.tree).splitlines()
        if sys.stdout.isatty():
            write_screen(_marked(before, self._lines))
        else:
            write_text(["\n".join(self._lines) + "\n"])
        return True


def _marked(before: list[str], after: list[str]) -> Iterator[tuple[bool, str]]:
    """The new lines, and whether each was not there before."""
    if not before:
        yield from ((False, line) for line in after)
        return
    for tag, _, _, start, end in SequenceMatcher(None, before, after, False).get_opcodes():
        yield from ((tag != "equal", line) for line in after[start:end])
