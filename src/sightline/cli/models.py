"""`sightline models`: which models can be asked now, and what the others want."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from sightline.agent.models.choose import Choice, chosen, profile_of, usable
from sightline.cli.options import examples, loaded_config
from sightline.cli.out import notice, say, write_json_lines
from sightline.config import Settings
from sightline.errors import SightlineError

MARKS: Final = {True: "yes", False: "no"}


@examples("sightline models", "sightline models --json")
@click.command()
@click.option("--file", type=click.Path(path_type=Path), help="Your file, if not the usual one.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per endpoint and line.")
def models(*, file: Path | None, as_json: bool) -> None:
    """List the models that can be asked now, and what the others want.

    One line per endpoint, with the model it would use; `*` marks the one that is used when
    nobody says which. Any other model of an endpoint is ENDPOINT:MODEL. Keys are looked for
    in the environment and in the keyring, and only said to be there; whether a vendor
    accepts one is not tried.
    """
    settings = loaded_config(file).settings
    default = _default(settings)
    choices = usable(settings, os.environ)
    if as_json:
        write_json_lines(_fields(choice, default, settings) for choice in choices)
        return
    width = max(len(choice.reference) for choice in choices)
    for choice in choices:
        star = "*" if choice.reference == default else " "
        say(f"{star} {MARKS[choice.usable]:3} {choice.reference:{width}}  {choice.why}")


def _default(settings: Settings) -> str:
    try:
        return chosen(settings, os.environ)
    except SightlineError as error:
        notice(str(error))
        return ""


def _fields(choice: Choice, default: str, settings: Settings) -> dict[str, Any]:
    """All that a program may want: the choice, whether it is the default, and its sizes."""
    profile = profile_of(choice.reference, settings) if choice.model else None
    sizes = {} if profile is None else {
        "window_tokens": profile.window_tokens,
        "max_output_tokens": profile.max_output_tokens,
    }  # fmt: skip
    return {**msgspec.to_builtins(choice), "default": choice.reference == default, **sizes}
