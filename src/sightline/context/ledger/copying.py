"""Copy a ledger into another, whatever engines keep the two.

Numbers and seals stay as they are, so the copy verifies as the original does. A session goes in
one transaction: a copy that ended too soon is begun again and goes on where it was. What is under
way stays where it is; nothing that the target has is overwritten by another ledger's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import msgspec

from sightline.context.ledger.memos import index_memo
from sightline.context.ledger.rows import Row, RowReader, RowWriter, scan_table
from sightline.context.ledger.schema import HELD, TABLES
from sightline.context.ledger.seal import ZERO
from sightline.context.ledger.store import Store, Watch
from sightline.errors import InvalidInput

# What a session has beside its row; not who runs a turn in it, and what is not stored yet.
_HELD: Final = tuple(n for n in HELD if n not in ("owners", "open_replies", "open_calls"))
_COLUMNS: Final = {
    table: tuple(name for name in TABLES[table].names if (table, name) != ("messages", "status"))
    for table in (*_HELD, "sessions", "llm_memos", "calibrations")
}

# A session or memo is the same as long as these are: its number, its identity, the seal over all
# that it holds, and the last of what no seal covers.
_SEALS: Final = {
    "sessions": (
        "SELECT id, uuid, digest, "
        "(SELECT max(id) FROM exchanges WHERE session_id = sessions.id) AS last FROM sessions "
        "ORDER BY id"
    ),
    "llm_memos": "SELECT id, created_at, digest FROM llm_memos ORDER BY id",
}


class CopyReport(msgspec.Struct, frozen=True):
    """How many sessions and memos were copied, and how many were there as they are."""

    copied: int
    there: int


def copy_ledger(source: Store, target: Store, watch: Watch | None = None) -> CopyReport:
    """Copy what the target lacks, as of one point in time; tell `watch` of messages copied.

    Raise `InvalidInput` if the target has sessions or memos that are not the source's.
    """
    with closing(source.reader()) as reader, reader.read() as db:
        return _Copying(db, target, watch).run()


class _Copying:
    def __init__(self, source: RowReader, target: Store, watch: Watch | None) -> None:
        self._source = source
        self._target = target
        self._watch = watch
        self._copied = self._there = 0
        self._messages = self._whole = 0

    def run(self) -> CopyReport:
        """Copy sessions one by one, then memos and what was learnt."""
        if self._watch is not None:
            [(self._whole,)] = self._source.fetch("SELECT count(*) FROM messages")
        for table, seals in _SEALS.items():
            with self._target.read() as db:
                there = {row[0]: row for row in db.fetch(seals)}
            originals = self._source.fetch(seals)
            for number, name, *_ in originals:
                if number in there and there[number][1] != name:
                    raise InvalidInput(f"{table}: number {number} is another one in the copy")
            if strange := sorted(there.keys() - {row[0] for row in originals}):
                numbers = ", ".join(map(str, strange[:5]))
                raise InvalidInput(f"{table}: the copy has others than the original: {numbers}")
            for row in originals:
                known = there.get(row[0])
                if known == row:
                    self._there += 1
                    self._pass_over(table, row[0])
                    continue
                with self._target.work(durable=True) as db:
                    self._replace(db, table, row[0], known[2] if known else ZERO)
                self._copied += 1
        with self._target.work(durable=True) as db:
            for learnt in self._rows("calibrations", "", ()):
                db.put("calibrations", learnt)
        return CopyReport(self._copied, self._there)

    def _pass_over(self, table: str, number: int) -> None:
        """Count the messages of a session that is there as done."""
        if self._watch is not None and table == "sessions":
            counted = "SELECT count(*) FROM messages WHERE session_id = ?"
            self._messages += self._source.fetch(counted, (number,))[0][0]

    def _replace(self, db: RowWriter, table: str, number: int, digest: bytes) -> None:
        """Bring one session or memo, in place of how it was when it was last copied."""
        held = _HELD if table == "sessions" else ()
        for name in held:
            db.delete(name, "session_id = ?", (number,))
        db.delete(table, "id = ?", (number,))
        [row] = self._rows(table, "WHERE id = ?", (number,))
        db.insert(table, row)
        db.move_total(add=row["digest"], take=digest)
        db.count_from(table, number)
        db.count_from("activity", row["activity"])
        if table == "llm_memos":
            for name in ("memo_words", "memo_content_words"):
                db.delete(name, "memo_id = ?", (number,))
            index_memo(db, number, row["content"], row["tags"])
        for name in held:
            highest = 0
            for one in self._rows(name, "WHERE session_id = ?", (number,)):
                db.insert(name, one)
                highest = max(highest, one.get("id") or 0)
                self._messages += name == "messages"
                if self._watch is not None:
                    self._watch(self._messages, self._whole)
            if highest:
                db.count_from(name, highest)

    def _rows(self, table: str, where: str, values: tuple[int, ...]) -> Iterator[Row]:
        return scan_table(self._source, table, _COLUMNS[table], where, values)
