"""`/runs`: the commands that the workspace runs, and the latest that it ran, as its tree has them.

What the tree says is written by ourselves, but the words in it are a command's: they are made
harmless where they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import click

from sightline.cli.clean import clean
from sightline.cli.commands.command import CommandCall, Section
from sightline.cli.commands.console import Line, cut, line_of
from sightline.cli.commands.offers import offering
from sightline.errors import InvalidInput
from sightline.slop.hub.content import read_text
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import World

COMMANDS: Final = Section("Commands that run")
APP: Final = "workspace"
LATEST: Final = 3


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A command as the workspace shows it. `status` is running, or how it ended."""

    id: str
    command: str
    status: str
    node: Node
    latest: str = ""
    age_s: int | None = None
    exit_code: int | None = None
    is_awaited: bool = False
    is_unread: bool = False

    @property
    def is_running(self) -> bool:
        return self.status == "running"

    @property
    def state(self) -> str:
        """Say in a few words where it stands."""
        if self.is_running:
            return "running" if self.age_s is None else f"running for {self.age_s} s"
        return f"{self.status}, {self.exit_code}"


def listed_runs(world: World, now: datetime | None = None) -> list[ListedRun]:
    """Read the commands in what the apps show, the latest first."""
    app = world.app(APP)
    runs = None if app is None or app.tree is None else app.tree.child("runs")
    return (
        [] if runs is None else [_listed(node, now or datetime.now(UTC)) for node in runs.children]
    )


def ended_unseen(now: World, seen: World) -> list[ListedRun]:
    """Read which commands ended by themselves, with nobody waiting, since `seen` was seen."""
    known = {run.id for run in listed_runs(seen) if not run.is_running}
    return [
        run
        for run in reversed(listed_runs(now))
        if run.is_unread and run.status != "stopped" and run.id not in known
    ]


def run_lines(run: ListedRun, width: int, latest: int = LATEST) -> list[Line]:
    """Write a command: where it stands, and the last lines that it said."""
    shown = [line for line in clean(run.latest).expandtabs(4).split("\n") if line.strip()]
    head = line_of(cut(f"{run.id}  {run.state}  {run.command}", width))
    return [head, *((("dim", f"    {cut(line, max(1, width - 4))}"),) for line in shown[-latest:])]


def _listed(node: Node, now: datetime) -> ListedRun:
    props = node.properties
    age_s = None
    if started_at := props.get("started_at"):
        age_s = max(0, int((now - datetime.fromisoformat(started_at)).total_seconds()))
    command, status = str(props.get("label", "")), str(props.get("status", ""))
    return ListedRun(
        node.id, command, status, node, props.get("latest", ""), age_s, props.get("exit_code"),
        props.get("awaited", False), props.get("unread", False),
    )  # fmt: skip


_offers: Final = offering(
    lambda here, *_: ((run.id, run.command) for run in listed_runs(here.world))
)


@COMMANDS.command("runs", example="/runs run-2")
@click.argument("run", default="", metavar="[RUN]", shell_complete=_offers)
async def _runs(call: CommandCall, run: str) -> None:
    """List what runs and what ran last, or show all that one command said."""
    listed = listed_runs(call.host.world)
    if run:
        ref = _named(listed, run).node.content_ref
        if ref is not None:
            await call.console.page(await read_text(await call.host.hub.client(APP), ref))
    elif not listed:
        call.console.write("No command has run yet.")
    for one in () if run else listed:
        call.console.draw(run_lines(one, call.console.width))


@COMMANDS.command("runs stop", example="/runs stop run-2")
@click.argument("run", default="", metavar="[RUN]", shell_complete=_offers)
async def _stop(call: CommandCall, run: str) -> None:
    """Stop a command with all that it started; without a name, all that run."""
    listed = listed_runs(call.host.world)
    chosen = [_named(listed, run)] if run else [one for one in listed if one.is_running]
    if not chosen:
        call.console.write("Nothing runs.")
    for one in chosen:
        if not one.is_running:
            raise InvalidInput(f"{one.id} does not run any more")
        outcome = await call.host.invoke(APP, f"/runs/{one.id}", "stop", {"by": "by the user"})
        call.console.write(f"{one.id} {outcome.data.get('ended', 'has ended by itself')}.")


def _named(listed: list[ListedRun], name: str) -> ListedRun:
    found = next((run for run in listed if name in (run.id, run.id.removeprefix("run-"))), None)
    if found is None:
        raise InvalidInput(f"there is no {name[:40]!r}; /runs lists them")
    return found
