"""`sightline tail`: what a model is shown, from a world in JSON."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from sightline.cli.io import STDIN, max_bytes_option, read_as
from sightline.cli.options import examples
from sightline.cli.out import tell, write_text
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.select import select
from sightline.context.projection.tail import render_tail
from sightline.context.projection.world_json import read_world
from sightline.errors import DoesNotFit


@examples(
    "sightline tail world.json",
    "sightline tail --at 2026-04-28T10:30:00Z --format json world.json",
    'sightline demo --json | sed \'s/.*/{"apps":[{"id":"desk","tree":&}]}/\' | sightline tail',
    "sightline tail --budget 400 world.json 2>/dev/null",
)
@click.command()
@click.argument("source", metavar="[WORLD]", default=STDIN)
@click.option(
    "--at", metavar="RFC3339", help="The moment to write into the blocks; now if left out."
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
    help="The body of the state block.",
)  # fmt: skip
@click.option(
    "--budget", type=click.IntRange(min=1), metavar="TOKENS",
    help="Show what matters most within this many tokens (characters/4).",
)  # fmt: skip
@max_bytes_option
def tail(source: str, at: str | None, form: str, budget: int | None, max_bytes: int) -> None:
    """Write the state blocks that end a request.

    Reads {"apps": [{"id", "name", "tree", "status"?, "last_seen"?}], "available":
    [{"id", "name", "transport"?, "source"?}]} and writes <slop-apps-available>, if
    there are any, and <slop-state>. A status is connected, awaiting or disconnected.

    With a budget, what was left out is listed on stderr; if not even what must be
    shown fits, nothing is written and the exit code is 6.
    """
    moment = datetime.now(UTC).replace(microsecond=0) if at is None else parse_moment(at)
    body = check_format(form)
    world = read_as(read_world, source, max_bytes)
    described = False
    if budget is not None:
        selection = select(world, budget, form=body, at=moment)
        if selection.over_budget:
            least = f"what must be shown takes {selection.tokens} tokens"
            raise DoesNotFit(f"{least}, more than {budget}")
        for cut in selection.cuts:
            tell(f"{cut.app_id} {cut.path}: {cut.nodes} nodes cut ({cut.reason})")
        world, described = selection.world, selection.described
    write_text([render_tail(world, moment, body, described=described).text])
