"""A signature is a schema for callers, and values of the right type for the handler."""

from __future__ import annotations

import enum
import functools
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest

from sightline.errors import ActionError, InvalidInput
from sightline.slop.app.parameters import Call, Parameters, schema_of
from sightline.slop.app.validate import Validator
from sightline.slop.protocol.tree import Node

CALL = Call("/x", "do", {}, Node("x", "item"), session="ana")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Branch:
    name: str
    branches: list[Branch]


class Contact(pydantic.BaseModel):
    name: str
    age: int = 0


def arguments(handler: Any, params: dict[str, Any]) -> dict[str, Any]:
    parameters = Parameters.of(handler)
    parameters.check(params)
    return parameters.arguments(params, {}, CALL)


def test_a_signature_becomes_a_schema() -> None:
    def add(
        title: Annotated[str, "What to do"],
        minutes: int = 30,
        urgent: bool = False,
        colour: Colour = Colour.RED,
        kind: Literal["a", "b"] | None = None,
        tags: list[str] = [],  # noqa: B006 - what is under test
        extra: dict[str, float] | None = None,
    ) -> None: ...

    assert Parameters.of(add).schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What to do"},
            "minutes": {"type": "integer", "default": 30},
            "urgent": {"type": "boolean", "default": False},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "kind": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "extra": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "number"}},
                    {"type": "null"},
                ]
            },
        },
        "required": ["title"],
    }


def test_values_become_what_the_hints_say() -> None:
    def draw(at: Point, colour: Colour, path: list[Point], by: Contact) -> None: ...

    given = {"at": {"x": 1.0}, "colour": "blue", "path": [{"x": 1, "y": 2}], "by": {"name": "Ana"}}
    assert arguments(draw, given) == {
        "at": Point(1),
        "colour": Colour.BLUE,
        "path": [Point(1, 2)],
        "by": Contact(name="Ana"),
    }


def test_references_are_written_out_and_recursion_stays_a_reference() -> None:
    schema = schema_of(Branch)
    assert schema["properties"]["name"] == {"type": "string"}
    assert "$defs" in schema
    Validator(schema).check({"name": "a", "branches": [{"name": "b", "branches": []}]})
    with pytest.raises(ActionError, match="/branches/0"):
        Validator(schema).check({"name": "a", "branches": [{"name": "b"}]})
    assert "$ref" not in str(schema_of(Contact))


def test_session_call_and_holes_are_not_the_callers() -> None:
    def toggle(id: str, session: str, why: Call, force: bool = False) -> None: ...  # noqa: A002 - what is under test

    parameters = Parameters.of(toggle, placeholders=("id",))
    assert parameters.schema is not None
    assert list(parameters.schema["properties"]) == ["force"]
    with pytest.raises(ActionError, match="/session: there is no such parameter"):
        parameters.check({"session": "bob"})
    assert parameters.arguments({}, {"id": "t1"}, CALL) == {
        "id": "t1", "session": "ana", "why": CALL,
    }  # fmt: skip


def test_a_handler_without_parameters_has_no_schema_and_takes_none() -> None:
    parameters = Parameters.of(lambda: None)
    assert parameters.schema is None
    with pytest.raises(ActionError, match="/x: there is no such"):
        parameters.check({"x": 1})


def test_a_given_schema_is_used_in_full_or_short() -> None:
    short = Parameters.of(lambda query: query, {"query": "string"})
    assert short.schema == {
        "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"],
    }  # fmt: skip
    full = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}
    with pytest.raises(ActionError, match="/n: 4 is greater than the maximum of 3"):
        Parameters.of(lambda n: n, full).check({"n": 4})


def test_a_handler_may_take_whatever_there_is() -> None:
    def anything(**values: Any) -> None: ...

    assert arguments(anything, {"a": 1, "b": [2]}) == {"a": 1, "b": [2]}


def test_partials_and_callable_objects_are_read_too() -> None:
    class Adder:
        def __call__(self, n: int) -> int:
            return n + 1

    def toggle(item: int, *, on: bool) -> None: ...

    assert arguments(Adder(), {"n": 1}) == {"n": 1}
    assert arguments(functools.partial(toggle, 4), {"on": True}) == {"on": True}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, '/: "at" is a required property'),
        ({"at": {"x": "a"}}, '/at/x: "a" is not of type "integer"'),
        ({"at": {"x": 1}, "n": 2}, "/n: there is no such parameter"),
    ],
)
def test_the_message_names_the_failing_path(params: dict[str, Any], message: str) -> None:
    def draw(at: Point) -> None: ...

    with pytest.raises(ActionError, match=message) as caught:
        arguments(draw, params)
    assert caught.value.code == "invalid_params"


def test_a_model_says_what_its_own_rules_are() -> None:
    class Even(pydantic.BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    def halve(number: Even) -> None: ...

    halve.__annotations__ = {"number": Even}
    with pytest.raises(ActionError) as caught:
        arguments(halve, {"number": {"n": 3}})
    assert caught.value.code == "invalid_params"


def test_what_has_no_schema_is_an_error_at_registration() -> None:
    def odd(socket: Parameters) -> None: ...

    def lost(x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - the point

    def positional(x: int, /) -> None: ...

    def marked(since: Any = InvalidInput) -> None: ...

    with pytest.raises(InvalidInput, match="'socket'"):
        Parameters.of(odd)
    with pytest.raises(InvalidInput, match="Nowhere"):
        Parameters.of(lost)
    with pytest.raises(InvalidInput, match="by name"):
        Parameters.of(positional)
    with pytest.raises(InvalidInput, match="the default of 'since'"):
        Parameters.of(marked)
    with pytest.raises(InvalidInput, match="not a JSON Schema"):
        Parameters.of(lambda a: a, {"a": {"type": "no such type"}})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^([a-z]+)*$", "^(?=(a+)+$)a*b$"])
def test_no_value_makes_a_pattern_hang(pattern: str) -> None:
    validator = Validator({"properties": {"x": {"type": "string", "pattern": pattern}}})
    started = time.process_time()
    with pytest.raises(ActionError):
        validator.check({"x": "a" * 5_000 + "!"})
    # Not a measurement: the pure-Python matcher would take longer than the universe has.
    assert time.process_time() - started < 30


def test_a_schema_is_never_fetched_from_elsewhere() -> None:
    with pytest.raises(InvalidInput, match="must not refer to another document"):
        Validator({"$ref": "https://schemas.example/a.json"})


def test_a_long_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(ActionError) as caught:
        Validator({"properties": {"x": {"maxLength": 3}}}).check({"x": "y" * 100_000})
    assert len(caught.value.message) < 400
