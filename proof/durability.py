"""The ledger while its writer is killed, the power is cut, and the disk is full or failing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from context.ledger import kill_batch
from context.ledger.disk import Disk
from context.ledger.helpers import contents, file_of, turn
from context.ledger.storm import CUTS, lost, run_with_cuts
from proof.claim import Claim, Trial
from sightline.context.ledger import Ledger, StoredUsage
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.errors import LedgerUnavailable, LedgerUnusable

BATCH = 50
FAULTS = ("ENOSPC", "EIO on write", "EIO on sync", "EROFS")


def _kill(path: Path, kills: int, seed: int, *how: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, str(kill_batch.__file__), str(path), str(kills), str(seed), *how],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    summary: dict[str, Any] = json.loads(ran.stdout)
    return summary


def kill(trial: Trial) -> None:
    """Kill writers with SIGKILL at any moment, and look at the file after each."""
    lied = _kill(trial.directory("lied") / "l.db", trial.times(60, least=12), trial.seed, "early")
    trial.control(lied["lost"], f"{lied['lost']} lost by a writer that acknowledges too early")
    left, messages = trial.times(1000), 0
    while left:
        kills = min(left, BATCH)
        left -= kills
        seed = trial.random.randrange(2**32)
        summary = _kill(trial.directory("killed") / "l.db", kills, seed)
        trial.tried += summary["kills"] - 1
        held = not summary["lost"] and summary["gapless"] and summary["clean"]
        trial.check(held and summary["unacknowledged"] <= kills, f"batch {seed}: {summary}")
        messages += summary["messages"]
    trial.note("messages", f"{messages:,}")


def _losses(trial: Trial, synchronous: str, count: int) -> int:
    seed = trial.random.randrange(2**32)
    place = trial.directory("power")
    (place / "cuts").mkdir()
    disk = Disk(f"power-{synchronous}-{seed}", seed)
    try:
        cuts = run_with_cuts(disk, place / "l.db", place / "cuts", synchronous, count)
        gone = lost(cuts)
    finally:
        disk.unregister()
    if synchronous == "FULL":
        trial.tried += len(cuts) - 1
        trial.check(not gone, f"storm {seed}: {gone} acknowledged messages lost")
    return gone


def power(trial: Trial) -> None:
    """Cut the power at any write or sync; what was not synced may be gone, in any combination."""
    left = trial.times(1000)
    while left > 0:
        tried = trial.tried
        _losses(trial, "FULL", min(left, CUTS))
        left -= trial.tried - tried
    gone = sum(_losses(trial, "NORMAL", CUTS) for _ in range(trial.times(5, least=2)))
    trial.control(gone, f"{gone} lost with synchronous=NORMAL")


def _operations(ledger: Ledger, session: int, number: int) -> list[Callable[[], object]]:
    group = ledger.groups.recent(session)[0].id
    return [
        lambda: ledger.append(session, turn(number), strategy="s", key=f"k{number}"),
        lambda: ledger.append(session, turn(number, result="x" * 60_000), strategy="s"),
        lambda: ledger.sessions.create(f"s{number}"),
        lambda: ledger.sessions.clone(session),
        lambda: ledger.groups.undo(session),
        lambda: ledger.groups.remove(session, group),
        lambda: ledger.memos.save(f"memo {number}", ["tag"]),
        lambda: ledger.scratchpad.replace(session, f"plan {number}"),
        lambda: ledger.states.set(session, f"### STATE\nGoal: {number}"),
        lambda: ledger.accounts.record(session, StoredUsage("m", 10, 5, 2, 7)),
    ]


def _inject(disk: Disk, fault: str, after: int) -> None:
    """Let a fault begin after so many operations of the disk; it lasts until it is lifted."""
    waited = 0

    def operation() -> None:
        nonlocal waited
        waited += 1
        if waited <= after:
            return
        if fault == "ENOSPC":
            disk.room = 0
        disk.failing = {
            "ENOSPC": set(),
            "EIO on write": {"write"},
            "EIO on sync": {"sync"},
            "EROFS": {"open", "write", "sync"},
        }[fault]

    disk.on_operation = operation


def _lift(disk: Disk) -> None:
    disk.on_operation = lambda: None
    disk.failing = set()
    disk.room = None


def disk_trouble(trial: Trial) -> None:
    """Fail the disk at any operation: an error leaves nothing behind, and work goes on."""
    felt = 0
    for number in range(trial.times(50)):
        disk = Disk(f"trouble-{trial.seed}-{number}", trial.random.randrange(2**32))
        path = trial.directory("trouble") / "l.db"
        try:
            with Ledger(path, engine=partial(SqliteStore, vfs=disk.name)) as ledger:
                file_of(ledger)._connection.wal_autocheckpoint(trial.random.choice([5, 1000]))
                session = ledger.sessions.create("s").id
                ledger.append(session, turn(0), strategy="s")
                for step in range(1, 21):
                    felt += _one_fault(trial, ledger, disk, session, step)
                trial.check(ledger.verify().ok, f"ledger {number} does not verify")
        finally:
            disk.unregister()
        with Ledger(path) as again:
            trial.check(again.verify().ok, f"ledger {number} does not verify when opened again")
    trial.control(felt, f"{felt} faults were felt as an error")


def _one_fault(trial: Trial, ledger: Ledger, disk: Disk, session: int, step: int) -> bool:
    fault = trial.random.choice(FAULTS)
    ledger.append(session, turn(1000 + step), strategy="s")
    do = trial.random.choice(_operations(ledger, session, step))
    before = contents(ledger.path)
    _inject(disk, fault, trial.random.randrange(12))
    try:
        do()
    except (LedgerUnavailable, LedgerUnusable):
        _lift(disk)
        trial.check(contents(ledger.path) == before, f"{fault} at step {step} left something")
        do()
        return True
    finally:
        _lift(disk)
    trial.check(contents(ledger.path) != before, f"{fault} at step {step}: acknowledged, not there")
    return False


CLAIMS = (
    Claim("kill", "kill -9: nothing acknowledged is lost, no half of anything is there", kill),
    Claim("power", "power cut: nothing acknowledged is lost", power),
    Claim(
        "disk", "ENOSPC, EIO, EROFS: a clear error, nothing stored by halves, work goes on",
        disk_trouble,
    ),
)  # fmt: skip
