"""The keys of the configuration, and the reading of one value.

    ("window", "size")        a setting
    ("endpoints", "work")     an entry of a table whose names the user chooses

Every complaint begins with the source and the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec

from sightline.config.settings import EndpointSettings, HookSettings, PolicyRule, Settings
from sightline.context.dialects.endpoints import ENDPOINTS
from sightline.context.dialects.profile import Layer
from sightline.context.dialects.profiles import profile_for
from sightline.context.slots.settings import in_words
from sightline.errors import InvalidInput

Key: TypeAlias = tuple[str, ...]

# TOML v1.0.0, keys: what may stand without quotes.
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


def _is_group(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


_TOP: Final = _hints(Settings)
GROUPS: Final = {name: kind for name, kind in _TOP.items() if _is_group(kind)}
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


def spell(key: Key) -> str:
    """Write a key as TOML does."""
    return ".".join(part if _BARE.fullmatch(part) else _quoted(part) for part in key)


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


def _quoted(part: str) -> str:
    return msgspec.json.encode(part).decode()
