"""A strategy's settings: a frozen msgspec Struct, every field with a type and a default.

    class Config(msgspec.Struct, frozen=True):
        window: Annotated[int, msgspec.Meta(ge=0, le=100)] = 20

    resolve(Config, {"window": 50}).window      # 50

A value of the wrong type or beyond its bounds, and a name that is no field, raise
`InvalidStrategy`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from sightline.errors import InvalidStrategy

Schema: TypeAlias = type[msgspec.Struct]


class NoSettings(msgspec.Struct, frozen=True):
    """The settings of a strategy that has none."""


def read_schema(declared: object) -> Schema:
    """Check that something is a class of settings, whose defaults are within its own bounds."""
    if (
        not inspect.isclass(declared)
        or not issubclass(declared, msgspec.Struct)
        or not declared.__struct_config__.frozen
    ):
        raise InvalidStrategy("config is not a class of frozen settings, a msgspec.Struct")
    resolve(declared, {})
    return declared


# Settings are as varied as strategies; a strategy knows the types it declared.
def resolve(schema: Schema, given: Mapping[str, object]) -> Any:
    """Return the settings in force; raise `InvalidStrategy` for what the schema forbids."""
    for name in given:
        if name not in schema.__struct_fields__:
            known = ", ".join(schema.__struct_fields__) or "none"
            raise InvalidStrategy(f"config: there is no setting {name!r}; there are {known}")
    try:
        return msgspec.convert({**msgspec.structs.asdict(schema()), **given}, schema)
    except msgspec.ValidationError as error:
        raise InvalidStrategy(f"config, {in_words(error)}") from error
    except (NameError, TypeError) as error:  # a field without a default, a type that is none
        raise InvalidStrategy(f"config: {error}") from error


def in_words(error: msgspec.ValidationError) -> str:
    """`Expected `int`, got `str` - at `$.cache.min_tokens`` → the field first, if there is one."""
    what, _, where = str(error).rpartition(" - at ")
    field = where.strip("`").removeprefix("$").removeprefix(".")
    return f"{field}: {what}" if what and field else what or str(error)
