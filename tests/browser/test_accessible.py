"""The page for everybody: axe-core finds nothing, in any colours, at any width, in any view."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from browser.conftest import ROOT, VIEWS, Inspector, view
from support.share import WHOLE

COLOURS: tuple[dict[str, Any], ...] = (
    {"color_scheme": "light", "forced_colors": "none"},
    {"color_scheme": "dark", "forced_colors": "none"},
    {"color_scheme": "light", "forced_colors": "active"},
)
WIDTHS = (1440, 800, 390)
PALETTE_OVER = "Trace"  # the palette is looked at over this view
AXE = ROOT / "node_modules/axe-core/axe.min.js"
# Whole parts of the page; a table or a line may be scrolled in a frame of its own.
TOO_WIDE = """() => [...document.querySelectorAll("html, header, main, aside, .view")]
    .filter((box) => box.scrollWidth > box.clientWidth + 1).map(({ className }) => className)"""
FOUND = """async () => (await axe.run()).violations.map(({ id, nodes }) =>
    `${id}: ${nodes.map(({ html }) => html).join(" ")}`)"""


@pytest.mark.parametrize("whose", ["our own", "another agent's"])
def test_no_view_is_wider_than_a_phone(
    visit: Callable[..., Page], inspector: Inspector, agents: Inspector, whose: str
) -> None:
    page = visit((inspector if whose == "our own" else agents).address)
    page.set_viewport_size({"width": min(WIDTHS), "height": 800})
    for name in VIEWS:
        view(page, name)
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
        assert page.evaluate(TOO_WIDE) == [], name


@pytest.mark.parametrize("whose", ["our own", "another agent's"])
def test_no_view_keeps_anybody_out(
    visit: Callable[..., Page], inspector: Inspector, agents: Inspector, whose: str
) -> None:
    """By default each way of looking is tried with some view, and each view in some way."""
    page = visit((inspector if whose == "our own" else agents).address)
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
        assert page.evaluate(TOO_WIDE) == [], (name, width)
        problems = page.evaluate(FOUND)
        page.keyboard.press("Escape")
        if problems:
            found[f"{name} {width} {colours}"] = problems
    assert not found, "\n".join(f"{way}: {what}" for way, what in found.items())
