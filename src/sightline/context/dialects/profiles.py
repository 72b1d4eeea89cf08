"""Profiles, put together from the tables; every field of one knows its source.

    profile = defaults + the endpoint's layers + the model's + your overrides

A layer is a source and a set of dotted fields (`cache.min_tokens`); the last layer
to set a field wins, and `Profile.sources` says for each field who that was. An
override is one more layer: nothing in the dialects is decided anywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

import msgspec

import sightline.context.dialects.profile as rules
from sightline.context.dialects.endpoints import ENDPOINTS, FAMILIES, MODELS, listed_layers
from sightline.context.dialects.names import legal_names
from sightline.context.slots.settings import in_words
from sightline.errors import InvalidInput

# Set by `profile_for` alone, or by nothing: an override that names one is a mistake.
FIXED: Final = frozenset({"endpoint", "model", "sources"})
GROUPS: Final[dict[str, type[msgspec.Struct]]] = {
    "prices": rules.Prices, "cache": rules.Cache, "tail": rules.TailRules,
    "tools": rules.Tools, "reasoning": rules.ReasoningRules, "messages": rules.MessageRules,
}  # fmt: skip
FIELDS: Final = frozenset(
    {f for f in rules.Profile.__struct_fields__ if f not in FIXED and f not in GROUPS}
    | {f"{group}.{field}" for group, kind in GROUPS.items() for field in kind.__struct_fields__}
)
# Made once, at import: msgspec crashes where two threads are the first to read a type.
_profiles: Final = msgspec.json.Decoder(rules.Profile)


def endpoints() -> list[str]:
    """List the endpoints there are profiles for."""
    return sorted(ENDPOINTS)


def profile_for(
    endpoint: str,
    model: str = "",
    overrides: Mapping[str, Any] | rules.Layer | Iterable[rules.Layer] = (),
) -> rules.Profile:
    """Return the profile of a model at an endpoint; without a model, of the one it is known for.

    `overrides` are values by dotted field, nested objects, or layers with sources of
    their own. Raise `InvalidInput` for an unknown endpoint, an unknown field, or a
    value that its field cannot have, naming field and source.
    """
    name = endpoint.lower().replace("_", "-")
    if name not in ENDPOINTS:
        raise InvalidInput(f"there is no dialect {endpoint!r}{_instead(name, ENDPOINTS)}")
    row = ENDPOINTS[name]
    model = model or row.default_model
    tables = [*row.layers, *FAMILIES, *listed_layers(model), *MODELS, *row.model_layers]
    values: dict[str, Any] = {"endpoint": name, "model": model}
    sources: dict[str, str] = {}
    for layer in (layer for layer in tables if layer.matches(model)):
        for field, value in layer.values.items():
            _set(values, field, value)
            sources[field] = layer.source
    for layer in (layer for layer in _layers(overrides) if layer.matches(model)):
        for field, value in _flat(layer).items():
            _set(values, field, value)
            sources[field] = layer.source
        _check(values, layer.source)
    return msgspec.convert({**values, "sources": sources}, rules.Profile)


def price_layer(model: str, prices: str, source: str) -> rules.Layer:
    """Return the layer for prices that a user wrote: input/output[/read[/write]].

    Prices are dollars per million tokens. `model` may contain `*`. Raises `InvalidInput`.
    """
    fields = ("prices.input", "prices.output", "prices.cache_read", "prices.cache_write")
    try:
        found = [float(price) for price in prices.split("/")]
    except ValueError:
        found = []
    if not 2 <= len(found) <= len(fields) or not all(0 <= price < 1e6 for price in found):
        raise InvalidInput(
            f"{source}: {prices!r} is not a price. Write dollars per million tokens as "
            "input/output, input/output/read or input/output/read/write, for example 3/15/0.3/3.75"
        )
    known = [*found, *[None] * (len(fields) - len(found))]
    values = {**dict(zip(fields, known, strict=True)), "prices.cache_write_long": None}
    whole = {"prices.long_tokens": 0, "prices.long_factor": 1.0, "prices.long_output_factor": None}
    return rules.Layer(source, values | whole, (model.lower(),))


def _layers(
    overrides: Mapping[str, Any] | rules.Layer | Iterable[rules.Layer],
) -> list[rules.Layer]:
    if isinstance(overrides, rules.Layer):
        return [overrides]
    if isinstance(overrides, Mapping):
        return [rules.Layer("override", overrides)]
    return list(overrides)


def _flat(layer: rules.Layer) -> dict[str, Any]:
    """Spell nested groups as dotted fields, and refuse what is no field."""
    flat: dict[str, Any] = {}
    for key, value in layer.values.items():
        if key in GROUPS and isinstance(value, Mapping):
            flat.update({f"{key}.{inner}": item for inner, item in value.items()})
        else:
            flat[key] = value
    for field in flat:
        if field in FIXED:
            raise InvalidInput(f"{layer.source}: {field!r} is not for a profile to set")
        if field not in FIELDS:
            raise InvalidInput(f"{layer.source}: there is no {field!r}{_instead(field, FIELDS)}")
    return flat


def _set(values: dict[str, Any], field: str, value: Any) -> None:
    group, _, inner = field.partition(".")
    if inner:
        values[group] = {**values.get(group, {}), inner: value}
    else:
        values[group] = value


def _check(values: dict[str, Any], source: str) -> None:
    try:
        legal_names(msgspec.convert(values, rules.Profile).tools)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{source}: {in_words(error)}") from error
    except InvalidInput as error:
        raise InvalidInput(f"{source}: {error}") from None


def _instead(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(known))}"
