"""A ledger to damage, and who notices."""

from __future__ import annotations

from pathlib import Path

import apsw

from context.ledger.helpers import file, fill, group_ids
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.ledger.threads import Checkpoint, CheckpointKey, CheckpointWrite
from sightline.context.messages.parts import Message
from sightline.errors import SightlineError


def make_sound(path: Path, turns: int = 6) -> None:
    """Make a ledger with something in every table that is sealed."""
    with Ledger(path) as ledger:
        for name in ("one", "two"):
            session = ledger.sessions.create(name, project="/p")
            fill(ledger, session.id, turns - 1, tokens=3)
            ledger.append(session.id, [Message("assistant", (file(1),))])
            fill(ledger, session.id, 1, tokens=3, first=turns)
            groups = group_ids(ledger, session.id)
            ledger.groups.drop(session.id, groups[1])
            ledger.groups.remove(session.id, groups[2])
            ledger.accounts.record(session.id, StoredUsage("m", 10, 5, 2, 7), group_id=groups[0])
            ledger.accounts.add_receipt(session.id, {"slots": []}, prefix_digest="00")
            ledger.strategy_states.set(session.id, groups[3], {"summary": "so far"})
            ledger.scratchpad.replace(session.id, "plan")
            key = CheckpointKey(name, "", "1")
            ledger.threads.put(Checkpoint(key, "0", "k", b"b"), [])
            ledger.threads.put_writes(key, [CheckpointWrite("t", 0, "p", "c", "k", b"w")])
            ledger.groups.undo(session.id)
        ledger.memos.save("memo one", ["tag-a"])
        ledger.memos.save("memo two", ["tag-b"])
        assert ledger.verify().ok


def is_found(path: Path) -> bool:
    """Tell whether our own check notices."""
    try:
        with Ledger(path, mode="read") as ledger:
            return not ledger.verify().ok
    except SightlineError:
        return True


def sqlite_finds(path: Path) -> bool:
    """Tell whether SQLite's check notices."""
    connection = apsw.Connection(str(path))
    try:
        return bool(connection.execute("PRAGMA integrity_check").get != "ok")
    except apsw.CorruptError:
        return True
    finally:
        connection.close()
