"""`sightline demo`: the demo app's state."""

from __future__ import annotations

import click

from sightline.cli.io import write_json, write_text
from sightline.demo import demo_tree
from sightline.protocol.codec import encode
from sightline.protocol.text import format_blocks


@click.command(
    epilog="""\b
Examples:
  sightline demo --print
  sightline demo --json | sightline tree project --depth 1
"""
)
@click.option("--print", "as_text", is_flag=True, help="Show the state as a model would see it.")
@click.option("--json", "as_json", is_flag=True, help="Show the state as JSON.")
def demo(*, as_text: bool, as_json: bool) -> None:
    """Show the state of the demo app, a small mail and calendar program."""
    if as_text and as_json:
        raise click.UsageError("--print and --json are two ways to show one thing: choose")
    if as_json:
        write_json(encode(demo_tree()))
    else:
        write_text(format_blocks(demo_tree()))
