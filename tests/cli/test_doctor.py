"""`sightline doctor` warns only about features that the user chose and that do not work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from sightline.agent.models.vendors import EXTRAS

ROOT = Path(__file__).parents[2]
# The environment of `make chat`: the packages of all other extras cannot be imported.
WALL = """
import importlib.machinery
find = importlib.machinery.PathFinder.find_spec
def walled(name, path=None, target=None):
    return None if name in {gone} else find(name, path, target)
importlib.machinery.PathFinder.find_spec = walled
"""
CONFIG = """
[apps]
connect = ["nats://127.0.0.1:4222/desk", "mcp:server"]
[ledger]
path = "postgresql://nobody@127.0.0.1:1/none"
attachments = "s3://bucket"
"""


def examined(home: Path, **env: str) -> dict[str, str]:
    """Return the level of each check, in a fresh home with the packages of `make chat`."""
    makefile = (ROOT / "Makefile").read_text()
    found = re.search(r"^CHAT +:= (.*)$", makefile, re.MULTILINE)
    assert found is not None
    present = {module for name in found[1].split() for module in EXTRAS[name].modules}
    gone = {module for extra in EXTRAS.values() for module in extra.modules} - present
    wall = home / "wall"
    wall.mkdir(exist_ok=True)
    (wall / "sitecustomize.py").write_text(WALL.format(gone=gone))
    given = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(wall), **env}
    command = [sys.executable, "-m", "sightline", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, env=given, cwd=home, check=False)
    assert done.stderr == b"" or env, done.stderr
    return {row["check"]: row["level"] for row in map(json.loads, done.stdout.splitlines())}


def test_doctor_has_no_warning_in_a_fresh_home_with_the_packages_of_make_chat(
    tmp_path: Path,
) -> None:
    levels = examined(tmp_path)
    assert levels["extra mcp"] == "ok"
    assert set(levels.values()) == {"ok"}, levels


def test_doctor_warns_about_each_chosen_feature_that_lacks_its_package(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "sightline"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(CONFIG)
    levels = examined(
        tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
        SIGHTLINE_MODEL="bedrock:us.amazon.nova-pro",
    )
    warned = {check for check, level in levels.items() if level == "warn"}
    chosen = ("attachments", "bedrock", "mcp", "nats", "otel", "postgres")
    assert warned == {f"extra {name}" for name in chosen}
