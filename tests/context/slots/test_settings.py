"""A strategy's configuration is validated, clamped, defaulted and frozen."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from sightline.context.slots.settings import (
    Boolean,
    Number,
    Schema,
    Select,
    TextField,
    read_schema,
    resolve,
)
from sightline.errors import InvalidStrategy

SCHEMA: Schema = {
    "window": Number(default=20, minimum=1, maximum=100, whole=True),
    "heat": Number(default=0.5, minimum=0, maximum=1),
    "loud": Boolean(),
    "tone": Select("dry", ("dry", "warm")),
    "title": TextField(default="none", max_length=5),
}


def test_what_is_not_given_takes_its_default() -> None:
    config = resolve(SCHEMA, {})
    assert dict(config) == {
        "window": 20,
        "heat": 0.5,
        "loud": False,
        "tone": "dry",
        "title": "none",
    }
    assert (config.window, config["tone"], len(config)) == (20, "dry", 5)


def test_numbers_and_texts_are_brought_within_their_bounds() -> None:
    config = resolve(SCHEMA, {"window": 500, "heat": -3, "title": "too long"})
    assert (config.window, config.heat, config.title) == (100, 0, "too l")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("window", "9", "'9' is not a number"),
        ("window", 1.5, "1.5 is not a whole number"),
        ("window", True, "True is not a number"),
        ("heat", float("nan"), "nan is not a number"),
        ("loud", 1, "1 is not true or false"),
        ("tone", "cold", "'cold' is not one of dry, warm"),
        ("title", 5, "5 is not a text"),
        ("windows", 5, "there is no setting 'windows'; there are window, heat"),
    ],
)
def test_a_wrong_value_names_the_setting(name: str, value: Any, reason: str) -> None:
    with pytest.raises(InvalidStrategy, match=reason):
        resolve(SCHEMA, {name: value})


def test_settings_are_frozen() -> None:
    config = resolve(SCHEMA, {})
    with pytest.raises(AttributeError, match="frozen"):
        config.window = 5
    with pytest.raises(AttributeError, match="no 'other'"):
        _ = config.other
    assert "window" in repr(config)
    assert copy(config) == config


def test_a_schema_may_be_plain_json() -> None:
    plain = {"window": {"type": "number", "default": 3, "maximum": 9}, "on": {"type": "boolean"}}
    assert dict(resolve(read_schema(plain), {"window": 99})) == {"window": 9, "on": False}


@pytest.mark.parametrize(
    "schema",
    [
        [],
        {"window": {"type": "colour"}},
        {"window": {"type": "number", "default": "x"}},
        {"tone": {"type": "select", "default": "cold", "options": ["dry"]}},
        {"window": 5},
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidStrategy, match="config"):
        read_schema(schema)
