"""`query_db`: let a model look things up in its own past, with SQL it wrote itself.

Answers are short. Where rows or characters are left out, a hint gives the query
that continues there, and following the hints leads to the end of any answer. Where
the SQL runs, and what keeps it from doing anything else, is the engine's.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sightline.context.ledger.schema import TABLES

EXCERPT_CHARS: Final = 160


class QueryLimits(msgspec.Struct, frozen=True):
    """How much a query may cost and how much of its answer comes back at once."""

    rows: int = 50
    cell_chars: int = 4000
    total_chars: int = 16_000
    seconds: float = 2.0
    memory_mib: int = 64
    sql_chars: int = 20_000


class QueryResult(msgspec.Struct, frozen=True):
    """Rows of an answer, and `hints`: how to go on where something was left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    hints: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Write each row as one JSON object."""
        names = _distinct(self.columns)
        return [
            msgspec.json.encode(dict(zip(names, map(_plain, row), strict=True))).decode()
            for row in self.rows
        ]

    def text(self) -> str:
        """Write the answer for a model: one JSON object for each row, then the hints."""
        return "\n".join([*(self.lines() or ["(no rows)"]), *self.hints])


class SearchHit(msgspec.Struct, frozen=True):
    """A message that has the words that were looked for, and what stands around them."""

    id: int
    session_id: int
    group_id: int
    role: str
    created_at: str
    excerpt: str


def excerpt(content: str, text: str, chars: int = EXCERPT_CHARS) -> str:
    """Cut one line out of a message, around the first word of a text that is found in it."""
    line = " ".join(content.split())
    folded = line.casefold()
    at = [start for word in text.casefold().split() if (start := folded.find(word)) >= 0]
    start = max(0, min(at, default=0) - chars // 3)
    cut = line[start : start + chars]
    return f"{'…' if start else ''}{cut}{'…' if start + chars < len(line) else ''}"


def describe() -> str:
    """Describe to a model what it can query, and how."""
    lines = ["Tables of this conversation's database, for query_db(sql):", ""]
    for name, table in TABLES.items():
        if table.shown:
            lines.append(f"{name}: {table.doc}")
            docs = {column.name: column for column in table.columns}
            lines += [
                f"  {column} {docs[column].type}: {docs[column].doc}" for column in table.readable
            ]
    # std::slop, context management §5, guidelines: newest first, nothing that was dropped.
    limits = QueryLimits()
    lines += [
        "",
        "One SELECT at a time, read only. You see this session's rows (llm_memos: all memos);",
        "dropped messages are not there. Use ORDER BY id DESC to see the newest first.",
        f"An answer has up to {limits.rows} rows and {limits.cell_chars:,} characters in a cell;",
        "where something is left out, a hint gives the query that continues.",
        "Example: SELECT id, role, content FROM messages",
        "         WHERE content LIKE '%refactor plan%' ORDER BY id DESC LIMIT 5",
    ]
    return "\n".join(lines)


def _plain(cell: Any) -> Any:
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    return cell


def _distinct(columns: tuple[str, ...]) -> list[str]:
    """Give columns of the same name numbers, so that none hides another."""
    return [
        name if columns.count(name) == 1 else f"{name}:{columns[: index + 1].count(name)}"
        for index, name in enumerate(columns)
    ]
