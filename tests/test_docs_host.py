"""Every snippet of docs/host.md runs and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import get_args

import pytest

import sightline.errors
from sightline.agent.policy import Mode
from support.vendors.answers import says
from support.vendors.server import Vendor
from test_docs import shell

PAGE = (Path(__file__).parent.parent / "docs" / "host.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_snippet_prints_what_the_page_shows(tmp_path: Path) -> None:
    names: dict[str, object] = {"ledger": tmp_path / "work.db", "socket": tmp_path / "app.sock"}
    out = io.StringIO()
    for kind, code in BLOCKS:
        if kind == "python":
            with contextlib.redirect_stdout(out):
                exec(compile(code, "docs/host.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
    assert out.getvalue() == "".join(code for kind, code in BLOCKS if kind == "text")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    [script] = [code for kind, code in BLOCKS if kind == "sh"]
    with Vendor(says("Two messages.")) as vendor:
        own = {**vendor.environment(), "SIGHTLINE_MODEL": "ollama:test"}
        done = shell(script, tmp_path, own)
    assert done.returncode == 0, done.stderr
    assert "Two messages." in done.stdout


@pytest.mark.parametrize("mode", get_args(Mode))
def test_every_mode_is_explained(mode: str) -> None:
    assert f"| `{mode}`" in PAGE


def test_the_codes_are_real() -> None:
    source = (Path(sightline.errors.__file__).parent / "agent" / "turn" / "machine.py").read_text(
        "utf-8"
    )
    _, last = PAGE.split("`TurnEnded.code` is empty after an answer.")
    codes = re.findall(r"`(\w+)`", last)
    assert len(codes) >= 6
    for code in codes:
        assert f'"{code}"' in source
