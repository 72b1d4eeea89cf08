"""The table of docs/mcp.md: what each way in costs in tokens over fifty turns, counted again."""

from __future__ import annotations

from pathlib import Path

from proof.costs import standing, table

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"


async def test_the_page_says_what_fifty_turns_cost() -> None:
    written = "\n".join(table(await standing()))
    assert written in PAGE.read_text("utf-8"), f"run: python -m proof.costs\n{written}"
