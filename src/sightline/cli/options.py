"""What commands have in common: examples in their help, the ledger's option, settings, extras.

Which ledger is one answer for every command that opens one:

    --db > $SIGHTLINE_LEDGER > ledger.path of the settings > the user's own

The chat has loaded this before its prompt: what else is needed is imported where it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sightline.cli.out import notice
from sightline.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.config import Loaded, Settings
    from sightline.context.ledger import Ledger
    from sightline.context.ledger.store import Mode


_Command = TypeVar("_Command", bound=click.Command)
_F = TypeVar("_F", bound=Callable[..., Any])

DB_HELP: Final = (
    "The ledger file. Default: $SIGHTLINE_LEDGER, else ledger.path of your settings, "
    "else your own ('ledger path' tells)."
)


def current_directory() -> Path:
    """Return where we were started. Raises `InvalidInput` if that was deleted since."""
    from pathlib import Path

    try:
        return Path.cwd()
    except OSError as error:
        raise InvalidInput(f"the current directory: {error.strerror}") from error


def examples(*lines: str) -> Callable[[_Command], _Command]:
    """End a command's help with examples; a test runs them."""

    def add(command: _Command) -> _Command:
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
        return command

    return add


def db_option(command: _F, **settings: Any) -> _F:
    """Add `--db`, as a path for `ledger_path`; the settings are click's."""
    from pathlib import Path

    path = click.Path(path_type=Path, dir_okay=False)
    return click.option("--db", type=path, help=DB_HELP, **settings)(command)


def users_option(command: _F) -> _F:
    """Add `--users`, as `Users` of `transports.sockets` for the port that a command opens."""
    users = click.Choice(["own", "any"])
    words = "Users of this machine that the port accepts, besides root."
    option = click.option("--users", type=users, default="own", show_default=True, help=words)
    return option(command)


def ledger_path(db: Path | None) -> Path:
    """Give the path of the ledger to open; `db` is what `--db` said.

    Raises `InvalidInput` if the user's configuration is to say it, and cannot be read.
    """
    from sightline.context.ledger.paths import default_path, expanded

    if db is not None:
        return expanded(db)
    if os.environ.get("SIGHTLINE_LEDGER"):
        return default_path()
    return configured_path(_users_settings())


def open_ledger(db: Path | None, mode: Mode = "read") -> Ledger:
    """Open that ledger, with the attachments that lie in the user's object store."""
    from sightline.context.ledger import Ledger

    return Ledger(ledger_path(db), mode=mode, attachments=attachments_url())


def attachments_url() -> str:
    """Give the URL of the object store for attachments, by the user's own configuration."""
    return _users_settings().ledger.attachments


def configured_path(settings: Settings) -> Path:
    """Give the path of the ledger that settings name, which is the user's if they name none."""
    from sightline.context.ledger.paths import default_path, expanded

    given = settings.ledger.path
    return expanded(given) if given else default_path()


def _users_settings() -> Settings:
    """Read the user's settings. The file of a directory has no say in these, so it is not read."""
    from sightline.config import load

    return load(None, os.environ, {}, project=None).settings


def loaded_config(file: Path | None = None) -> Loaded:
    """Read the settings in force here, and say what of the directory's own is not listened to."""
    from sightline.config import load

    loaded = load(file, os.environ, {})
    notice(*loaded.refused)
    return loaded


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Say how to get an extra where something in the block cannot be imported without it."""
    try:
        yield
    except ImportError as error:
        from sightline._distribution import install

        raise MissingExtra(f"{what}: {install(extra)}") from error
