"""The pictures of the inspector in README.md and docs, taken of a session that is recorded anew.

PYTHONPATH=tests:. python -m browser.pictures     takes them, light and dark
"""

from __future__ import annotations

import asyncio
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from browser.conftest import FLAGS, ROOT, Inspector, chromium
from browser.eventful import OTHER_WAY, happen

PICTURES = ROOT / "docs" / "pictures"
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZE = (1280, 800)
MOST_BYTES = 200_000
# What the pictures show, by role and name.
PARTS: tuple[tuple[Literal["listbox", "region", "article", "group", "table", "img"], str], ...] = (
    ("region", "The session"),
    ("img", "Tokens, cache and cost"),
    ("listbox", "Turns"),
    ("article", "outcome"),
    ("article", "cache"),
    ("article", "cost"),
    ("article", "changed"),
    ("group", "The context window, in prompt order"),
    ("table", "Slots in prompt order"),
)


def picture_of(colours: str) -> Path:
    """Where the picture in these colours is."""
    return PICTURES / f"inspector-{colours}.png"


def show(page: Page) -> None:
    """Go to what is pictured, and see that every part of it is there."""
    page.set_viewport_size({"width": SIZE[0], "height": SIZE[1]})
    row = page.get_by_role("listbox", name="Turns").get_by_role("option").nth(OTHER_WAY - 1)
    row.click()
    expect(row).to_have_attribute("aria-selected", "true")
    for role, name in PARTS:
        expect(page.get_by_role(role, name=name).first).to_be_in_viewport()


def main() -> None:
    """Record a session, and take its picture in all colours."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(happen(Path(directory), hostile=""))
        inspector = Inspector(Path(directory) / "work.db")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
            for colours in COLOURS:
                page = browser.new_page(color_scheme=colours)
                page.goto(inspector.address)
                show(page)
                whole = Image.open(BytesIO(page.screenshot()))
                whole.convert("RGB").quantize(128).save(picture_of(colours), optimize=True)
            browser.close()
        inspector.stop()


if __name__ == "__main__":
    main()
