"""The page for everybody: axe-core finds nothing, in any colours, at any width, in any view."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from browser.conftest import ROOT, view
from support.share import WHOLE

VIEWS = (
    "Picture", "Conversation", "Changes", "Prompt", "State", "Not seen", "Trace", "What if",
    "Ledger",
)  # fmt: skip
COLOURS: tuple[dict[str, Any], ...] = (
    {"color_scheme": "light", "forced_colors": "none"},
    {"color_scheme": "dark", "forced_colors": "none"},
    {"color_scheme": "light", "forced_colors": "active"},
)
WIDTHS = (1440, 800, 390)
PALETTE_OVER = "Trace"  # the palette is looked at over this view
AXE = ROOT / "node_modules/axe-core/axe.min.js"
FOUND = """async () => (await axe.run()).violations.map(({ id, nodes }) =>
    `${id}: ${nodes.map(({ html }) => html).join(" ")}`)"""


def test_no_view_keeps_anybody_out(page: Page) -> None:
    """By default each way of looking is tried with some view, and each view in some way."""
    page.evaluate(Path(AXE).read_text("utf-8"))
    ways = list(product(COLOURS, WIDTHS))
    tries = (
        list(product(ways, VIEWS))
        if WHOLE
        else [(way, VIEWS[at % len(VIEWS)]) for at, way in enumerate(ways)]
    )
    found = {}
    for (colours, width), name in tries:
        page.emulate_media(**colours)
        page.set_viewport_size({"width": width, "height": 800})
        view(page, name)
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
        if name == PALETTE_OVER:
            page.keyboard.press("Control+k")
            expect(page.get_by_role("option", name="Conversation")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        problems = page.evaluate(FOUND)
        page.keyboard.press("Escape")
        if problems:
            found[f"{name} {width} {colours}"] = problems
    assert not found, "\n".join(f"{way}: {what}" for way, what in found.items())
