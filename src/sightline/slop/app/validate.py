"""Check values against JSON Schemas, quickly and without surprises.

A schema comes from the app and a value from anybody: no value may make the check
take long. The engine's patterns backtrack only so far, and a reference that would
have to be fetched from somewhere is refused when the schema is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs

from sightline.errors import ActionError, InvalidInput
from sightline.slop.protocol.path import escape

_MESSAGE_CHARS: Final = 300


class Validator:
    """One schema, compiled. Raises InvalidInput if it is not one."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            self._compiled = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
        except (ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInput(f"not a JSON Schema: {reason}") from None

    def check(self, value: object) -> None:
        """Raise ActionError `invalid_params`, naming the place, if the value does not fit."""
        if self._compiled.is_valid(value):
            return
        error = next(self._compiled.iter_errors(value))
        where = "".join(f"/{escape(str(step))}" for step in error.instance_path) or "/"
        raise ActionError("invalid_params", f"{where}: {_short(error.message)}")


def _refuse(uri: str) -> Any:
    raise ValueError(f"a schema must not refer to another document: {uri}")


def _short(message: str) -> str:
    return message if len(message) <= _MESSAGE_CHARS else f"{message[:_MESSAGE_CHARS]}…"
