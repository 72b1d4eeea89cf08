"""The list of demands and the tests that name them agree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from context.projection.requirements import REQUIREMENTS, proves
from sightline.slop.conform import requirements as protocol

TESTS = Path(__file__).parents[2]


def named_ids() -> set[str]:
    """The ids in the decorators of all tests, wherever they are."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for call in node.decorator_list:
                    found.update(_ids_of(call))
    return found


def _ids_of(call: ast.expr) -> Iterator[str]:
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "proves":
        yield from (str(item.value) for item in call.args if isinstance(item, ast.Constant))


def test_every_demand_is_proved() -> None:
    here = {item.id for item in REQUIREMENTS if not item.there}
    assert here - named_ids() == set()


def test_what_apps_must_do_is_in_the_manifest_of_the_protocol() -> None:
    there = {name for item in REQUIREMENTS for name in item.there}
    assert there
    assert there <= protocol.REQUIREMENTS.keys()


def test_no_test_names_a_demand_that_does_not_exist() -> None:
    assert named_ids() <= {item.id for item in REQUIREMENTS}


def test_all_ten_points_are_listed_once() -> None:
    ids = [item.id for item in REQUIREMENTS]
    assert len(set(ids)) == len(ids)
    assert {f"CI-{n}" for n in range(1, 11)} <= set(ids)


def test_naming_an_unknown_demand_fails_at_once() -> None:
    with pytest.raises(AssertionError, match="CI-99"):
        proves("CI-99")
