"""`sightline config`: which settings are in force, and who said so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from sightline.cli.options import examples, loaded_config
from sightline.cli.out import write_json_lines, write_text
from sightline.config import Loaded, user_file


@click.group()
def config() -> None:
    """Show the settings, and where each one comes from.

    \b
    flag > environment > ./.sightline.toml > your file > default

    The file in the current directory can shape the prompt and nothing else: what it may
    not set is ignored, and said so.
    """


@examples("sightline config path")
@config.command()
def path() -> None:
    """Print where your configuration file is, or would be."""
    write_text([str(user_file(os.environ))])


@examples(
    "sightline config show",
    "sightline config show --json",
    "SIGHTLINE_MODE=plan sightline config show",
)
@config.command()
@click.option("--file", type=click.Path(path_type=Path), help="Your file, if not the usual one.")
@click.option("--json", "as_json", is_flag=True, help="One object per setting: key, value, source.")
def show(*, file: Path | None, as_json: bool) -> None:
    """Print every setting in force with its source, as a file that says the same."""
    rows = _rows(loaded_config(file))
    if as_json:
        write_json_lines(
            {"key": key, "value": value, "source": source} for key, value, source in rows
        )
    else:
        shown = [(f"{key} = {toml_value(value)}", source) for key, value, source in rows]
        width = min(48, max(len(line) for line, _ in shown))
        write_text(f"{line:<{width}}  # {source!s}" for line, source in shown)


def _rows(loaded: Loaded) -> list[tuple[str, Any, str]]:
    """List key, value and source; a table with entries is shown by its entries."""
    rows: list[tuple[str, Any, str]] = []
    settings = msgspec.to_builtins(loaded.settings)
    for key, source in loaded.sources.items():
        head, _, rest = key.partition(".")
        value = settings[head]
        if rest:
            value = value[msgspec.json.decode(rest) if rest.startswith('"') else rest]
        elif isinstance(value, dict) and value:
            continue
        rows.append((key, value, source))
    return rows


def toml_value(value: Any) -> str:
    """Write a value as TOML does, on one line and with nothing a terminal would obey."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_escaped, value))}"'
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_value(str(k))} = {toml_value(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return str(value)


def _escaped(character: str) -> str:
    # TOML v1.0.0, string: escapes of basic strings.
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
