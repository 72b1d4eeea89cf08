"""Check a request against the types that the vendor's own Python package declares.

The packages describe requests as TypedDicts, which nothing checks at run time; `faults`
does: unknown keys, missing ones, values of another type, all the way down.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typing_extensions

REQUIRED = {typing.Required, typing_extensions.Required}
NOT_REQUIRED = {typing.NotRequired, typing_extensions.NotRequired}


def faults(value: Any, hint: Any, at: str = "$") -> list[str]:
    """List what is wrong with a value; nothing for a value that the type allows."""
    origin = get_origin(hint)
    if hint is Any or hint is object or isinstance(hint, typing.TypeVar):
        return []
    if origin is Annotated or origin in REQUIRED | NOT_REQUIRED:
        return faults(value, get_args(hint)[0], at)
    if origin is Union or isinstance(hint, types.UnionType):
        tried = []
        for option in get_args(hint):
            found = faults(value, option, at)
            if not found:
                return []
            tried.append(found)
        return min(tried, key=lambda found: _shallow(found, at))
    if origin is Literal or origin is typing_extensions.Literal:
        return [] if value in get_args(hint) else [f"{at}: {value!r} is not one of {hint}"]
    if typing.is_typeddict(hint) or typing_extensions.is_typeddict(hint):
        return _object_faults(value, hint, at)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            return [f"{at}: {value!r:.40} is not an object"]
        return [f for k, v in value.items() for f in faults(v, get_args(hint)[1], f"{at}.{k}")]
    if origin is not None:
        if isinstance(value, str) or not isinstance(value, list | tuple):
            return [f"{at}: {value!r:.40} is not a list"]
        inner = get_args(hint)[0]
        return [f for i, item in enumerate(value) for f in faults(item, inner, f"{at}[{i}]")]
    if hint is float:
        hint = (int, float)
    if hint is None:
        hint = type(None)
    if isinstance(hint, type | tuple):
        return [] if isinstance(value, hint) else [f"{at}: {value!r:.40} is no {hint}"]
    return []


def _shallow(found: Iterable[str], at: str) -> tuple[bool, int]:
    """Prefer the option of a union whose own `type` or `role` fits; then the fewest faults."""
    listed = list(found)
    wrong_kind = any(f.startswith((f"{at}.type:", f"{at}.role:")) for f in listed)
    return wrong_kind, len(listed)


def _object_faults(value: Any, hint: Any, at: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{at}: {value!r:.40} is not an object"]
    hints = _hints_of(hint)
    found = [f"{at}: there is no {key!r}" for key in value if key not in hints]
    found += [f"{at}: {key} is missing" for key in hint.__required_keys__ if key not in value]
    for key, item in value.items():
        if key in hints:
            found += faults(item, hints[key], f"{at}.{key}")
    return found


@cache
def _hints_of(hint: Any) -> dict[str, Any]:
    """The fields of a TypedDict and their types; resolving them is most of the work."""
    return typing_extensions.get_type_hints(hint, include_extras=True)
