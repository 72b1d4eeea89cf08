"""The manifest and the tests agree in both directions."""

from __future__ import annotations

import ast
from pathlib import Path

from sightline.slop.conform.requirements import ADVICE, REQUIREMENTS

HERE = Path(__file__).parent


def proofs() -> dict[str, list[str]]:
    """Which requirements each test in this directory names."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for item in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith(
                "test_"
            ):
                found[f"{path.name}::{item.name}"] = [
                    str(argument.value)
                    for mark in item.decorator_list
                    if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves"
                    for argument in mark.args
                    if isinstance(argument, ast.Constant)
                ]
    return found


def test_every_requirement_has_a_test() -> None:
    proved = {own for named in proofs().values() for own in named}
    assert REQUIREMENTS.keys() - proved == set()


def test_every_test_names_a_requirement_that_exists() -> None:
    for test, named in proofs().items():
        assert named, f"{test} names no requirement"
        assert set(named) <= REQUIREMENTS.keys(), test


def test_nothing_is_both_required_and_advice() -> None:
    assert REQUIREMENTS.keys().isdisjoint(ADVICE)
