"""The list of demands and the tests that name them agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from projection.requirements import REQUIREMENTS, proves

TESTS = Path(__file__).parent.parent
NAMED = re.compile(r"^@proves\(([^)]*)\)\n(?:@.*\n)*(?:async )?def test_", re.MULTILINE)


def named_ids() -> set[str]:
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for ids in NAMED.findall(path.read_text(encoding="utf-8")):
            found.update(re.findall(r'"([^"]+)"', ids))
    return found


def test_every_demand_that_is_at_home_here_is_proved() -> None:
    at_home = {item.id for item in REQUIREMENTS if item.home == "projection"}
    assert at_home - named_ids() == set()


def test_no_test_names_a_demand_that_does_not_exist() -> None:
    assert named_ids() <= {item.id for item in REQUIREMENTS}


def test_all_ten_points_are_listed_once() -> None:
    ids = [item.id for item in REQUIREMENTS]
    assert len(set(ids)) == len(ids)
    assert {f"CI-{n}" for n in range(1, 11)} <= set(ids)


def test_naming_an_unknown_demand_fails_at_once() -> None:
    with pytest.raises(AssertionError, match="CI-99"):
        proves("CI-99")
