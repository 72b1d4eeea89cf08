"""Read the settings from everywhere they can be said.

    flag > environment > project file > user file > default

The project file is `.sightline.toml` in the current directory. Whoever wrote the
directory wrote it, and that may be a stranger: it can shape what a prompt looks like
and make the host more careful, and nothing else. What it may not say is left out and
told in `Loaded.refused`. A file with a mistake in it is left out whole, and told: a
stranger's mistake ends nobody's program, and half a file is not what was meant.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from platformdirs import user_config_path

from sightline.config.keys import LEAVES, TABLES, Key, leaves, parse_key, read_value, spell
from sightline.config.settings import Settings
from sightline.context.slots.strategies import BUILT_IN
from sightline.errors import InvalidInput
from sightline.slop.transports.owned import open_regular

PROJECT_FILE: Final = Path(".sightline.toml")
MAX_BYTES: Final = 256 * 1024
# The parser's time grows with the square of a key's length; what a directory may say is short.
MAX_PROJECT_BYTES: Final = 16 * 1024
_ROOT: Final = 0
_SIZE: Final = ("window", "size")
_SLACK: Final = ("window", "slack")
ENVIRONMENT: Final[dict[str, Key]] = {
    "SIGHTLINE_MODEL": ("model",),
    "SIGHTLINE_MODE": ("mode",),
    "SIGHTLINE_STRATEGY": ("strategy",),
    "SIGHTLINE_WINDOW": ("window", "size"),
    "SIGHTLINE_TAIL": ("tail", "format"),
    "SIGHTLINE_TOOLS": ("tools", "style"),
    "SIGHTLINE_LEDGER": ("ledger", "path"),
}
# Settings that say how a prompt looks, and cannot make anything happen. What is not here
# a directory may not say: what starts a program, reaches a server, names a key or a file.
HARMLESS: Final[frozenset[Key]] = frozenset(
    {
        ("window", "size"),
        ("window", "slack"),
        ("truncation", "recent"),
        ("truncation", "degraded"),
        ("truncation", "inactive"),
        ("truncation", "count"),
        ("truncation", "settle"),
        ("tail", "format"),
        ("tail", "max_tokens"),
        ("tail", "max_share"),
        ("tail", "kept_tokens"),
        ("tail", "repeat"),
        ("tail", "changes"),
        ("tools", "style"),
    }
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, where each key comes from, and what was not listened to."""

    settings: Settings
    sources: Mapping[str, str]
    refused: tuple[str, ...] = ()


def user_file(env: Mapping[str, str]) -> Path:
    """Give `SIGHTLINE_CONFIG` if it is set, else the user's own file for this platform."""
    if chosen := env.get("SIGHTLINE_CONFIG"):
        try:
            return Path(chosen).expanduser()
        except RuntimeError:
            raise InvalidInput(f"{chosen}: that home directory is not known here") from None
    return user_config_path("sightline", appauthor=False) / "config.toml"


def load(
    path: Path | None,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    *,
    project: Path | None = PROJECT_FILE,
) -> Loaded:
    """Read all sources; the nearest one that says something decides.

    `path` is the user's file, if not the usual one; then it must exist. `flags` are
    values by dotted key, None for a flag that was not given. `project=None` does not
    look into the directory. Raises `InvalidInput` naming source and key.
    """
    values: dict[Key, Any] = {}
    sources: dict[Key, str] = {}
    refused: list[str] = []
    for given in _given_values(path, env, flags, project, refused):
        values[given.key] = read_value(given.key, given.value, given.source, lenient=given.is_text)
        sources[given.key] = given.source
    settings = msgspec.convert(_nested(values), Settings)
    if _SIZE in sources:
        sources.setdefault(_SLACK, sources[_SIZE])  # which says that there is none
    every = [*LEAVES, *((name,) for name in TABLES), *(key for key in values if key[0] in TABLES)]
    return Loaded(
        settings,
        {spell(key): sources.get(key, "default") for key in every},
        tuple(refused),
    )


class _GivenValue(NamedTuple):
    key: Key
    value: object
    source: str
    is_text: bool = False  # the environment and the command line have nothing else


def _given_values(
    path: Path | None,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    project: Path | None,
    refused: list[str],
) -> Iterator[_GivenValue]:
    """Yield all that is said; who decides speaks last."""
    chosen = path or user_file(env)
    if path is not None or env.get("SIGHTLINE_CONFIG") or chosen.exists():
        for key, value in leaves(_parse(chosen, _read(chosen)), str(chosen)):
            yield _GivenValue(key, value, str(chosen))
    if project is not None and os.path.lexists(project):
        yield from _project_values(project, refused)
    for name, key in ENVIRONMENT.items():
        if env.get(name):
            yield _GivenValue(key, env[name], f"environment {name}", is_text=True)
    for name, value in flags.items():
        if value is not None:
            yield _GivenValue(parse_key(name, "flag"), value, "flag", is_text=True)


def _project_values(path: Path, refused: list[str]) -> list[_GivenValue]:
    """Read what a directory says and may say. What is ignored is told in `refused`."""
    source = str(path)
    given: list[_GivenValue] = []
    not_listened_to: list[str] = []
    try:
        for key, value in leaves(_parse(path, _read(path, stranger=True)), source):
            if reason := _refusal(key, value):
                not_listened_to.append(f"{source}: {spell(key)} is ignored: {reason}")
            else:
                given.append(_GivenValue(key, read_value(key, value, source), source))
    except InvalidInput as error:
        refused.append(f"{error}; the whole file is ignored")
        return []
    except RecursionError:  # a value so deep that it cannot even be shown
        refused.append(f"{source}: nested too deeply; the whole file is ignored")
        return []
    refused += not_listened_to
    return given


def _read(path: Path, *, stranger: bool = False) -> bytes:
    """Read a small regular file; nothing that could block or never end.

    A stranger's is neither a link nor another user's: in a shared directory anybody can lay one.
    """
    most = MAX_PROJECT_BYTES if stranger else MAX_BYTES
    try:
        with open_regular(path, follow=not stranger) as (file, about):
            if stranger and about.st_uid not in (os.geteuid(), _ROOT):
                raise InvalidInput(f"{path}: belongs to another user")
            data = file.read(most + 1)
    except OSError as error:
        link = error.errno == errno.ELOOP
        reason = "a symbolic link is not followed here" if link else error.strerror
        raise InvalidInput(f"{path}: {reason}") from error
    if len(data) > most:
        raise InvalidInput(f"{path}: more than {most} bytes is no configuration")
    return data


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    import tomllib  # most people have no such file

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also for a number of too many digits
        raise InvalidInput(f"{path}: not TOML: {error}") from error


def _refusal(key: Key, value: object) -> str:
    """Say why a directory may not decide this; empty where it may."""
    if key in HARMLESS:
        return ""
    if key == ("strategy",):
        return "" if value in BUILT_IN else "a project may only choose a built-in strategy"
    if key == ("mode",):
        return "" if value == "plan" else "a project may only ask for more care, mode 'plan'"
    return "only you can set it, in your own file"


def _nested(values: Mapping[Key, Any]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for key, value in values.items():
        if len(key) == 1:
            tables[key[0]] = value
        else:
            tables.setdefault(key[0], {})[key[1]] = value
    return tables
