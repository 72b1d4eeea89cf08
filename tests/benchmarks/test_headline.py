"""The comparison of two trees names each row that became slower."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.headline import compare, table, worse

BEFORE = {"a turn": [1e-3, 1.1e-3, 0.9e-3], "a tree": [2.0, 2.0, 2.0]}


def test_worse_names_a_row_when_its_median_ratio_exceeds_the_bar() -> None:
    now = {"a turn": [1.2e-3, 1.3e-3, 1.1e-3], "a tree": [2.2, 9.0, 2.0]}
    assert worse(now, BEFORE) == ["a turn"]
    assert worse(BEFORE, BEFORE) == []


def test_table_shows_both_trees_and_their_ratio() -> None:
    now = {"a turn": [2e-3, 2.2e-3, 1.8e-3], "a tree": [1.0, 1.0, 1.0]}
    assert table(now, BEFORE).splitlines()[2:] == [
        "| a turn | 2 ms | 1 ms | 2\N{MULTIPLICATION SIGN} |",
        "| a tree | 1 s | 2 s | 0.5\N{MULTIPLICATION SIGN} |",
    ]


def test_compare_rejects_a_directory_that_is_not_a_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--headline", str(tmp_path)]) == 2
    assert "not a tree of this project" in capsys.readouterr().err
    assert compare(tmp_path / "absent") == 2
