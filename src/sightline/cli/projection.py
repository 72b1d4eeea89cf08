"""`sightline tail`, `sightline tools`: what a model is shown of a world, and what it can call."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import msgspec

from sightline.cli.io import STDIN, max_bytes_option, read_as
from sightline.cli.options import examples
from sightline.cli.out import tell, write_json, write_text
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.select import select
from sightline.context.projection.tail import FORMATS, check_format, render_tail
from sightline.context.projection.tools import GROUP_FROM, NAME_LIMIT, dynamic_tools, fixed_tools
from sightline.context.projection.world_json import read_world
from sightline.errors import DoesNotFit
from sightline.slop.protocol.codec import decode
from sightline.slop.protocol.world import AppState, World


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
    [{"id", "name", "transport"?, "source"?}]}. A status is connected, awaiting or
    disconnected.

    Writes <slop-apps-available>, if there are any, and <slop-state>.

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


@examples(
    "sightline tools",
    "sightline tools --style dynamic state.json",
    "sightline demo --json | sightline tools --style dynamic --app desk",
)
@click.command()
@click.argument("source", metavar="[TREE]", default=STDIN)
@click.option(
    "--style", type=click.Choice(["fixed", "dynamic"]), default="fixed", show_default=True,
    help="A few tools that never change, or one for every action.",
)  # fmt: skip
@click.option("--app", default="", metavar="NAME", help="The app's id, to put before the names.")
@click.option("--limit", type=int, default=NAME_LIMIT, show_default=True, help="The longest name.")
@click.option(
    "--group-from", type=click.IntRange(min=2), default=GROUP_FROM, show_default=True,
    help="Siblings that share an action share a tool from this many on.",
)  # fmt: skip
@max_bytes_option
def tools(
    *, source: str, style: str, app: str, limit: int, group_from: int, max_bytes: int
) -> None:
    """Write {"tools": […], "resolve": {name: {path, action}}} for a tree.

    Tools are in no vendor's format: name, description and a JSON Schema. Fixed tools
    do not depend on the tree, so none is read from stdin for them.
    """
    if style == "fixed":
        if source != STDIN:
            read_as(decode, source, max_bytes)
        tool_set = fixed_tools()
    else:
        tree = read_as(decode, source, max_bytes)
        world = World((AppState(app, app, tree=tree),))
        tool_set = dynamic_tools(world, limit=limit, group_from=group_from, prefix_apps=bool(app))
    answer = {
        "tools": msgspec.Raw(tool_set.tools_json()),
        "resolve": msgspec.Raw(tool_set.resolve_json()),
    }
    write_json(answer)
