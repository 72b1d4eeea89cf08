"""Tool definitions, read from the two spellings that are around.

{"name", "description"?, "parameters"?}                     ours
{"type": "function", "function": {"name", …}}               OpenAI's, which many speak
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sightline.errors import InvalidInput


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool by name, with the JSON Schema of its arguments (an object)."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def read_tools(definitions: Iterable[Mapping[str, Any]]) -> list[ToolDefinition]:
    """Read definitions in order; raise `InvalidInput` with the place of a bad one."""
    return [_read(number, given) for number, given in enumerate(definitions)]


def _read(number: int, given: Mapping[str, Any]) -> ToolDefinition:
    inner = given.get("function", given)
    if not isinstance(inner, Mapping):
        raise InvalidInput(f"tools[{number}]: its function is not an object")
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"tools[{number}]: a tool needs a name")
    description = inner.get("description", "")
    if not isinstance(description, str):
        raise InvalidInput(f"tools[{number}] ({name}): its description is not text")
    parameters = inner.get("parameters") or inner.get("input_schema") or {}
    if not isinstance(parameters, Mapping):
        raise InvalidInput(f"tools[{number}] ({name}): its parameters are not a JSON Schema")
    # Several vendors refuse a schema that does not say it is an object with properties.
    return ToolDefinition(name, description, {"type": "object", "properties": {}, **parameters})
