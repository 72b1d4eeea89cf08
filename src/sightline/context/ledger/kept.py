"""The bytes of large files: in the ledger itself, or in an object store if it has one.

A file in the ledger is a row of `attachments` and is called `SESSION'S NUMBER/SHA-256`; the name
of one in an object store begins with the session's UUID. Either stands in the message, under its
seal, and says what the bytes must be.

    keep_row(db, session, data)      in the transaction of the message that names it: both or none
    fetching(db, objects, names)     the bytes as of the moment at which the messages were read
    entries_of(db, objects, rows)    messages whole

A row belongs to one session and goes with the last message there that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, Final

from sightline.context.ledger.attachments import Attachments
from sightline.context.ledger.codec import entry_of, kept_in, parts_of
from sightline.context.ledger.rows import Row, RowReader, RowWriter, marks
from sightline.context.messages.parts import Entry
from sightline.errors import LedgerDamaged

_NAME: Final = re.compile(r"[0-9]{1,18}/[0-9a-f]{64}")
_AT_ONCE: Final = 100  # files by one question; engines bound the values of a statement


def is_row(name: str) -> bool:
    """Tell whether a file of this name is in the ledger itself."""
    return _NAME.fullmatch(name) is not None


def keep_row(db: RowWriter, session_id: int, data: bytes) -> str:
    """Store bytes for a session, unless they are there, and return their name."""
    digest = sha256(data).hexdigest()
    row: Row = {"session_id": session_id, "sha256": digest, "size": len(data), "data": data}
    db.insert_once("attachments", row)
    return f"{session_id}/{digest}"


def sweep_rows(db: RowWriter, session_id: int, used: Callable[[], set[str]]) -> None:
    """Delete the files of a session that are not used; who has none is not asked which are."""
    rows = db.fetch("SELECT sha256 FROM attachments WHERE session_id = ?", (session_id,))
    if not rows:
        return
    kept = used()
    for (digest,) in rows:
        if f"{session_id}/{digest}" not in kept:
            db.delete("attachments", "session_id = ? AND sha256 = ?", (session_id, digest))


def fetching(db: RowReader, objects: Attachments, names: Iterable[str]) -> Callable[[str], bytes]:
    """Read the named files that are in the ledger; give what returns these, and any object.

    It raises `LedgerDamaged` for a file that is lost or was altered.
    """
    rows = sorted({name for name in names if is_row(name)})
    if not rows:
        return objects.get
    found = dict(_read(db, rows))

    def fetch(name: str) -> bytes:
        if not is_row(name):
            return objects.get(name)
        if name not in found:
            raise LedgerDamaged([f"attachment {name} is not in the ledger"])
        size, data = found[name]
        if size != len(data) or sha256(data).hexdigest() != name.partition("/")[2]:
            raise LedgerDamaged([f"attachment {name} in the ledger was altered"])
        return data

    return fetch


def entries_of(db: RowReader, objects: Attachments, rows: Sequence[tuple[Any, ...]]) -> list[Entry]:
    """Make entries of rows of `ENTRY_COLUMNS`, with the bytes of their files."""
    fetch = fetching(db, objects, names_in(parts_of(rows)))
    return [entry_of(row, fetch) for row in rows]


def names_in(parts: Iterable[str | None]) -> Iterator[str]:
    """Name the files that are kept apart from the messages with these parts."""
    return (name for text in parts for name in kept_in(text))


def fault(db: RowReader, objects: Attachments, name: str) -> str | None:
    """Say what is wrong with a file that is kept apart; None if it is as it was."""
    try:
        fetching(db, objects, [name])(name)
    except LedgerDamaged as error:
        return str(error)
    return None


def _read(db: RowReader, names: Iterable[str]) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Read rows by their names, which are in order: of each its size and its bytes."""
    for session, files in groupby(names, lambda name: name.partition("/")[0]):
        every = [name.partition("/")[2] for name in files]
        for start in range(0, len(every), _AT_ONCE):
            digests = every[start : start + _AT_ONCE]
            rows = db.fetch(
                "SELECT sha256, size, data FROM attachments "
                f"WHERE session_id = ? AND sha256 IN ({marks(digests)})",
                (int(session), *digests),
            )
            for digest, size, data in rows:
                yield f"{session}/{digest}", (size, data)
