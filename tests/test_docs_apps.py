"""docs/apps.md cannot lie: every snippet is run, and what it shows is what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sightline.slop.app import descriptor
from sightline.slop.app.app import App
from sightline.slop.protocol.text import format_tree
from sightline.testing import connect

PAGE = (Path(__file__).parent.parent / "docs" / "apps.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def run_until(name: str) -> dict[str, Any]:
    """Run the snippets in order, up to and with the one that defines a name."""
    names: dict[str, Any] = {"__name__": "docs"}
    for code in blocks("python"):
        exec(compile(code, "docs/apps.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own document
        if name in names:
            return names
    raise AssertionError(f"no snippet defines {name}")


def test_the_first_app_has_ten_statements_and_looks_as_shown() -> None:
    names = run_until("todo_list")
    app: App = names["app"]
    assert format_tree(app.tree()) == blocks("text")[0].rstrip("\n")
    code = [line for line in blocks("python")[0].splitlines() if line.strip()]
    assert len(code) <= 10


async def test_its_test_passes() -> None:
    await run_until("test_adding")["test_adding"]()


async def test_a_large_app_shows_stubs_that_a_query_opens() -> None:
    name = "test_a_stub_is_opened_by_a_query"
    await run_until(name)[name]()


async def test_the_large_app_does_what_the_page_says() -> None:
    early = run_until("navigate")["shop"]
    assert format_tree(early.tree()) == blocks("text")[1].rstrip("\n")
    shop = run_until("reindex")["shop"]
    async with connect(shop) as client:
        await client.invoke("/", "navigate", to="orders")
        assert client.tree.at("/orders/o-12").properties == {"title": "Keyboard"}
        part = await client.query("/catalog", window=(2390, 25))
        assert len(part.children) == 10
        read = await client.invoke("/catalog/p1", "read_content")
        assert read["content"] == "How to use p1 …"
        task = (await client.invoke("/catalog", "reindex"))["taskId"]
        await client.until(lambda: client.tree.at(f"/tasks/{task}").properties["progress"] == 1)


async def test_each_user_of_the_notebook_has_their_own() -> None:
    notebook = run_until("notebook")["notebook"]
    ana, bob = "ana", "bob"
    async with connect(notebook, token=ana) as one, connect(notebook, token=bob) as other:
        await other.invoke("/mine", "write", text="sell a boat")
        assert one.tree.at("/mine/0").properties == {"text": "buy a boat"}
        assert other.tree.at("/mine/0").properties == {"text": "sell a boat"}


async def test_the_app_goes_on_the_air(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOP_PROVIDERS", str(tmp_path))
    await run_until("main")["main"]()
    assert list(tmp_path.iterdir()) == []


def test_the_mount_is_one_line() -> None:
    assert any(getattr(route, "path", "") == "/agents" for route in run_until("api")["api"].routes)


def test_the_table_of_keys_is_the_one_in_the_code() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    known = set(descriptor._KEYS) - {"id", "properties", "children", "contentRef"}
    assert listed == known
