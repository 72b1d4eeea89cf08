"""A strategy's settings are checked, defaulted and frozen."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from sightline.context.slots.settings import NoSettings, read_schema, resolve
from sightline.errors import InvalidStrategy


class Mine(msgspec.Struct, frozen=True):
    window: Annotated[int, Meta(ge=1, le=100)] = 20
    heat: Annotated[float, Meta(ge=0, le=1)] = 0.5
    loud: bool = False
    tone: Literal["dry", "warm"] = "dry"
    title: Annotated[str, Meta(max_length=5)] = "none"


class Beyond(msgspec.Struct, frozen=True):
    window: Annotated[int, Meta(le=9)] = 10


class Without(msgspec.Struct, frozen=True):
    window: int


class Changing(msgspec.Struct):
    window: int = 5


def test_what_is_not_given_takes_its_default() -> None:
    assert resolve(read_schema(Mine), {"window": 3}) == Mine(window=3)
    assert resolve(NoSettings, {}) == NoSettings()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("window", "9", "window: Expected `int`, got `str`"),
        ("window", 1.5, "window: Expected `int`, got `float`"),
        ("window", True, "window: Expected `int`, got `bool`"),
        ("window", 500, "window: Expected `int` <= 100"),
        ("heat", float("nan"), "heat: Expected `float`"),
        ("heat", -3, "heat: Expected `float` >= 0"),
        ("loud", 1, "loud: Expected `bool`, got `int`"),
        ("tone", "cold", "tone: Invalid enum value 'cold'"),
        ("title", "too long", "title: Expected `str` of length <= 5"),
        ("windows", 5, "there is no setting 'windows'; there are window, heat"),
    ],
)
def test_a_wrong_value_names_the_setting(name: str, value: Any, reason: str) -> None:
    with pytest.raises(InvalidStrategy, match=reason):
        resolve(Mine, {name: value})


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ({"window": 5}, "not a class of frozen settings"),
        (Changing, "not a class of frozen settings"),
        (Without, "window"),
        (Beyond, "window: Expected `int` <= 9"),
    ],
)
def test_settings_that_make_no_sense_are_refused(declared: object, reason: str) -> None:
    with pytest.raises(InvalidStrategy, match=f"config.*{reason}"):
        read_schema(declared)
