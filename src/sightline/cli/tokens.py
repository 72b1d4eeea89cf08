"""`sightline tokens`: a filter from text to a number."""

from __future__ import annotations

from typing import BinaryIO

import click
import msgspec

from sightline.cli.reading import read_text
from sightline.context.tokens import counter_for, default_counter


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--model", help="A model id, an encoding (o200k_base), or chars/4.")
@click.option("--json", "as_json", is_flag=True, help="Also say which counter, and how sure it is.")
def tokens(file: BinaryIO, model: str | None, as_json: bool) -> None:
    """Count the tokens of a text, by itself and without a message's frame.

    Without a model the count is o200k_base's. An estimate is marked as such on stderr.

    \b
    Example:
      git diff | sightline tokens --model gpt-4o
    """
    counter = default_counter() if model is None else counter_for(model)
    count = counter.count(read_text(file))
    if as_json:
        answer = {"tokens": count, "counter": counter.name, "provenance": counter.provenance}
        click.echo(msgspec.json.encode(answer))
        return
    click.echo(count)
    if counter.provenance != "counted":
        click.echo(f"{counter.provenance} ({counter.name})", err=True)
