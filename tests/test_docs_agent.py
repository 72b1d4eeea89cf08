"""docs/workspace.md and docs/configuration.md say what is so."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest

from sightline.cli.config import toml_value
from sightline.config import Settings, load
from sightline.config.load import ENVIRONMENT, LEAVES, TABLES, spell

DOCS = Path(__file__).parent.parent / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text("utf-8")
WORKSPACE = (DOCS / "workspace.md").read_text("utf-8")


def test_the_workspace_looks_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "ducks"
    (root / "src").mkdir(parents=True)
    (root / "README.md").write_text("# Ducks\n")
    (root / "src" / "pond.py").write_text("def duck():\n    return 'quack'\n")
    identity = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *identity, *command], cwd=root, check=True)
    (root / "README.md").write_text("# Many ducks\n")
    monkeypatch.chdir(tmp_path)
    [code] = re.findall(r"^```python\n(.*?)^```$", WORKSPACE, re.M | re.S)
    [shown] = re.findall(r"^```text\n(.*?)^```$", WORKSPACE, re.M | re.S)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "docs/workspace.md", "exec"), {})  # noqa: S102 - our own page
    assert out.getvalue() == shown


def test_the_page_lists_every_setting_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `(.*?)` \|", CONFIGURATION, re.MULTILINE))
    defaults = msgspec.to_builtins(Settings())
    expected = {}
    for key in [*LEAVES, *((name,) for name in TABLES)]:
        value = defaults[key[0]] if len(key) == 1 else defaults[key[0]][key[1]]
        expected[spell(key)] = toml_value(value)
    assert rows == expected


def test_the_page_lists_every_variable() -> None:
    listed = set(re.findall(r"`(SIGHTLINE_\w+)`", CONFIGURATION))
    assert listed == {*ENVIRONMENT, "SIGHTLINE_CONFIG"}


def test_the_example_is_a_configuration(tmp_path: Path) -> None:
    [example] = re.findall(r"^```toml\n(.*?)^```$", CONFIGURATION, re.M | re.S)
    file = tmp_path / "config.toml"
    file.write_text(example)
    loaded = load(file, {}, {}, project=None)
    assert loaded.settings.model == tomllib.loads(example)["model"]
    assert len(loaded.settings.policy) == 2
