"""How many machines it takes: measured costs, and a queueing simulation with them.

    python -m benchmarks.capacity   measure what no module publishes; writes capacity.json

Costs are CPU time, the least of many short rounds, of the database's processes and of the one that
asks. What an append, a reader and a connection cost is in `results.json`. The simulation is pure
and seeded: requests come at random (Poisson) to machines of so many cores, stand in one line for
each machine, and take exponentially distributed times, which is harder on a line than what was
measured. The disk is not in it: a durable commit waits for one flush more. `Load` is assumed, not
measured.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.harness import quantity
from benchmarks.results import Part, circumstances

__all__ = [
    "FOUND", "LOADS", "Costs", "Load", "Need", "cost_lines", "in_line", "need_lines", "needed",
]  # fmt: skip

FOUND = Path(__file__).parent / "capacity.json"
CORES = 16  # of a machine
BUSY = 0.6  # of it may be used: the rest is for vacuum, backups and the worst minute
RELAY_READERS = 20_000  # connections of one relay process, which has one core
READERS = 1_000  # of one app, all at one relay
OPERATIONS = 40_000  # simulated for each row
SEED = 7
ROUNDS, EACH = 100, 5  # the least of many short ones: others use the machine, too
DAY_S = 86_400


class Load(NamedTuple):
    """How much is to be served, and what people do: that is assumed, not measured."""

    hosts: int
    sessions: int
    connections: int
    running: float = 0.02  # of the sessions have a turn under way
    turn_s: float = 20.0
    streamed_s: float = 10.0  # of a turn words come
    changes_per_s: float = 0.2  # of an app


LOADS = (
    Load(100, 10_000, 100_000),
    Load(1_000, 100_000, 1_000_000),
    Load(10_000, 1_000_000, 10_000_000),
    Load(10_000, 1_000_000, 10_000_000, running=0.1, changes_per_s=1.0),
)


class Costs(NamedTuple):
    """Seconds of CPU, counts and bytes."""

    turn_db: float
    turn_transactions: float
    turn_bytes: float
    note_db: float
    renew_db: float
    change: float
    reader: float
    connection_bytes: float


class Need(NamedTuple):
    """What a load takes."""

    per_s: float  # transactions
    databases: int
    p50: float
    p99: float
    p99_one_less: float | None
    bytes_a_day: float
    relays: int
    memory: float
    told_p50: float
    told_p99: float


NOTES_PER_S = 5.0  # agent.host.running.NOTE_EVERY_S
RENEWALS_PER_S = 0.1  # a third of a lease


def costs(parts: Mapping[str, Part], found: Mapping[str, float]) -> Costs:
    """Put what was measured together."""
    rows = parts["connections"]
    one, many = rows.row("ws-1").ours, rows.row("ws-10000")
    return Costs(
        found["turn_db"], found["turn_transactions"], found["turn_bytes"], found["note_db"],
        found["renew_db"], one, (many.ours - one) / (many.size - 1), rows.row("ws-memory").ours,
    )  # fmt: skip


@cache
def needed(load: Load, cost: Costs) -> Need:
    """Find how many machines a load takes, and how long people wait then."""
    turns = load.sessions * load.running / load.turn_s
    notes = turns * load.streamed_s * NOTES_PER_S
    renewals = load.hosts * RENEWALS_PER_S
    per_s = turns * cost.turn_transactions + notes + renewals
    busy = turns * cost.turn_db + notes * cost.note_db + renewals * cost.renew_db
    databases = max(1, math.ceil(busy / (CORES * BUSY)))
    fewer = databases - 1
    times = sorted(answered(per_s, busy / per_s, databases, CORES))
    late = sorted(answered(per_s, busy / per_s, fewer, CORES)) if fewer else []
    apps = load.connections / READERS
    change = cost.change + READERS * cost.reader
    telling = apps * load.changes_per_s
    relays = max(math.ceil(load.connections / RELAY_READERS), math.ceil(telling * change / BUSY))
    seen = sorted(answered(telling, change, relays, 1, varies=False))
    return Need(
        per_s, databases, of(times, 0.5), of(times, 0.99), of(late, 0.99) if late else None,
        turns * cost.turn_bytes * DAY_S, relays, load.connections * cost.connection_bytes,
        of(seen, 0.5), of(seen, 0.99),
    )  # fmt: skip


def answered(
    per_s: float, mean_s: float, machines: int, cores: int, *, varies: bool = True
) -> Iterator[float]:
    """Simulate requests to so many machines alike; how long each takes, waiting included."""
    for machine in range(machines):
        chance = Random(SEED * 1_000 + machine)
        yield from in_line(
            requests(chance, per_s / machines, mean_s, OPERATIONS // machines, varies=varies), cores
        )


def requests(
    chance: Random, per_s: float, mean_s: float, count: int, *, varies: bool
) -> Iterator[tuple[float, float]]:
    """When requests come, and how long each takes."""
    now = 0.0
    for _ in range(count):
        now += chance.expovariate(per_s)
        yield now, chance.expovariate(1 / mean_s) if varies else mean_s


def in_line(arrivals: Iterable[tuple[float, float]], cores: int) -> Iterator[float]:
    """Serve in the order of arrival, each by the first core that is free."""
    free = [0.0] * cores
    for at, takes in arrivals:
        ends = max(at, free[0]) + takes
        heapq.heapreplace(free, ends)
        yield ends - at


def of(ordered: list[float], share: float) -> float:
    """The time that such a share is not longer than."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# The tables of docs/scale.md.

