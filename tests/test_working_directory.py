"""A directory of a stranger with modules named like ours, Python's and the packages that we use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.shell import PROGRAM

OURS = ("sightline", "click", "msgspec", "apsw", "platformdirs", "mcp", "anyio", "httpx2", "pip")
PYTHON = sys.executable


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory in which every import leaves a file named `caught`."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in (*OURS, *sys.stdlib_module_names):
        if not name.startswith("_"):
            text = f"open({str(tmp_path / 'caught')!r}, 'a').write({name!r} + '\\n')\n"
            (folder / f"{name}.py").write_text(text)
    return folder


def caught(hostile: Path, words: Sequence[str], **variables: str) -> str:
    """Run a program there. Return the modules of the stranger that it imported."""
    environment = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    subprocess.run(
        words, cwd=hostile, env=environment | variables, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    file = hostile.parent / "caught"
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize(
    "words",
    [
        [PROGRAM, "--version"], [PROGRAM, "demo", "--print"], [PROGRAM, "doctor"],
        [PYTHON, "-P", "-m", "sightline", "demo", "--print"], [PYTHON, PROGRAM, "--version"],
        # The client of an MCP server is a process of ours. The server is one of the user.
        [PROGRAM, "query", f"mcp:{PYTHON} -I -c pass"],
    ],
)  # fmt: skip
def test_a_program_of_ours_imports_nothing_from_the_working_directory(
    hostile: Path, words: list[str]
) -> None:
    assert caught(hostile, words) == ""


def test_python_imports_nothing_from_there_with_a_safe_path(hostile: Path) -> None:
    words = [PYTHON, "-m", "sightline", "--version"]
    assert caught(hostile, words, PYTHONSAFEPATH="1") == ""


@pytest.mark.parametrize("module", ["sightline", "pip"])
def test_python_imports_from_there_with_m_as_the_security_page_says(
    hostile: Path, module: str
) -> None:
    assert caught(hostile, [PYTHON, "-m", module, "--version"]) != ""
    page = Path(__file__).parent.parent / "docs" / "security.md"
    row = next(line for line in page.read_text("utf-8").splitlines() if "`sys.path`" in line)
    assert f"`python -m {module}`" in row
    assert f"`python -P -m {module}`" in row
