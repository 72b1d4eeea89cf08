"""Run a notebook as its kernel would, without one: cells in order, in one loop, with `await`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.page import run_code


def code_cells(path: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str:
    """What a cell printed when the notebook was saved."""
    return "".join("".join(output["text"]) for output in cell["outputs"])


async def executed(path: Path) -> AsyncIterator[tuple[dict[str, Any], str]]:
    """Run each cell; give it with what it prints now."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in code_cells(path):
        yield cell, await run_code("".join(cell["source"]), path.name, names)
