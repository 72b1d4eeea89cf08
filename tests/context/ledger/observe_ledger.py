"""Run as a program: use a ledger file in the usual ways and print each outcome as a line of JSON.

    observe_ledger.py FILE [--no-comparison]

With `--no-comparison` the file is opened without the comparison of its schema and without a limit
for statements, as before there was one. The process may have 512 MiB of memory.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from sightline.context.ledger import Ledger
from sightline.context.ledger.sqlite import connect
from sightline.context.ledger.sqlite.admission import Admission
from sightline.context.ledger.sqlite.steps import format_of
from sightline.context.messages.parts import Message
from sightline.errors import SightlineError

MARKER = "a sentence that is in no fixture"
_MEMORY = 512 * 1024**2


def admit_every_file(connection: apsw.Connection, path: Path) -> Admission:  # noqa: ARG001
    """Admit a file without a comparison."""
    version = format_of(connection)
    is_ledger = version and connection.execute("SELECT uuid FROM ledger LIMIT 1").get
    return Admission(version, is_ledger or None, ())


@contextmanager
def sqlite(path: Path) -> Iterator[apsw.Connection]:
    """Open a file with SQLite alone."""
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()


def copies(path: Path) -> int:
    """Count the cells of all tables that contain the marker."""
    with sqlite(path) as db:
        tables = "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE TABLE%'"
        return sum(
            isinstance(cell, str) and MARKER in cell
            for (table,) in db.execute(tables).fetchall()
            for row in db.execute(f'SELECT * FROM "{table}"')
            for cell in row
        )


def count(path: Path, what: str) -> list[Any]:
    """Read rows with SQLite alone."""
    with sqlite(path) as db:
        return db.execute(f"SELECT {what}").fetchall()


def steps(path: Path, ledger: Ledger) -> dict[str, Callable[[], object]]:
    """Return the uses of a ledger by name."""
    session = ledger.sessions.resolve("second").id
    first = ledger.sessions.resolve("first").id
    return {
        "append": lambda: len(
            ledger.append(
                session,
                [Message.of("user", MARKER), Message.of("assistant", "yes")],
                strategy="anthropic",
            )
        ),
        "copies": lambda: copies(path),
        "statuses": lambda: count(path, "status, count(*) FROM messages GROUP BY status"),
        "undo": lambda: ledger.groups.undo(first) is not None,
        "undone": lambda: count(
            path,
            "(SELECT count(*) FROM undone NOT INDEXED), (SELECT count(*) FROM strategy_states)",
        ),
        "search": lambda: len(ledger.search("question")),
        "memos": lambda: len(ledger.memos.recent()),
        "verify": lambda: ledger.verify().sessions,
    }


def observe(path: Path) -> Iterator[tuple[str, str]]:
    """Yield what each use of the ledger returns, or its error."""
    try:
        # Before the file is opened: a later format has no such table.
        yield "trusted", repr(count(path, "count(*) FROM trusted WHERE path > '/'"))
    except apsw.Error as error:
        yield "trusted", type(error).__name__
    try:
        ledger = Ledger(path)
    except (SightlineError, apsw.Error) as error:
        yield "open", f"{type(error).__name__}: {error}"
        return
    for name, step in steps(path, ledger).items():
        try:
            yield name, repr(step())
        except (SightlineError, apsw.Error, MemoryError) as error:
            yield name, type(error).__name__


def main() -> None:
    """Print each outcome as soon as it is known."""
    if "--no-comparison" in sys.argv:
        setattr(connect, "admit", admit_every_file)  # noqa: B010 - not an exported name
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for outcome in observe(Path(sys.argv[1])):
        sys.stdout.write(f"{json.dumps(outcome)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
