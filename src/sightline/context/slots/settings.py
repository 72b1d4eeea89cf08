"""A strategy's configuration: declared as fields, given by the user, read as a frozen value.

    schema = {"window": Number(default=20, minimum=0, maximum=100, whole=True)}
    config = resolve(schema, {"window": 500})
    config.window                               # 100

What is not given takes its default. A value of the wrong type, an option that is
not on the list and a name that is not in the schema raise `InvalidStrategy`; a
number beyond its bounds and a text beyond its length are brought within.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, TypeAlias

import msgspec

from sightline.errors import InvalidStrategy

__all__ = ["Boolean", "Config", "Field", "Number", "Schema", "Select", "TextField", "resolve"]

Value: TypeAlias = str | int | float | bool


class _Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    pass


class TextField(_Field, frozen=True, tag="text"):
    """A text, cut to `max_length` characters."""

    default: str = ""
    max_length: int = 10_000

    def accept(self, value: object) -> Value:
        if not isinstance(value, str):
            raise TypeError("a text")
        return value[: self.max_length]


class Number(_Field, frozen=True, tag="number"):
    """A number, brought within its bounds."""

    default: float = 0
    minimum: float | None = None
    maximum: float | None = None
    whole: bool = False

    def accept(self, value: object) -> Value:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise TypeError("a number")
        if self.whole and value != int(value):
            raise TypeError("a whole number")
        if self.minimum is not None:
            value = max(value, self.minimum)
        if self.maximum is not None:
            value = min(value, self.maximum)
        return int(value) if self.whole else value


class Boolean(_Field, frozen=True, tag="boolean"):
    """Yes or no."""

    default: bool = False

    def accept(self, value: object) -> Value:
        if not isinstance(value, bool):
            raise TypeError("true or false")
        return value


class Select(_Field, frozen=True, tag="select"):
    """One of a list of texts."""

    default: str
    options: tuple[str, ...]

    def accept(self, value: object) -> Value:
        if value not in self.options or not isinstance(value, str):
            raise TypeError(f"one of {', '.join(self.options)}")
        return value


Field: TypeAlias = TextField | Number | Boolean | Select
Schema: TypeAlias = Mapping[str, Field]


class Config(Mapping[str, Value]):
    """The settings in force, as a mapping and as attributes. Nothing can change them."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        object.__setattr__(self, "_values", dict(values))

    def __getitem__(self, name: str) -> Value:
        values: dict[str, Value] = self._values
        return values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    # Settings are as varied as strategies; a strategy knows the types it declared.
    def __getattr__(self, name: str) -> Any:
        values: dict[str, Value] = object.__getattribute__(self, "_values")
        if name not in values:
            raise AttributeError(f"the schema has no {name!r}")
        return values[name]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings are frozen; {name!r} cannot be set")

    def __reduce__(self) -> tuple[type[Config], tuple[dict[str, Value]]]:
        return Config, (dict(self),)

    def __repr__(self) -> str:
        return f"Config({self._values!r})"


def read_schema(declared: object) -> Schema:
    """Check a schema given as fields or as plain JSON (`{"window": {"type": "number", …}}`)."""
    if not isinstance(declared, Mapping):
        raise InvalidStrategy("the config schema is not a mapping of names to fields")
    schema: dict[str, Field] = {}
    for name, field in declared.items():
        try:
            schema[str(name)] = msgspec.convert(
                msgspec.to_builtins(field) if isinstance(field, _Field) else field,
                Field,
            )
        except msgspec.ValidationError as error:
            raise InvalidStrategy(f"config schema, {name}: {error}") from error
        _accept(str(name), schema[str(name)], schema[str(name)].default)
    return schema


def resolve(schema: Schema, given: Mapping[str, object]) -> Config:
    """Return the settings in force; raise `InvalidStrategy` for what the schema forbids."""
    for name in given:
        if name not in schema:
            known = ", ".join(schema) or "none"
            raise InvalidStrategy(f"config: there is no setting {name!r}; there are {known}")
    return Config(
        {
            name: _accept(name, field, given.get(name, field.default))
            for name, field in schema.items()
        }
    )


def _accept(name: str, field: Field, value: object) -> Value:
    try:
        return field.accept(value)
    except TypeError as error:
        raise InvalidStrategy(f"config, {name}: {value!r} is not {error}") from error
