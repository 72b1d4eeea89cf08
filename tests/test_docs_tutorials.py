"""Every tutorial can be followed to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.page import Page

PAGES = sorted((Path(__file__).parent.parent / "docs" / "tutorials").glob("*.md"))


def test_there_are_five() -> None:
    assert [path.name[0] for path in PAGES] == list("12345")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
async def test_a_tutorial_does_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path / "providers"))
    assert await Page(path, tmp_path).run() >= 3
