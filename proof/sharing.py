"""A ledger that several write, at times that make no sense."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial

from context.ledger import append_many
from context.ledger.helpers import turn
from proof.claim import Claim, Trial
from sightline.agent.bridge import BridgeWriter, read_bridge
from sightline.context.ledger import Ledger
from sightline.errors import InvalidInput
from sightline.slop.app.app import App
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import World
from sightline.testing import connect

WRITERS = 8
DECADE = timedelta(days=3652)


def writers(trial: Trial) -> None:
    """Let processes append to one session at once."""
    path = trial.directory("crowd") / "l.db"
    appends = trial.times(500, least=10)
    with Ledger(path) as ledger:
        session = ledger.sessions.create("crowd").id
    arguments = [sys.executable, str(append_many.__file__), str(path), str(session)]
    crowd = [
        subprocess.Popen([*arguments, f"p{name}", str(appends)], stderr=subprocess.PIPE, text=True)
        for name in range(WRITERS)
    ]
    for process in crowd:
        complaint = process.communicate()[1]
        trial.check(process.returncode == 0, f"a writer failed: {complaint[-300:]}")
    said: dict[str, list[int]] = defaultdict(list)
    with Ledger(path) as ledger:
        entries = list(ledger.messages(session))
        trial.check(ledger.verify().ok, "the ledger does not verify")
    for entry in entries:
        name, number = entry.message.text.split()
        said[name].append(int(number))
    trial.tried += len(entries)
    trial.check([entry.seq for entry in entries] == list(range(len(entries))), "seq has gaps")
    wanted = {f"p{name}": list(range(appends)) for name in range(WRITERS)}
    trial.check(dict(said) == wanted, "a writer's messages are lost or out of order")


def _do_something(trial: Trial, ledger: Ledger, session: int, number: int) -> None:
    groups = [group.id for group in ledger.groups.recent(session)]
    some = trial.random.choice(groups) if groups else 0
    try:
        match trial.random.randrange(9):
            case 0 | 1 | 2:
                ledger.append(session, turn(number, state=str(number)), strategy="s")
            case 3:
                ledger.groups.undo(session)
            case 4:
                ledger.groups.redo(session)
            case 5:
                ledger.groups.drop(session, some)
            case 6:
                ledger.groups.restore(session, some)
            case 7:
                ledger.scratchpad.append(session, f"step {number}\n")
            case _:
                ledger.states.set(session, f"### STATE\nGoal: {number}")
    except InvalidInput:
        pass  # nothing to undo, nothing dropped: as good as not asked


def _seen(ledger: Ledger, session: int) -> tuple[object, ...]:
    return (
        ledger.window(session),
        ledger.states.current(session),
        ledger.scratchpad.read(session),
        ledger.sessions.get(session),
    )


def two_writers(trial: Trial) -> None:
    """Let two open ledgers change one session in turns: both see what a newcomer sees."""
    for _ in range(trial.times(20)):
        path = trial.directory("two") / "l.db"
        with Ledger(path) as one, Ledger(path) as other:
            session = one.sessions.create("shared").id
            for number in range(50):
                writer = trial.random.choice([one, other])
                _do_something(trial, writer, session, number)
                with Ledger(path, mode="read") as fresh:
                    truth = _seen(fresh, session)
                same = _seen(one, session) == truth == _seen(other, session)
                trial.check(same, f"after step {number} the two do not see the same")
            trial.check(one.verify().ok, "the ledger does not verify")


class _Wild:
    """A clock that jumps up to ten years in either direction whenever it is asked."""

    def __init__(self, trial: Trial) -> None:
        self._random = trial.random

    def __call__(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC) + DECADE * self._random.uniform(-1, 1)


def clocks(trial: Trial) -> None:
    """Let the clock jump between any two readings: order is a number, never a time."""
    for _ in range(trial.times(20)):
        with Ledger(trial.directory("clock") / "l.db", clock=_Wild(trial)) as ledger:
            sessions = [ledger.sessions.create(name).id for name in ("one", "two")]
            said: dict[int, list[str]] = {session: [] for session in sessions}
            used: list[int] = []
            for number in range(40):
                session = trial.random.choice(sessions)
                ledger.append(session, turn(number, state=str(number)), strategy="s")
                said[session].append(f"question {number}")
                used = [session, *(other for other in sessions if other != session)]
                if trial.random.random() < 0.2:
                    ledger.groups.undo(session)
                    said[session].pop()
                shown = [e.message.text for e in ledger.window(session) if e.role == "user"]
                trial.check(shown == said[session], f"order is lost at step {number}")
                memo = ledger.memos.save(f"memo {number}", ["tag"])
                trial.check(ledger.memos.recent(1) == [memo], "the newest memo is not the latest")
            trial.check([s.id for s in ledger.sessions.recent()] == used, "sessions by the clock")
            trial.check(ledger.verify().ok, "the ledger does not verify")
    asyncio.run(_task_leaves(trial))
    _bridge_is_dropped(trial)


class _Hand:
    """A clock that shows what it was set to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def _work(app: App) -> None:
    async with app.task():
        pass


async def _task_leaves(trial: Trial) -> None:
    for jump in (DECADE, -DECADE):
        clock = _Hand()
        app = App("clock", "Clock", clock=clock, coalesce_s=0)
        app.action("/", "work")(partial(_work, app))
        async with connect(app) as client:
            await client.result("/", "work")
            await client.until(lambda client=client: _tasks(client.tree))  # type: ignore[misc]
            clock.now += jump
            app.refresh()
            trial.check(not _tasks(app.tree()), f"a task that ended stays after {jump}")
        await app.close()


def _tasks(tree: Node) -> bool:
    return any(child.children for child in tree.children if child.id == "tasks")


def _bridge_is_dropped(trial: Trial) -> None:
    for jump in (DECADE, -DECADE):
        clock = _Hand()
        with BridgeWriter(trial.directory("bridge") / "tail.json", clock=clock) as bridge:
            bridge.write(World(()))
            trial.check(read_bridge(bridge.path, clock.now).tail, "a fresh tail is not read")
            clock.now += jump
            trial.check(not read_bridge(bridge.path, clock.now).tail, f"believed after {jump}")
            bridge.write(World(()))
            trial.check(read_bridge(bridge.path, clock.now).tail, "a new tail is not read")


CLAIMS = (
    Claim("writers", "8 processes write one session: all of it there, each in order", writers),
    Claim("two", "two writers of one session: both see what a newcomer sees", two_writers),
    Claim("clock", "clock jumps of ±10 years: order holds, nothing stale is believed", clocks),
)
