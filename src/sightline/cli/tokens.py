"""`sightline tokens`: a filter from text to a number."""

from __future__ import annotations

import click

from sightline.cli.io import max_bytes_option, read_as, source_argument
from sightline.cli.options import examples
from sightline.cli.out import say, tell, write_json_lines
from sightline.context.tokens.tokens import counter_for, default_counter
from sightline.slop.protocol.jsontext import text_from_bytes


@examples(
    "sightline tokens notes.txt",
    "sightline tree format state.json | sightline tokens --model gpt-4o --json",
)
@click.command()
@source_argument
@click.option("--model", help="A model id, an encoding (o200k_base), or chars/4.")
@click.option("--json", "as_json", is_flag=True, help="Also say which counter, and how sure it is.")
@max_bytes_option
def tokens(source: str, model: str | None, as_json: bool, max_bytes: int) -> None:
    """Count the tokens of a text, by itself and without a message's frame.

    Without a model the count is o200k_base's. An estimate is marked as such on stderr.
    """
    counter = default_counter() if model is None else counter_for(model)
    count = counter.count(read_as(text_from_bytes, source, max_bytes))
    if as_json:
        answer = {"tokens": count, "counter": counter.name, "provenance": counter.provenance}
        write_json_lines([answer])
        return
    say(str(count))
    if counter.provenance != "counted":
        tell(f"{counter.provenance} ({counter.name})")
