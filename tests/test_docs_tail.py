"""Every snippet of docs/tail.md runs and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from context.projection.requirements import proves
from sightline.context.projection.bridge import WINDOW_S
from sightline.context.projection.tail import MEDIA_TYPES

PAGE = (Path(__file__).parent.parent / "docs" / "tail.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_snippets_of_the_page_print_what_it_shows() -> None:
    namespace: dict[str, object] = {}
    out = io.StringIO()
    for kind, code in BLOCKS:
        if kind == "python":
            with contextlib.redirect_stdout(out):
                exec(compile(code, "docs/tail.md", "exec"), namespace)  # noqa: S102 - our own page
    assert out.getvalue() == "".join(code for kind, code in BLOCKS if kind == "text")


@proves("CI-10", "CI-D")
def test_the_page_names_the_delimiter_and_every_body_format() -> None:
    assert "**The delimiter** is `<slop-state>`" in PAGE
    for form, media_type in MEDIA_TYPES.items():
        assert f'| `{media_type}` | `"{form}"`' in PAGE


@proves("CI-2a", "CI-4a", "CI-4b")
def test_the_page_documents_the_window_and_the_regression() -> None:
    assert f"**Freshness window: {WINDOW_S:g} seconds**" in PAGE
    assert "**Known regression: prepend-only hooks.**" in PAGE
    assert "Prefer a hook\n  that appends, and ask for one where there is none." in PAGE
