"""Read the settings from everywhere they can be said.

    flag > environment > project file > user file > default

The project file is `.sightline.toml` in the current directory. Whoever wrote the
directory wrote it, and that may be a stranger: it can shape what a prompt looks like
and make the host more careful, and nothing else. What it may not say is left out and
told in `Loaded.refused`. A file with a mistake in it is left out whole, and told: a
stranger's mistake ends nobody's program, and half a file is not what was meant.

    ("window", "size")        the key of a setting
    ("endpoints", "work")     that of an entry of a table whose names the user chooses

Every complaint begins with the source and the key.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec
from platformdirs import user_config_path

from sightline.config.settings import EndpointSettings, HookSettings, PolicyRule, Settings
from sightline.context.dialects.endpoints import ENDPOINTS
from sightline.context.dialects.profile import Layer
from sightline.context.dialects.profiles import price_layer, profile_for
from sightline.context.slots.settings import in_words
from sightline.context.slots.strategies import BUILT_IN
from sightline.errors import InvalidInput
from sightline.slop.transports.owned import open_regular

Key: TypeAlias = tuple[str, ...]

# TOML v1.0.0, keys: what may stand without quotes.
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


_TOP: Final = _hints(Settings)
GROUPS: Final = {
    name: kind
    for name, kind in _TOP.items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
}
# Tables with names of the user's choice, by the type of an entry.
TABLES: Final = {name: get_args(kind)[1] for name, kind in _TOP.items() if get_origin(kind) is dict}
LEAVES: Final[dict[Key, Any]] = {
    **{(name,): kind for name, kind in _TOP.items() if name not in {*GROUPS, *TABLES}},
    **{(name, leaf): kind for name in GROUPS for leaf, kind in _hints(GROUPS[name]).items()},
}
_LISTS: Final[dict[Key, tuple[str, type[msgspec.Struct]]]] = {
    ("policy",): ("rule", PolicyRule),
    ("hooks",): ("hook", HookSettings),
}

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
HARMLESS: Final = {
    "window": ("size", "slack"),
    "truncation": ("recent", "degraded", "inactive", "count", "settle"),
    "tail": ("format", "max_tokens", "max_share", "kept_tokens", "repeat", "changes"),
    "tools": ("style",),
}


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
    by_name = {spell(key): sources.get(key, "default") for key in every}
    return Loaded(settings, by_name, tuple(refused))


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
    if path is not None or env.get("SIGHTLINE_CONFIG") or not _is_absent(chosen):
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


def _is_absent(path: Path) -> bool:
    """Tell whether a file is not there; one that we may not look for could be."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        pass  # who reads it is told why not
    return False


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
    if key[-1] in HARMLESS.get(key[0], ()):
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


def spell(key: Key) -> str:
    """Write a key as TOML does."""
    quoted = (part if _BARE.fullmatch(part) else msgspec.json.encode(part).decode() for part in key)
    return ".".join(quoted)


def parse_key(text: str, source: str) -> Key:
    """Read `window.size`, or `endpoints.NAME`; raise `InvalidInput` if there is no such key."""
    head, _, rest = text.partition(".")
    key: Key = (head, rest) if rest else (head,)
    if key in LEAVES or (rest and head in TABLES):
        return key
    raise InvalidInput(_unknown(source, key))


def leaves(data: Mapping[str, object], source: str) -> Iterator[tuple[Key, object]]:
    """Yield the settings of a file, group by group; raise `InvalidInput` for what is none."""
    for name, value in data.items():
        if name in GROUPS or name in TABLES:
            if not isinstance(value, Mapping):
                raise InvalidInput(f"{source}: {name} is a table, not {value!r:.80}")
            for leaf, inner in value.items():
                if name in GROUPS and (name, leaf) not in LEAVES:
                    raise InvalidInput(_unknown(source, (name, leaf)))
                yield (name, leaf), inner
        elif (name,) in LEAVES:
            yield (name,), value
        else:
            group = isinstance(value, Mapping)
            raise InvalidInput(_unknown(source, (name,), group=group))


