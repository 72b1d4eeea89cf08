"""The package and its floors offer exactly what they say, and load it when it is asked for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sightline
import sightline.agent
import sightline.context
import sightline.slop
from sightline._lazy import lazy_pattern

facades = pytest.mark.parametrize(
    "facade",
    [sightline, sightline.slop, sightline.context, sightline.agent],
    ids=lambda facade: facade.__name__,
)


@facades
def test_every_public_name_can_be_had(facade: ModuleType) -> None:
    for name in facade.__all__:
        assert getattr(facade, name).__module__.startswith("sightline.")


@facades
def test_there_are_no_other_public_names(facade: ModuleType) -> None:
    for name in facade.__all__:
        getattr(facade, name)
    visible = {
        name
        for name, value in vars(facade).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert visible - {"annotations", "TYPE_CHECKING", "lazily"} == set(facade.__all__)
    assert dir(facade) == facade.__all__ == sorted(facade.__all__)


@facades
def test_a_type_checker_sees_what_there_is(facade: ModuleType) -> None:
    assert facade.__file__ is not None
    tree = ast.parse(Path(facade.__file__).read_text(encoding="utf-8"))
    [checked] = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name
        for line in checked.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert seen == set(facade.__all__)


@facades
def test_an_unknown_name_is_an_attribute_error(facade: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"'{facade.__name__}' has no attribute 'Sightline'"):
        _ = facade.Sightline


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys, sightline, sightline.slop, sightline.context, sightline.agent; "
        "print(sorted(m for m in sys.modules if m.startswith('sightline.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    rooms = ["sightline._lazy", "sightline.agent", "sightline.context", "sightline.slop"]
    assert done.stdout == f"{rooms}\n"


def test_a_lazy_pattern_is_compiled_when_it_is_first_used() -> None:
    sources: list[str] = []

    def source() -> str:
        sources.append("B+")
        return sources[-1]

    found = lazy_pattern(source, re.IGNORECASE)
    assert not sources
    assert found.sub("-", "abba") == "a-a"
    assert found.flags & re.IGNORECASE
    assert [match[0] for match in found.finditer("bob")] == ["b", "b"]
    assert lazy_pattern("(").pattern == "("
