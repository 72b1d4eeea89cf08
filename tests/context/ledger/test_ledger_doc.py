"""docs/ledger.md tells the truth: its code runs, its tables and figures are the real ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sightline.cli.ledger import ledger as ledger_command
from sightline.cli.main import cli
from sightline.context.dialects import STRATEGIES
from sightline.context.ledger import LedgerLimits
from sightline.context.ledger.retrieval import QueryLimits
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.connect import BUSY_TIMEOUT_MS
from sightline.context.ledger.sqlite.steps import FORMAT
from sightline.context.messages.gate import MAX_DEPTH, MAX_DIGITS

TEXT = (Path(__file__).parents[3] / "docs" / "ledger.md").read_text(encoding="utf-8")


def rows_under(heading: str) -> list[tuple[str, ...]]:
    """The cells of the table that follows a heading."""
    section = TEXT.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines[2:]]


def pairs_under(heading: str) -> dict[str, str]:
    return {row[0]: row[1] for row in rows_under(heading)}


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/ledger.md", "exec"), {})  # noqa: S102 - our own document
    assert (tmp_path / "work.db").exists()


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_documented_column_by_column(name: str) -> None:
    table = TABLES[name]
    assert rows_under(f"### `{name}`: {table.doc}") == [
        (f"`{column.name}`", column.type, column.doc) for column in table.columns
    ]


def test_no_other_table_is_documented() -> None:
    assert set(re.findall(r"^### `(\w+)`", TEXT, re.MULTILINE)) == set(TABLES)


def test_the_format_and_the_limits_are_the_real_ones() -> None:
    assert f"`user_version` = {FORMAT}," in TEXT
    assert f"up to {BUSY_TIMEOUT_MS // 1000} seconds" in TEXT
    storable = pairs_under("## What can be stored")
    assert storable["integers"] == f"exact, up to {MAX_DIGITS:,} digits"
    assert storable["nesting"] == f"up to {MAX_DEPTH} levels"
    assert storable["a message"].startswith(f"up to {LedgerLimits().message // 1024**2} MiB")
    assert storable["scratchpad, memo"] == f"up to {LedgerLimits().memo // 1024} KiB each"
    assert LedgerLimits().memo == LedgerLimits().scratchpad

    limits = QueryLimits()
    retrieval = pairs_under("## Retrieval")
    assert retrieval["rows in an answer"] == str(limits.rows)
    assert retrieval["characters in a cell"] == f"{limits.cell_chars:,}"
    assert retrieval["characters in an answer"] == f"about {limits.total_chars:,}"
    assert retrieval["time"].startswith(f"{limits.seconds:g} s,")
    assert retrieval["memory"].startswith(f"{limits.memory_mib} MiB ")
    shown = sorted(name for name, table in TABLES.items() if table.shown)
    assert re.findall(r"`(\w+)`", retrieval["tables seen"]) == shown


def test_every_command_it_names_exists_and_every_one_is_named() -> None:
    named = set(re.findall(r"`sightline ledger (\w+)", TEXT))
    assert named == set(ledger_command.commands)
    assert "ledger" in cli.list_commands(None)  # type: ignore[arg-type]  # it needs no context


def test_every_strategy_it_names_has_a_parser() -> None:
    named = re.search(r"`parsing_strategy` \((.*?)\)", TEXT, re.DOTALL)
    assert named
    assert re.findall(r"`(\w+)`", named[1]) == list(STRATEGIES)
