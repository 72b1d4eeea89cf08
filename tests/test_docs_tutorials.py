"""Every tutorial can be followed to the letter."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from support.page import Page
from support.rooms import imports_of

PAGES = sorted((Path(__file__).parent.parent / "docs" / "tutorials").glob("*.md"))


def test_there_are_five() -> None:
    assert [path.name[0] for path in PAGES] == list("12345")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_tutorial_says_what_it_needs_beyond_make_demo(path: Path) -> None:
    text = path.read_text("utf-8")
    lock = (path.parents[2] / "requirements-chat.lock").read_text("utf-8")
    brought = set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE)) | {"sightline"}
    for line in re.findall(r"`pip install ([^`]*)`", text):
        brought |= set(line.split())
    blocks = re.findall(
        r"^```python(?: file=(\w+)\.py)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    files = {name for name, _ in blocks} | set(sys.stdlib_module_names)
    imported = {name.split(".")[0] for _, code in blocks for name in imports_of(code)}
    assert imported - files - brought == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
async def test_a_tutorial_does_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path / "providers"))
    assert await Page(path, tmp_path).run() >= 3
