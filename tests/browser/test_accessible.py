"""The page for everybody: axe-core finds nothing, in any colours, at any width, in any view."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from browser.conftest import ROOT, VIEWS, Inspector, view
from inspector.test_exchanges import agents_ledger
from support.share import WHOLE

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


def test_another_agent_s_session_keeps_nobody_out_and_says_what_other_requests_would_save(
    visit: Callable[..., Page], inspect: Callable[..., Inspector], tmp_path: Path
) -> None:
    page = visit(inspect(agents_ledger(tmp_path)).address)
    page.get_by_role("combobox", name="session").select_option("2")
    form = page.get_by_role("form", name="Change the requests")
    form.get_by_label("tools").select_option("sorted")
    changed = page.get_by_role("table", name="What would change in 1 request")
    expect(changed.get_by_role("row", name="prompt tokens")).to_contain_text("same")
    expect(page.get_by_label("How")).to_contain_text("sorted by name")
    assert "tools=sorted" in page.url
    levels = page.locator("h1, h2, h3").evaluate_all("all => all.map((h) => Number(h.tagName[1]))")
    assert levels[:2] == [1, 2]
    assert max(after - before for before, after in pairwise(levels)) <= 1
    page.evaluate(Path(AXE).read_text("utf-8"))
    for colours, width in zip(COLOURS, WIDTHS, strict=True):
        page.emulate_media(**colours)
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(FOUND) == [], (colours, width)
