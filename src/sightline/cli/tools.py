"""`sightline tools`: what a model can call, from a tree."""

from __future__ import annotations

import click
import msgspec

from sightline.cli.io import STDIN, max_bytes_option, read_as
from sightline.cli.options import examples
from sightline.cli.out import write_json
from sightline.context.projection.tools import GROUP_FROM, NAME_LIMIT, dynamic_tools, fixed_tools
from sightline.slop.protocol.codec import decode
from sightline.slop.protocol.world import AppState, World


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
