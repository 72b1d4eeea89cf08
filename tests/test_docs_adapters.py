"""Every snippet of docs/add-to-your-agent.md runs and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

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
