"""Every snippet of docs/dialects.md runs and says what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.context.dialects import endpoints

PAGE = Path(__file__).parent.parent / "docs" / "dialects.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)


def test_the_python_of_the_page_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {}
    blocks = [code for kind, code in BLOCKS if kind == "python"]
    assert len(blocks) >= 5
    for code in blocks:
        exec(compile(code, str(PAGE), "exec"), namespace)  # noqa: S102 - our own page
    assert capsys.readouterr().out.startswith("regression: ")


def test_the_commands_of_the_page_print_what_the_page_shows(tmp_path: Path) -> None:
    [shown] = [code for kind, code in BLOCKS if kind == "console"]
    command, _, output = shown.removeprefix("$ ").partition("\n")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (0, "", output)


@pytest.mark.parametrize("endpoint", endpoints())
def test_the_page_says_where_the_tail_goes_at_every_endpoint(endpoint: str) -> None:
    table = PAGE.read_text("utf-8").partition("## Where the tail goes")[2].partition("\n## ")[0]
    assert f"`{endpoint}`" in table