_SHOWN = {
    "a window of 200 messages, read by a host that did not have it": "window",
    "how far a reply is, five times a second while it comes": "note",
    "a host's lease, every ten seconds": "renew",
    "a turn with two calls, all that is asked of the database": "turn",
}


def cost_lines(parts: Mapping[str, Part]) -> list[str]:
    """What was measured."""
    about = json.loads(FOUND.read_text(encoding="utf-8"))
    found, run = about["costs"], about["run"]
    append = parts["postgres"].row("append-16").more
    lines = [
        f"{run['date']} UTC, {run['python']}, {run['system']}, {run['cores']} cores, load"
        f" {run['load']} when it began: `python -m benchmarks.capacity`; rows with a name are in"
        " [the report](../benchmarks/REPORT.md).",
        "",
        "| what | the database's CPU | the host's CPU | |",
        "| --- | ---: | ---: | --- |",
        "| an append of four messages, 3 kB, by one of sixteen writers"
        f" | {quantity(append['server_cpu'], 's')} | {quantity(append['cpu'], 's')} | `postgres` |",
    ]
    for work, name in _SHOWN.items():
        figures = " | ".join(quantity(found[f"{name}_{who}"], "s") for who in ("db", "host"))
        more = ""
        if name == "turn":
            stored = quantity(found["turn_bytes"], "bytes")
            more = f"{found['turn_transactions']:.0f} transactions, {stored} stored"
        lines.append(f"| {work} | {figures} | {more} |")
    cost, rows = costs(parts, found), parts["connections"]
    lines += [
        "",
        "| what | the app's CPU or memory | measured by |",
        "| --- | ---: | --- |",
        f"| a change, for each consumer | {quantity(cost.reader, 's')} | `connections` |",
        f"| a change, once | {quantity(cost.change, 's')} | `connections` |",
        f"| a consumer that joins | {quantity(rows.row('join-1000').ours, 's')} | `connections` |",
        f"| a connection, held | {quantity(cost.connection_bytes, 'bytes')} | `connections` |",
    ]
    return lines


def need_lines(parts: Mapping[str, Part]) -> list[str]:
    """What follows."""
    found = json.loads(FOUND.read_text(encoding="utf-8"))["costs"]
    heads = (
        "hosts", "sessions", "turns at once", "transactions a second",
        f"databases of {CORES} cores", "a transaction, p50 / p99", "p99 with one less",
        "stored a day",
    )  # fmt: skip
    more = (
        "connections", "changes a second", "relays of one core", "memory",
        "told to all, p50 / p99",
    )  # fmt: skip
    needs = [(load, needed(load, costs(parts, found))) for load in LOADS]
    return [
        *_table(heads, (_database_cells(*one) for one in needs)),
        "",
        *_table(more, (_relay_cells(*one) for one in needs)),
    ]


def _database_cells(load: Load, need: Need) -> tuple[str, ...]:
    return (
        f"{load.hosts:,}", f"{load.sessions:,}", f"{load.sessions * load.running:,.0f}",
        f"{need.per_s:,.0f}", f"{need.databases:,}",
        f"{quantity(need.p50, 's')} / {quantity(need.p99, 's')}",
        "" if need.p99_one_less is None else quantity(need.p99_one_less, "s"),
        quantity(need.bytes_a_day, "bytes"),
    )  # fmt: skip