def read_value(key: Key, value: object, source: str, *, lenient: bool = False) -> Any:
    """Make a setting's value of what was given; `lenient` reads numbers from text.

    Raises `InvalidInput` for anything of a wrong type or beyond its range.
    """
    where = f"{source}: {spell(key)}"
    kind = LEAVES[key] if key in LEAVES else TABLES[key[0]]
    _check_choice(where, value, kind)
    if key in _LISTS and isinstance(value, list):
        name, kind_of_one = _LISTS[key]
        for number, one in enumerate(value, 1):
            _check_fields(f"{where}, {name} {number}", one, kind_of_one)
    if key[0] == "endpoints":
        _check_fields(where, value, EndpointSettings)
    try:
        read = msgspec.convert(value, kind, strict=not lenient)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {in_words(error)}") from error
    # TOML has nan and inf; a float without a range lets them pass.
    if isinstance(read, float) and not isfinite(read):
        raise InvalidInput(f"{where}: {read} is not a number to work with")
    if isinstance(read, EndpointSettings):
        _check_endpoint(where, key[1], read)
    if key == ("hooks",):
        _check_hooks(where, read)
    if key[0] == "prices":
        price_layer(key[1], read, where)
    if key[0] == "profiles":
        profile_for("openai-chat", overrides=Layer(where, read))
    return read


def _check_choice(where: str, value: object, kind: object) -> None:
    if get_origin(kind) is Literal and value not in get_args(kind):
        allowed = ", ".join(map(str, get_args(kind)))
        raise InvalidInput(f"{where}: {value!r:.80} is not one of {allowed}")


def _check_fields(where: str, value: object, kind: type[msgspec.Struct]) -> None:
    kinds = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        if name not in kinds:
            raise InvalidInput(f"{where}: {_no_such(str(name), kinds)}")
        _check_choice(f"{where}, {name}", inner, kinds[name])


def _check_hooks(where: str, hooks: tuple[HookSettings, ...]) -> None:
    """Raise for a relative path: whoever wrote the current directory could lay a program there."""
    for number, hook in enumerate(hooks, 1):
        program = next(iter(hook.command.split()), "/")
        if "/" in program and program[0] not in "/~$'\"":
            raise InvalidInput(
                f"{where}, hook {number}: {program!r:.80} would be a program of whatever directory "
                "you are in; give its whole path"
            )


def _check_endpoint(where: str, name: str, endpoint: EndpointSettings) -> None:
    url = urlsplit(endpoint.base_url)
    if endpoint.base_url and (url.scheme not in {"http", "https"} or not url.hostname):
        raise InvalidInput(f"{where}.base_url: {endpoint.base_url!r:.200} is no http(s) address")
    if not endpoint.base_url and name not in ENDPOINTS:
        raise InvalidInput(f"{where}: has no base_url, and {name!r} is not built in")
    if endpoint.dialect and endpoint.dialect not in ENDPOINTS:
        raise InvalidInput(f"{where}.dialect: {_no_such(endpoint.dialect, ENDPOINTS)}")


def _unknown(source: str, key: Key, *, group: bool = False) -> str:
    if group:
        return f"{source}: {_no_such(spell(key), [*GROUPS, *TABLES])}"
    known = {spell(leaf): leaf for leaf in LEAVES} | {name: (name,) for name in TABLES}
    # Right name, wrong table: `size` for `window.size`.
    for spelled, leaf in known.items():
        if leaf[-1] == key[-1]:
            return f"{source}: there is no {spell(key)!r}; did you mean {spelled!r}?"
    return f"{source}: {_no_such(spell(key), known)}"


def _no_such(name: str, known: Iterable[str]) -> str:
    known = list(known)
    close = get_close_matches(name, known, n=1)
    instead = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(known))}"
    return f"there is no {name!r:.80}; {instead}"
