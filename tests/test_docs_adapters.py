"""What docs/add-to-your-agent.md shows runs: every snippet, and every program by its commands."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from proof.first_answer import copied, first_answer, programs

from support.share import WHOLE

PAGE = (Path(__file__).parent.parent / "docs" / "add-to-your-agent.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```\n(?:```text\n(.*?)^```$)?", PAGE, re.M | re.S)


def test_the_snippets_print_what_the_page_shows(tmp_path: Path) -> None:
    names: dict[str, object] = {"socket": tmp_path / "app.sock"}
    shown = [(code, text) for kind, code, text in BLOCKS if kind == "python"]
    assert len(shown) >= 2
    for code, text in shown:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "add-to-your-agent.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own page
        assert out.getvalue() == text


def test_each_program_takes_three_commands_as_the_page_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", PAGE, re.M)
    assert rows == [(name, str(len(commands))) for name, commands in programs().items()]
    assert [count for _, count in rows] == ["3"] * 5


@pytest.mark.skipif(not WHOLE, reason="each installs everything anew: LAWS=whole")
@pytest.mark.timeout(1800)
def test_the_commands_lead_from_an_empty_environment_to_a_live_answer() -> None:
    asked = [sys.executable, "-m", "pip", "index", "versions", "openai"]
    if subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("no package index can be reached")
    with copied() as copy:
        for commands in programs().values():
            assert first_answer(commands, copy).is_live, commands
