"""Worlds from JSON, for filters, tests and bridges.

    {"apps": [{"id", "name", "tree", "status"?, "last_seen"?}], "available": [{"id", "name", …}]}

What is read is as good as what a hub gives: trees obey the rules, statuses are
known, moments are UTC. An error says which app it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from sightline.context.projection.moment import format_moment, parse_moment
from sightline.errors import InvalidInput, InvalidJson
from sightline.slop.protocol.codec import decode
from sightline.slop.protocol.jsontext import NESTING, loads, nests_deeper, text_from_bytes
from sightline.slop.protocol.world import AppState, AvailableApp, Status, World

_T = TypeVar("_T")
_NULL: Final = Raw(b"null")


class _App(msgspec.Struct):
    id: str
    name: str = ""
    tree: Raw = _NULL
    status: Status | None = None
    version: int = 0
    last_seen: str | None = None
    lastSeen: str | None = None  # noqa: N815 - the spelling of peers


class _Available(msgspec.Struct):
    id: str
    name: str = ""
    transport: str = ""
    source: str = ""
    description: str = ""


class _World(msgspec.Struct):
    apps: list[Raw] = []
    available: list[Raw] = []


# Made once, at import: msgspec crashes where two threads are the first to read a type.
_worlds: Final = msgspec.json.Decoder(_World)
_apps: Final = msgspec.json.Decoder(_App)
_availables: Final = msgspec.json.Decoder(_Available)


def read_world(data: bytes) -> World:
    """Read a world. Raises InvalidInput, or InvalidJson with line and column."""
    # Text first: the items are kept as bytes, and would be found out one by one.
    text = text_from_bytes(data)
    if nests_deeper(data, NESTING):
        raise InvalidInput(f"nested deeper than {NESTING} levels")
    try:
        outer = _worlds.decode(text)
    except msgspec.ValidationError as error:
        raise InvalidInput(_reason(error)) from None
    except msgspec.DecodeError:
        loads(text)  # says where it stops being JSON
        raise InvalidJson("not JSON that can be read", 1, 1) from None
    apps = tuple(_each(outer.apps, "apps", _app))
    available = tuple(_each(outer.available, "available", _available))
    ids: set[str] = set()
    for app in apps:
        if app.id in ids:
            raise InvalidInput(f"apps: two have the id {app.id!r}")
        ids.add(app.id)
    return World(apps, available)


def _each(items: list[Raw], where: str, read: Callable[[Raw], _T]) -> list[_T]:
    found: list[_T] = []
    for at, item in enumerate(items):
        try:
            found.append(read(item))
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{where}[{at}]: {_reason(error)}") from None
        except InvalidInput as error:
            raise InvalidInput(f"{where}[{at}]: {error}") from None
    return found


def _app(item: Raw) -> AppState:
    raw = _apps.decode(item)
    if not raw.id:
        raise InvalidInput("an app needs an id")
    tree = None if raw.tree == _NULL else decode(bytes(raw.tree))
    seen = raw.last_seen or raw.lastSeen
    return AppState(
        raw.id,
        raw.name or raw.id,
        raw.status or ("connected" if tree else "awaiting"),
        tree,
        raw.version,
        format_moment(parse_moment(seen)) if seen else None,
    )


def _available(item: Raw) -> AvailableApp:
    raw = _availables.decode(item)
    if not raw.id:
        raise InvalidInput("an app needs an id")
    return AvailableApp(raw.id, raw.name or raw.id, raw.transport, raw.source, raw.description)


def _reason(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]
