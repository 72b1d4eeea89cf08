"""`sightline js`: the provider for web pages and Node, to be put beside a page."""

from __future__ import annotations

import click

from sightline.cli.options import examples
from sightline.cli.out import write_page
from sightline.slop.app.javascript import MODULES, javascript


@examples("sightline js", "sightline js --types", "sightline js react")
@click.command()
@click.argument("module", type=click.Choice(MODULES), default=MODULES[0])
@click.option("--types", is_flag=True, help="Print the module's TypeScript types instead.")
def js(module: str, types: bool) -> None:
    """Print a JavaScript module for pages and Node programs that are to be seen and used.

    `sightline` is the provider, without dependencies; `node` serves it in Node, `react` is a hook,
    and `text` writes a tree as models read it.
    """
    write_page([javascript(module, "d.ts" if types else "js").decode()])
