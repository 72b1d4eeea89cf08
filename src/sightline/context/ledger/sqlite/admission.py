"""Admit a ledger file: the user's own, or a file with exactly the schema of a Sightline ledger.

A SQLite file can contain programs. A trigger copies each new message, and a view in the place of
a table never ends. So the schema of a file is compared with the schema that the migrations make
before the file is used.

A ledger is the user's own if its id is in the list of own ledgers, or if it is the default
ledger in a directory that no other user can write to. The list is a file in the state directory.
It has the ids of the ledgers that this user's programs made. An own ledger may have tables, views
and indexes that the user added. `verify` names them.

Any other file has no additions, and each statement has a limit (`rows.StepLimit`).
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import closing, suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import apsw

from sightline.context.ledger.paths import own_ledgers_path, user_path
from sightline.context.ledger.sqlite.rows import StepLimit, fetch
from sightline.context.ledger.sqlite.steps import FORMAT, header_of, migrate
from sightline.errors import InvalidInput, LedgerDamaged
from sightline.slop.transports.owned import open_owned, write_private

# Digest of the schema of the current format. An own ledger with this digest is not compared when it
# is opened, because the comparison takes longer than opening it. `verify` always compares.
SCHEMA: Final = "3aeaad1e85c533f8dd05700bdc5d3507bd7e7338f34ff9f5448f3895ba8c42a2"
_TEXTS: Final = """
SELECT group_concat(type || ' ' || name || ' ' || tbl_name || ' ' || sql, ';' ORDER BY type, name)
FROM sqlite_schema
"""
# Two objects with one page: a change of one overwrites the other.
_OBJECTS: Final = """
SELECT type, name, tbl_name, sql, rootpage IN (
    SELECT rootpage FROM sqlite_schema WHERE rootpage > 0 GROUP BY rootpage HAVING count(*) > 1
) FROM sqlite_schema WHERE sql NOT NULL
"""
# A table whose last number is SQLite's highest stores no further row.
_USED_UP: Final = "SELECT name FROM sqlite_sequence WHERE typeof(seq) <> 'integer' OR seq >> 53"
_ADDITION: Final = re.compile("CREATE (UNIQUE INDEX|INDEX|TABLE|VIRTUAL TABLE|VIEW) ")
_MAX_OWN: Final = 1_000
_NAME_CHARS: Final = 80

# Rows of `_OBJECTS`.
Objects: TypeAlias = frozenset[tuple[Any, ...]]


class Admission(NamedTuple):
    """A file that may be used: its format (0 if it is empty), its id and the user's additions."""

    version: int
    ledger_id: str | None
    additions: tuple[str, ...]


def admit(connection: apsw.Connection, path: Path) -> Admission:
    """Return what a file is. Set a limit for statements unless the ledger is the user's own.

    Raises LedgerUnusable if the file is not a ledger, and LedgerDamaged if it has more or less
    than a ledger.
    """
    limit = StepLimit(connection)
    state_home = os.environ.get("XDG_STATE_HOME")
    with connection:  # One snapshot: a different process may migrate the file at the same time.
        version, ledger_id = header_of(connection)
        is_own = ledger_id is not None and _is_own(ledger_id, path, state_home)
        is_usual = is_own and version == FORMAT and schema_digest(connection) == SCHEMA
        strange = {} if is_usual else compare_schema(connection, version)
    if strange and not (is_own and all(strange.values())):
        raise LedgerDamaged([f"{path}: {difference}" for difference in strange])
    if is_own or not version:
        limit.remove(connection)
    else:
        limit.extend(connection, path.stat().st_size)
    return Admission(version, ledger_id, tuple(strange))


def compare_schema(connection: apsw.Connection, version: int) -> dict[str, bool]:
    """Return the differences from the schema of a format as `strange_objects` does."""
    strange = strange_objects(connection, _schema_of(version))
    if version and all(strange.values()):
        for (table,) in fetch(connection, _USED_UP):
            strange[f"table {str(table)[:_NAME_CHARS]!r} has no numbers left"] = False
    return strange


@lru_cache(maxsize=2)
def _schema_of(version: int) -> Objects:
    with closing(apsw.Connection(":memory:")) as reference:
        migrate(reference, upto=version)
        return objects_in(reference)


def schema_digest(connection: apsw.Connection) -> str:
    """Return a digest of type, name, table and SQL of all objects."""
    return sha256(str(connection.execute(_TEXTS).get).encode()).hexdigest()


def objects_in(connection: apsw.Connection) -> Objects:
    """Return type, name, table and SQL of each object, and if it shares its page."""
    return frozenset(fetch(connection, _OBJECTS))


def strange_objects(connection: apsw.Connection, expected: Objects) -> dict[str, bool]:
    """Return the differences of a schema, and for each if it is one that a user can add."""
    names, objects = {row[:3] for row in expected}, objects_in(connection)
    strange = {}
    # Views and triggers first: they are the cause of missing tables.
    for row in sorted(objects - expected, key=repr, reverse=True):
        if row[:3] in names:
            strange[f"{_name(*row[:3])} is not as Sightline makes it"] = False
        else:
            can_add = _ADDITION.match(str(row[3])) is not None and not row[4]
            strange[f"{_name(*row[:3])} is not part of a Sightline ledger"] = can_add
    missing = names - {row[:3] for row in objects}
    return strange | {f"{_name(*row)} is missing": False for row in sorted(missing)}


def _name(kind: object, name: object, table: object) -> str:
    """Name an object in one line, even if its name has control characters."""
    shown = f"{kind} {str(name)[:_NAME_CHARS]!r}"
    return shown if name == table else f"{shown} on {str(table)[:_NAME_CHARS]}"


def remember_own(ledger_id: str) -> None:
    """Add a ledger to the list of own ledgers. Without a state directory nothing is stored."""
    path = own_ledgers_path()
    with suppress(OSError, InvalidInput), open_owned(path.parent, create=True) as directory:
        fcntl.flock(directory, fcntl.LOCK_EX)
        others = [known for known in _own_ids(path) if known != ledger_id]
        write_private(
            directory, path.name, "\n".join([*others[1 - _MAX_OWN :], ledger_id]).encode()
        )
    _is_own.cache_clear()


@lru_cache(maxsize=64)
def _is_own(ledger_id: str, path: Path, _state_home: str | None) -> bool:
    if ledger_id in _own_ids(own_ledgers_path()):
        return True
    if path.absolute() == user_path():
        with suppress(OSError, InvalidInput), open_owned(path.parent):
            remember_own(ledger_id)
            return True
    return False


def _own_ids(path: Path) -> list[str]:
    with suppress(OSError, ValueError):
        return path.read_text(encoding="ascii").split()
    return []
