"""Run as a program: make the fixture of one format, `make_fixture.py 2 ledger-v2.db`.

A ledger of a known content is made and its rows are copied into an empty file of
the older format, whose tables and columns are what the migrations up to it made.
Run it once when a format is released; what is in tests/fixtures is never remade.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import apsw

from context.ledger.helpers import FakeClock, file, fill, group_ids
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.ledger.schema import TABLES
from sightline.context.ledger.sqlite.steps import migrate
from sightline.context.ledger.threads import Checkpoint, CheckpointKey, CheckpointWrite
from sightline.context.messages.parts import Draft, Message


def write_content(path: Path, version: int) -> None:
    with Ledger(path, clock=FakeClock()) as ledger:
        first = ledger.sessions.create("first", project="/p")
        fill(ledger, first.id, 6, tokens=10)
        ledger.groups.drop(first.id, group_ids(ledger, first.id)[1])
        ledger.groups.remove(first.id, group_ids(ledger, first.id)[0])
        ledger.scratchpad.replace(first.id, "- [ ] plan")
        second = ledger.sessions.create("second")
        ledger.append(
            second.id,
            [Message.of("user", "größer: 日本語 👩‍👩‍👧"), Message.of("assistant", "ja")],
            strategy="gemini",
            key="once",
        )
        ledger.memos.save("Ports are allocated from 4100 upwards.", ["Arch Decision", "ports"])
        ledger.memos.save("The parser must not recurse.", ["gotcha"])
        if version >= 2:
            reply = [Draft(Message.of("assistant", "more"), 3, "reported")]
            usage = StoredUsage("m-1", 100, 20, 80, 1_500_000)
            ledger.append(second.id, reply, strategy="gemini", usage=usage)
            ledger.accounts.add_receipt(second.id, {"slots": []}, prefix_digest="00ff")
            ledger.groups.undo(first.id)
        if version >= 6:
            told = StoredUsage("m-1", 1, 1, cost_nanousd=0, reported={"service_tier": "batch"})
            ledger.accounts.record(second.id, told)
        if version >= 9:
            key = CheckpointKey("second", "", "1")
            ledger.threads.put(Checkpoint(key, None, "msgpack", b"\x80"), [])
            ledger.threads.put_writes(key, [CheckpointWrite("t", 0, "", "c", "null", b"")])
        if version >= 11:
            ledger.append(second.id, [Message("assistant", (file(1),))], strategy="gemini")


def copy_rows(source: Path, target: Path, version: int) -> None:
    old = apsw.Connection(str(target))
    migrate(old, upto=version)
    old.execute("ATTACH ? AS new", (str(source),))
    for table in TABLES:
        columns = [
            str(name)
            for (_, name, *_, hidden) in old.execute(f"PRAGMA main.table_xinfo({table})").fetchall()
            if not hidden
        ]
        if columns:
            names = ", ".join(columns)
            old.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM new.{table}")
    for table in ("memo_words", "memo_content_words"):
        old.execute(f"INSERT INTO {table} SELECT * FROM new.{table}")
    old.execute("DETACH new")
    old.execute("VACUUM")
    old.close()


def main() -> None:
    version, target = int(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as place:
        write_content(Path(place) / "full.db", version)
        copy_rows(Path(place) / "full.db", target, version)


if __name__ == "__main__":
    main()
