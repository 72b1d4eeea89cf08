"""`sightline config` as a user runs it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from sightline.config import Settings, load
from support.shell import Run


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, in a place of the test's."""
    path = tmp_path / "mine" / "config.toml"
    path.parent.mkdir()
    path.write_text('model = "local"\n[endpoints."my.place"]\nbase_url = "http://localhost:1"\n')
    monkeypatch.setenv("SIGHTLINE_CONFIG", str(path))
    monkeypatch.delenv("SIGHTLINE_LEDGER", raising=False)
    return path


def test_path_prints_where_the_file_is(sightline: Run, mine: Path) -> None:
    assert sightline("config", "path").stdout.decode() == f"{mine}\n"


def test_show_prints_every_value_with_its_source(sightline: Run, mine: Path) -> None:
    lines = sightline("config", "show").stdout.decode().splitlines()
    assert any(line.startswith('model = "local" ') and line.endswith(f"# {mine}") for line in lines)
    assert any(line.startswith("window.size = 50 ") and "# default" in line for line in lines)
    assert any(line.startswith('endpoints."my.place" = {') for line in lines)


def test_what_show_prints_is_a_configuration_that_says_the_same(
    sightline: Run, mine: Path, tmp_path: Path
) -> None:
    shown = sightline("config", "show").stdout
    assert tomllib.loads(shown.decode())["model"] == "local"
    again = tmp_path / "again.toml"
    again.write_bytes(shown)
    assert load(again, {}, {}, project=None).settings == load(mine, {}, {}, project=None).settings


def test_show_as_json_has_one_object_per_setting(sightline: Run, mine: Path) -> None:
    rows = [json.loads(line) for line in sightline("config", "show", "--json").stdout.splitlines()]
    found = {row["key"]: row for row in rows}
    assert found["model"] == {"key": "model", "value": "local", "source": str(mine)}
    assert found["limits.rounds"]["value"] == Settings().limits.rounds
    assert found['endpoints."my.place"']["value"]["base_url"] == "http://localhost:1"


@pytest.mark.usefixtures("mine")
def test_what_a_directory_may_not_set_is_told(sightline: Run, tmp_path: Path) -> None:
    (tmp_path / ".sightline.toml").write_text('mode = "auto"\n[window]\nsize = 4\n')
    done = sightline("config", "show")
    assert done.returncode == 0
    assert b"window.size = 4 " in done.stdout
    assert b'mode = "ask"' in done.stdout
    assert b".sightline.toml: mode is ignored" in done.stderr


def test_a_mistake_is_one_line_and_exit_code_2(sightline: Run, mine: Path) -> None:
    mine.write_text("windw = 3\n")
    done = sightline("config", "show")
    assert done.returncode == 2
    assert done.stderr.decode() == (
        f"sightline: {mine}: there is no 'windw'; did you mean 'window.size'?\n"
    )