def _relay_cells(load: Load, need: Need) -> tuple[str, ...]:
    return (
        f"{load.connections:,}", f"{load.connections / READERS * load.changes_per_s:,.0f}",
        f"{need.relays:,}", quantity(need.memory, "bytes"),
        f"{quantity(need.told_p50, 's')} / {quantity(need.told_p99, 's')}",
    )  # fmt: skip


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{' ---: |' * len(heads)}"
    for cells in rows:
        yield f"| {' | '.join(cells)} |"


# Measuring.


def main() -> int:
    """Measure, and write what was found."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from support import postgres

    if reason := postgres.lacks():
        print(reason, file=sys.stderr)
        return 1
    run = circumstances()
    with (
        postgres.server(fsync="on", synchronous_commit="on") as server,
        tempfile.TemporaryDirectory() as directory,
    ):
        os.environ["XDG_DATA_HOME"] = directory
        found = {**_ledger_costs(server), **asyncio.run(_turn_costs(server, Path(directory)))}
    FOUND.write_text(json.dumps({"run": run, "costs": found}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 0


def _ledger_costs(server: Any) -> dict[str, float]:
    from sightline.context.ledger import Ledger
    from sightline.context.ledger.history import HistoryReader
    from sightline.context.messages.parts import Draft, Message
    from sightline.context.messages.window import Window

    spoken = [Message("user", "q" * 300), *[Message("assistant", "a" * 930)] * 3]
    drafts = [Draft(message, 100) for message in spoken]
    found: dict[str, float] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        rounds = [_cpu(server, work, EACH) for _ in range(ROUNDS)]
        for who, figures in zip(("db", "host"), zip(*rounds, strict=True), strict=True):
            found[f"{name}_{who}"] = min(figures)

    with Ledger(server.url("costs")) as ledger:
        session = ledger.sessions.create("s").id

        def renew() -> None:
            with ledger._store._change(durable=False) as db:
                db.renew_lease("host", 30.0)  # type: ignore[attr-defined]

        def read_anew() -> None:
            assert len(HistoryReader(ledger._store).window(session, Window(50))) == 200

        for _ in range(50):
            ledger.append(session, drafts)
        ledger.work.begin_reply(session, ledger.groups.recent(session, 1)[0].id, 1, "openai")
        measure("note", lambda: ledger.work.note_words(session, "w" * 500, ""))
        measure("renew", renew)
        measure("window", read_anew)
    return found


async def _turn_costs(server: Any, directory: Path) -> dict[str, float]:
    import psycopg

    from agent.host.helpers import hosted, turn
    from sightline.context.messages.parts import ToolCall

    calls = [[ToolCall("c1", "describe_db", {})], [ToolCall("c2", "describe_db", {})]]
    script = [entry for _ in range(ROUNDS + 1) for entry in (*calls, "word " * 40)]
    counting = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'ledgers'"
    rounds: list[tuple[float, float]] = []
    with psycopg.connect(server.dsn("postgres", "postgres"), autocommit=True) as admin:

        def transactions() -> int:
            # PostgreSQL, cumulative statistics: a backend tells them once a second, or at its end.
            [(count,)] = admin.execute(counting).fetchall()
            return int(count)

        async with hosted(directory, script, url=server.url("turns")) as (host, _):
            await turn(host, "q" * 300)
            await asyncio.sleep(1.5)
            began, size = transactions(), host.ledger.size()
            for _ in range(ROUNDS):
                before = _spent(server)
                await turn(host, "q" * 300)
                db, ours = (now - then for now, then in zip(_spent(server), before, strict=True))
                rounds.append((db, ours))
            size = host.ledger.size() - size
        await asyncio.sleep(1.5)
        count = transactions() - began
    db, ours = (min(figures) for figures in zip(*rounds, strict=True))
    return {
        "turn_db": db,
        "turn_host": ours,
        "turn_transactions": count / ROUNDS,
        "turn_bytes": size / ROUNDS,
    }


def _cpu(server: Any, work: Callable[[], object], count: int) -> tuple[float, float]:
    """What one round costs the server and this process, for each time."""
    before = _spent(server)
    for _ in range(count):
        work()
    db, ours = (now - then for now, then in zip(_spent(server), before, strict=True))
    return db / count, ours / count


def _spent(server: Any) -> tuple[float, float]:
    """The CPU time of the server's processes and of this one."""
    from support.postgres import _children

    pid = server._process.pid
    total = 0
    for one in (pid, *_children(pid)):
        with suppress(OSError):  # it has ended
            # Linux, sched-stats: nanoseconds on a processor.
            total += int(Path(f"/proc/{one}/schedstat").read_text().split()[0])
    return total / 1e9, time.process_time()


if __name__ == "__main__":
    sys.exit(main())
