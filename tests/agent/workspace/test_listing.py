"""Listings: every file has its place, every id leads back to its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.agent.workspace import listing as module
from sightline.agent.workspace.listing import Listing, scan
from sightline.slop.protocol.ids import legal_id

NAME = st.text(alphabet="ab%~.\n\udcff", min_size=1, max_size=3)
PATHS = st.lists(st.lists(NAME, min_size=1, max_size=3).map(tuple), unique=True, max_size=12)


def consistent(paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """No file stands where another has a directory."""
    directories = {path[:depth] for path in paths for depth in range(1, len(path))}
    return [path for path in paths if path not in directories]


@given(PATHS)
def test_every_file_is_found_by_the_ids_of_its_names(paths: list[tuple[str, ...]]) -> None:
    files = consistent(paths)
    listing = Listing.of(files)
    for path in files:
        assert listing.named([legal_id(name) for name in path]) == path
        assert (path[-1], False) in listing.entries(path[:-1])
        for depth in range(1, len(path)):
            assert (path[depth - 1], True) in listing.entries(path[: depth - 1])
    assert listing.named(["nothing", "here"]) is None


@given(PATHS)
def test_walking_the_entries_finds_every_file_once(paths: list[tuple[str, ...]]) -> None:
    files = consistent(paths)
    listing = Listing.of(files)
    found: list[tuple[str, ...]] = []
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        above = waiting.pop()
        entries = listing.entries(above)
        assert len(entries) == listing.count(above)
        for name, is_directory in entries:
            (waiting if is_directory else found).append((*above, name))
    assert sorted(found) == sorted(files)


def test_a_directory_without_git_is_listed_without_what_nobody_wants(root: Path) -> None:
    for name in (".git", "node_modules", ".venv"):
        (root / name).mkdir()
        (root / name / "x").write_text("x")
    (root / "up").symlink_to(root.parent)
    assert scan(root).files == (("README.md",), ("up",), ("src", "app.py"))


def test_a_listing_has_an_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (root / f"f{number}").touch()
    monkeypatch.setattr(module, "MOST", 5)
    assert len(scan(root).files) == 5
    assert not scan(root).complete
    monkeypatch.setattr(module, "_SCAN_S", -1.0)
    assert len(scan(root).files) == 1
    assert not scan(root).complete
