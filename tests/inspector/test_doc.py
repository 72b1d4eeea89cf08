"""docs/inspector.md says what there is."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from sightline.cli.inspect import inspect
from sightline.inspector.turns import NAMED, UNITS

PAGE = (Path(__file__).parents[2] / "docs" / "inspector.md").read_text(encoding="utf-8")
APP = files("sightline.inspector").joinpath("static", "app")


def test_the_views_of_the_page_are_the_views_of_the_program_with_their_keys() -> None:
    shown = re.findall(r"^\| ([A-Z][\w ]+) \| (\d) \|", PAGE, re.MULTILINE)
    route = APP.joinpath("route.js").read_text(encoding="utf-8")
    titles = re.search(r"const TITLES = \{(.*?)\};", route, re.DOTALL)
    assert titles is not None
    assert [name for name, _ in shown] == re.findall(r'"([^"]+)"', titles[1])
    assert [int(key) for _, key in shown] == list(range(1, len(shown) + 1))


def test_the_keys_that_are_documented_are_the_keys_of_the_page() -> None:
    main = APP.joinpath("main.js").read_text(encoding="utf-8")
    keys = set(re.findall(r'keys: "(.)"', main))
    assert set(re.findall(r"`([a-zA-Z/?\[\]])`", PAGE)) == keys
    assert len(keys) > 5


def test_the_options_that_are_documented_are_those_of_the_command() -> None:
    options = {name for option in inspect.params for name in (*option.opts, *option.secondary_opts)}
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) == options - {"--open"}


def test_what_a_filter_can_ask_about_is_documented() -> None:
    rows = re.findall(r"^\| `(\w+)[:<>=]", PAGE, re.MULTILINE)
    assert set(rows) == {*NAMED, *UNITS}
