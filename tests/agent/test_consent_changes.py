"""A consent covers the content that the user saw: every other content is asked about again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.consent_changes import Row, careless, read_rows, try_row

pytest.importorskip("mcp")

ROWS = read_rows()
names = [row.name for row in ROWS]


def test_the_changes_are_of_20_kinds_and_a_quarter_is_from_a_blind_author() -> None:
    assert len(set(names)) == len(names) >= 20
    assert sum(row.author == "blind" for row in ROWS) * 4 >= len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=names)
async def test_host_asks_and_shows_the_difference_when_an_agreed_thing_changes(
    row: Row, tmp_path: Path
) -> None:
    result = await try_row(row, tmp_path)
    assert result.asked
    assert result.shown.strip()
    assert not result.took_effect


@pytest.mark.parametrize("row", ROWS, ids=names)
async def test_change_takes_effect_unasked_when_the_repair_is_off(row: Row, tmp_path: Path) -> None:
    with careless():
        result = await try_row(row, tmp_path)
    assert result.took_effect
    assert not result.asked


@pytest.mark.parametrize("row", ROWS, ids=names)
async def test_host_does_not_ask_again_when_nothing_changed(row: Row, tmp_path: Path) -> None:
    result = await try_row(replace(row, after=row.before), tmp_path)
    assert result.took_effect
    assert not result.asked


async def test_host_asks_again_when_a_schema_that_is_too_long_to_be_shown_changes(
    tmp_path: Path,
) -> None:
    def tool(letter: str) -> dict[str, Any]:
        schema = {"type": "object", "description": letter * 70_000}
        return {"name": "sweep", "inputSchema": schema}

    row = Row("too long", "mcp_tool", tool("a"), tool("b"), "repair")
    result = await try_row(row, tmp_path)
    assert (result.asked, result.took_effect) == (True, False)
