"""A ledger written to while the power is cut, and what each cut leaves of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from context.ledger.disk import Disk
from context.ledger.helpers import file_of
from sightline.context.ledger import Ledger
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.messages.parts import Message

APPENDS = 40
CUTS = 30


def run_with_cuts(
    disk: Disk, path: Path, cuts: Path, synchronous: str, count: int = CUTS
) -> list[tuple[Path, int]]:
    """Append to a ledger and cut the power at random operations; what was acknowledged by then."""
    taken: list[tuple[Path, int]] = []
    acknowledged = 0
    with Ledger(path, engine=partial(SqliteStore, vfs=disk.name)) as ledger:
        session = ledger.sessions.create("storm")
        store = file_of(ledger)
        connection = store._connection
        if synchronous != "FULL":
            connection.execute(f"PRAGMA synchronous = {synchronous}")
            store._synchronise = lambda level: None  # type: ignore[method-assign]  # noqa: ARG005
        connection.wal_autocheckpoint(20)

        def maybe_cut() -> None:
            if disk.random.random() < 0.08 and len(taken) < count:
                target = cuts / str(len(taken))
                target.mkdir()
                disk.cut(target)
                taken.append((target / path.name, acknowledged))

        disk.on_operation = maybe_cut
        for number in range(APPENDS):
            text = f"{number} " + "x" * disk.random.choice([10, 3000, 20_000])
            ledger.append(session.id, [Message.of("user", text)], strategy="s", key=f"k{number}")
            acknowledged = number + 1
            # What is written without waiting for the disk must not make the next append so.
            ledger.work.begin_reply(session.id, number, number, "s")
            ledger.work.note_words(session.id, text, "")
        disk.on_operation = lambda: None
    return taken


def survivors(path: Path) -> list[int]:
    """Open what the cut left; the numbers of the messages there, in order."""
    with Ledger(path) as ledger:
        report = ledger.verify()
        assert report.ok, report.findings
        sessions = ledger.sessions.recent()
        if not sessions:
            return []
        entries = ledger.window(sessions[0].id)
        return [int(entry.message.text.split()[0]) for entry in entries]


def lost(cuts: list[tuple[Path, int]]) -> int:
    """Count the acknowledged messages that are gone; what is there must be in order, gapless."""
    missing = 0
    for path, acknowledged in cuts:
        found = survivors(path)
        assert found == list(range(len(found)))
        missing += max(0, acknowledged - len(found))
    return missing
