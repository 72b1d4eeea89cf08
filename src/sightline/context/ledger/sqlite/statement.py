"""One SQL statement as text: taken apart enough to know where it ends.

`one_statement` returns a query without comments and closing semicolon, so that
it can stand in parentheses; the continuation of a result is then a query over
the query, and any answer, however long, can be read to its end.
"""

from __future__ import annotations

import re
from typing import Final

from sightline._lazy import lazy_pattern
from sightline.errors import QueryRefused

# Strings, quoted names, comments, a semicolon, or a run of anything else. Openers
# without their end match alone and are refused.
_TOKEN: Final = lazy_pattern(
    r"""
      (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] )
    | (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?P<end> ; )
    | (?P<open> ['"`\[] )
    | (?P<other> [^'"`\[;/-]+ | [/-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_BEGINS: Final = lazy_pattern(r"(?:SELECT|WITH|VALUES)\b", re.IGNORECASE)
_CELL: Final = lazy_pattern(
    r'SELECT substr\(("(?:[^"]|"")+"), (\d+)\) AS \1 FROM \((.*)\) LIMIT 1 OFFSET (\d+)', re.DOTALL
)
_ROWS: Final = lazy_pattern(r"SELECT \* FROM \((.*)\) LIMIT -1 OFFSET (\d+)", re.DOTALL)


def one_statement(sql: str, max_chars: int) -> str:
    """Return the one query in a text, bare. Raise `QueryRefused` if it is anything else."""
    if len(sql) > max_chars:
        raise QueryRefused(f"the query has {len(sql):,} characters; the limit is {max_chars:,}")
    if "\x00" in sql or any("\ud800" <= char <= "\udfff" for char in sql):
        raise QueryRefused("the query has characters that SQL cannot have")
    kept: list[str] = []
    ended = False
    for token in _TOKEN.finditer(sql):
        if token.lastgroup == "comment":
            kept.append(" ")
        elif token.lastgroup == "end":
            ended = ended or bool("".join(kept).strip())
        elif ended and token[0].strip():
            raise QueryRefused("one statement at a time, please: there is more after the ';'")
        elif token.lastgroup == "open":
            raise QueryRefused(f"the query opens a {token[0]} that nothing closes")
        else:
            kept.append(token[0])
    statement = "".join(kept).strip()
    if not _BEGINS.match(statement):
        raise QueryRefused("only a query can be run: SELECT, WITH … SELECT, or VALUES")
    return statement


def rows_after(statement: str, shown: int) -> str:
    """Write the query that goes on after the rows shown."""
    if earlier := _ROWS.fullmatch(statement):
        statement, shown = earlier[1], shown + int(earlier[2])
    return f"SELECT * FROM ({statement}) LIMIT -1 OFFSET {shown}"


def cell_after(statement: str, column: str, row: int, shown: int) -> str:
    """Write the query that goes on in one column of one row, after the characters shown."""
    start = shown + 1
    quoted = '"' + column.replace('"', '""') + '"'
    if (earlier := _CELL.fullmatch(statement)) and earlier[1] == quoted:
        statement, row, start = earlier[3], int(earlier[4]), shown + int(earlier[2])
    return f"SELECT substr({quoted}, {start}) AS {quoted} FROM ({statement}) LIMIT 1 OFFSET {row}"


def literal(text: str) -> str:
    """Quote a text for SQL that runs where nothing can be written anyway."""
    return "'" + text.replace("\0", "").replace("'", "''") + "'"
