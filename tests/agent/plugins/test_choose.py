"""Strategies are found by name, in files and in installed packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sightline.agent.plugins.run import available, load_strategy
from sightline.context.slots.strategy import Context
from sightline.errors import InvalidStrategy

SOURCE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
import msgspec

class Mine(msgspec.Struct, frozen=True):
    n: Annotated[int, msgspec.Meta(ge=0)] = 1

name = "mine"
config = Mine

@dataclass
class Note:
    text: str

def on_context_build(ctx):
    ctx.slots.add("note", Note("hello").text)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with one strategy that works and one that does not."""
    (tmp_path / "shop.py").write_text(SOURCE, encoding="utf-8")
    info = tmp_path / "shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sightline.strategies]\nshop = shop\nbroken = shop:missing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("shop", None)


def test_a_built_in_strategy_is_loaded_by_name() -> None:
    assert load_strategy("classic").origin == "built in"


def test_a_strategy_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE, encoding="utf-8")
    for spec in (path, str(path)):
        strategy = load_strategy(spec)
        assert (strategy.name, strategy.origin) == ("mine", str(path))
        assert strategy.schema.__struct_fields__ == ("n",)


@pytest.mark.usefixtures("package")
def test_a_strategy_is_loaded_from_an_installed_package() -> None:
    assert load_strategy("shop").name == "mine"
    assert ("shop", "shop", "") in list(available())


def test_a_strategy_is_loaded_from_a_class() -> None:
    class Mine:
        def on_context_build(self, ctx: Context) -> None: ...

    assert load_strategy(Mine).name == "Mine"


@pytest.mark.usefixtures("package")
def test_a_package_whose_strategy_does_not_load_says_why() -> None:
    with pytest.raises(InvalidStrategy, match=r"entry point 'broken' \(shop:missing\)"):
        load_strategy("broken")
    problems = {name: problem for name, _, problem in available()}
    assert "shop:missing" in problems["broken"]
    assert not problems["sightline"]


@pytest.mark.usefixtures("package")
def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        InvalidStrategy, match="there are sightline, classic, minimal, broken, shop"
    ):
        load_strategy("nope")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def on_context_build(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; sys.exit(2)", "SystemExit"),
        ("x = 1", "has no on_context_build"),
    ],
)
def test_a_file_that_does_not_load_says_why(tmp_path: Path, source: str, reason: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(InvalidStrategy, match=reason):
        load_strategy(path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidStrategy, match="no such file"):
        load_strategy(tmp_path / "absent.py")


def test_a_file_that_is_not_python_says_so(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(InvalidStrategy, match="not a Python file"):
        load_strategy(path)
