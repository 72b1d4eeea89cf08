"""Every snippet of docs/slots.md runs and says what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.context.slots.options import SlotOptions

PAGE = Path(__file__).parent.parent / "docs" / "slots.md"
BLOCKS = re.findall(
    r"^```(\w*)[ ]?(?:file=)?(\S*)\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S
)


def test_the_python_of_the_page_runs_from_top_to_bottom() -> None:
    namespace: dict[str, object] = {}
    blocks = [code for kind, name, code in BLOCKS if kind == "python" and not name]
    assert len(blocks) >= 8
    for code in blocks:
        exec(compile(code, str(PAGE), "exec"), namespace)  # noqa: S102 - our own page


def test_the_table_of_the_page_is_what_its_first_prompt_prints() -> None:
    namespace: dict[str, object] = {}
    first = next(code for kind, _, code in BLOCKS if kind == "python")
    table = next(code for kind, _, code in BLOCKS if not kind)
    exec(compile(first, str(PAGE), "exec"), namespace)  # noqa: S102 - our own page
    assert namespace["prompt"].receipt.table() == table.rstrip("\n")  # type: ignore[attr-defined]  # a Prompt


def sessions() -> list[tuple[str, str]]:
    """Every command of the page with the output that the page shows."""
    found = []
    for kind, _, code in BLOCKS:
        if kind == "console":
            for entry in re.split(r"^\$ ", code, flags=re.M)[1:]:
                command, _, output = entry.partition("\n")
                found.append((command, output))
    return found


def test_the_commands_of_the_page_print_what_the_page_shows(tmp_path: Path) -> None:
    for kind, name, code in BLOCKS:
        if kind == "python" and name:
            (tmp_path / name).write_text(code, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    assert len(sessions()) == 5
    for command, output in sessions():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr, done.stdout) == (0, "", output), command


@pytest.mark.parametrize("option", SlotOptions.__struct_fields__)
def test_the_page_explains_every_option(option: str) -> None:
    assert f"| `{option}` |" in PAGE.read_text("utf-8")
