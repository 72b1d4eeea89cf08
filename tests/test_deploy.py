"""What `deploy/` says to run can be run: commands, options, settings and health are ours."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

import sightline.telemetry as telemetry
from sightline.cli.main import cli
from sightline.context.ledger.paths import address_of
from sightline.context.ledger.postgres.steps import MIGRATIONS
from sightline.slop.transports.health import LIVE, READY
from support.shell import PROGRAM

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
UNIT = DEPLOY / "sightline-gateway.service"
yaml: Any = pytest.importorskip("yaml")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def check_command(words: list[str]) -> None:
    """Every command and option is one of the program's."""
    command: click.Command = cli
    options: set[str] = set()
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in options, word
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            command = found or command
            options |= {name for one in command.params for name in one.opts}


def unit() -> configparser.SectionProxy:
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string(UNIT.read_text(encoding="utf-8"))
    return read["Service"]


def test_the_services_run_commands_that_there_are() -> None:
    services = COMPOSE["services"]
    commands = [one.get("command", [""]) for one in services.values()]
    ours = [words for words in commands if words[0] == "sightline"]
    ours.append(shlex.split(unit()["ExecStart"]))
    assert len(ours) >= 2
    for program, *words in ours:
        assert Path(program).name == "sightline"
        check_command(words)
    for one in services.values():
        assert {*one.get("depends_on", {})} <= services.keys()
        assert {*one.get("secrets", [])} <= COMPOSE["secrets"].keys()
    with pytest.raises(AssertionError):
        check_command(["gateway", "--prot", "1"])


def test_the_gateway_is_waited_for_by_its_health_and_has_a_ledger() -> None:
    gateway = COMPOSE["services"]["gateway"]
    [asked] = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", gateway["healthcheck"]["test"][-1])
    assert asked == (gateway["command"][gateway["command"].index("--port") + 1], READY)
    assert address_of(gateway["environment"]["SIGHTLINE_LEDGER"]).tenant == "acme"
    assert {LIVE, READY} <= {*re.findall(r"/\w+z\b", PAGE)}
    for file in DEPLOY.iterdir():
        assert f"(../deploy/{file.name})" in PAGE or file.name == "secrets"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    text = UNIT.read_text(encoding="utf-8").replace("%h/.local/bin/sightline", PROGRAM)
    (tmp_path / UNIT.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(tmp_path / UNIT.name)],
        capture_output=True, text=True, check=False, env={"XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert UNIT.name not in done.stderr, done.stderr


def test_what_is_to_be_watched_is_what_is_told() -> None:
    """Every name on the page is a metric, an attribute of the table, or a table of the ledger."""
    table = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    told = {*telemetry._INSTRUMENTS, *re.findall(r"`((?:gen_ai|sightline|error)\.[\w.]+)`", table)}
    told |= {f"sightline.{name}" for name in re.findall(r"CREATE TABLE (\w+)", MIGRATIONS[0])}
    named = {*re.findall(r"\b((?:gen_ai|sightline|error)\.[\w.]+\w)", PAGE)}
    assert len(named) > 10
    assert named <= told
