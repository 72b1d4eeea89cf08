"""Finding lines in many files, within bounds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sightline.agent.workspace.inside import Inside
from sightline.agent.workspace.listing import scan
from sightline.agent.workspace.text import SearchResult, search
from sightline.errors import ActionError


def found(inside: Inside, root: Path, query: str, **options: object) -> SearchResult:
    return search(inside, scan(root).files, query, **options)  # type: ignore[arg-type]


def test_lines_are_found_with_path_and_number(inside: Inside, root: Path) -> None:
    assert found(inside, root, "quack").lines == ("src/app.py:2: return 'quack'",)
    assert found(inside, root, "duck", ignore_case=True).lines == (
        "README.md:1: # Ducks",
        "src/app.py:1: def duck():",
    )
    assert found(inside, root, "d", glob="src/*").lines == ("src/app.py:1: def duck():",)


def test_the_query_is_taken_literally(inside: Inside, root: Path) -> None:
    assert found(inside, root, "duck.*").lines == ()
    (root / "re").write_text("a.*b")
    assert found(inside, root, ".*").lines == ("re:1: a.*b",)


def test_case_is_ignored_in_every_script(inside: Inside, root: Path) -> None:
    (root / "de").write_text("Straße\nÄPFEL\n")
    assert found(inside, root, "strasse", ignore_case=True).lines == ("de:1: Straße",)
    assert found(inside, root, "äpfel", ignore_case=True).lines == ("de:2: ÄPFEL",)


def test_there_is_an_end_to_it(inside: Inside, root: Path) -> None:
    (root / "many").write_text("needle\n" * 1000)
    result = found(inside, root, "needle", limit=10)
    assert len(result.lines) == 10
    assert result.stopped == "there are more than 10 lines"
    assert len(found(inside, root, "needle", limit=10**9).lines) == 200


def test_what_is_no_text_is_passed_over(inside: Inside, root: Path) -> None:
    (root / "binary").write_bytes(b"needle\0needle")
    (root / "link").symlink_to(root.parent / "secret.txt")
    os.mkfifo(root / "pipe")
    with (root / "huge").open("wb") as file:
        file.truncate(1024**3)
    assert found(inside, root, "needle").lines == ()
    assert found(inside, root, "outside").lines == ()


def test_a_hostile_name_or_line_is_one_printable_line(inside: Inside, root: Path) -> None:
    (root / "a\nfake.py:1: needle").write_text("needle \x1b[2J\u202e\n")
    [line] = found(inside, root, "needle").lines
    assert line.isprintable()


@pytest.mark.parametrize("query", ["", "a\nb"])
def test_a_query_is_one_line(inside: Inside, root: Path, query: str) -> None:
    with pytest.raises(ActionError, match="one line"):
        found(inside, root, query)
