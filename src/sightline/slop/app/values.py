"""JSON from what an app hands over: plain values, dataclasses, enums, models."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sightline.errors import InvalidInput
from sightline.slop.protocol.limits import Limits
from sightline.slop.protocol.rules import value_violations

# How long it may be is for the message that carries it to say.
_ANY_LENGTH: Final = Limits(string_bytes=1 << 62, value_levels=512)


def as_json(value: object) -> Any:
    """Make JSON of a value. Raises InvalidInput, saying what in it is none."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=_dumped, str_keys=True)
    except (TypeError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}") from error
    broken = next(value_violations(plain, "", _ANY_LENGTH), None)
    if broken is not None:
        raise InvalidInput(f"not JSON: {broken}")
    return plain


def _dumped(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"a {type(value).__name__} is not a JSON value")
    return dump(mode="json")
