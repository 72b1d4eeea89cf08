"""The ledger in PostgreSQL: durable appends by many writers, beside the bare call that they make.

    python -m benchmarks --only postgres

A server of its own, with fsync on, on this machine: clients and server share its processors.
Writers are processes; an append is four messages, 3.1 kB in all. The bare call sends the same
statement by psycopg with values that were made before. A quick run leaves the peers out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

from benchmarks.harness import LeftOut, Row
from benchmarks.peers import run_peer
from benchmarks.postgres_peers import TURN, WRITERS, by_writers
from sightline.context.ledger import Ledger
from sightline.context.ledger.history import HistoryReader
from sightline.context.ledger.paths import address_of
from sightline.context.ledger.work import Owner
from sightline.context.messages.given import message_given
from sightline.context.messages.parts import Draft
from sightline.context.messages.window import Window

sys.path.append(str(Path(__file__).parent.parent / "tests"))  # the server that the tests start

if TYPE_CHECKING:
    from support.postgres import Server

APPENDS = 200  # by each writer
ROUNDS = 4
WINDOW = Window(50)
READS = 60
SETTINGS = {"fsync": "on", "synchronous_commit": "on", "max_connections": "60"}
WARM_UP = 3  # appends; from then on an append is one trip
PACE, SHARED_PACE, SLOW_S, MEDIAN_S = 2500, 500, 0.025, 0.001

Work = Callable[[int], Iterator[object]]
Round = dict[str, dict[str, float]]


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; two minutes, most of them for the peers."""
    from support import postgres

    if reason := postgres.lacks():
        raise LeftOut(reason)
    each, rounds = (APPENDS // 10, 1) if quick else (APPENDS, ROUNDS)
    with postgres.server(**SETTINGS) as server:
        found = [race(server, each, peers=not quick) for _ in range(rounds)]
        rows = append_rows(found, each, statements(server, each))
        if not quick:
            rows += peer_rows(found, each)
        return [*rows, *window_rows(server)]


def drafts() -> list[Draft]:
    """One turn, as the peers append it."""
    return [Draft(message_given({"role": role, "content": text}), 100) for role, text in TURN]


def race(server: Server, each: int, *, peers: bool) -> Round:
    """Let sixteen writers of each kind append, one kind after the other; what each came to.

    Some rounds of it, and of each kind the best, so that what else the machine does hits nobody
    more than others.
    """

    def many(name: str) -> dict[str, float]:
        url = server.url(uuid4().hex)
        with Ledger(url) as ledger:
            sessions = [ledger.sessions.create(f"{number}").id for number in range(WRITERS)]
        kinds: dict[str, Work] = {
            "own": lambda number: appends(url, sessions[number], each),
            "bare": lambda _: bare_calls(server.url(uuid4().hex), each),
            "one": lambda number: appends(url, sessions[0], each // 4, f"{number}-"),
            "alone": lambda number: appends(url, sessions[number], each),
        }
        before = server.processor_time()
        found = by_writers(kinds[name], 1 if name == "alone" else WRITERS)
        return {**found, "server_cpu": (server.processor_time() - before) / found["steps"]}

    found = {name: many(name) for name in ("own", "bare", "one", "alone")}
    if peers:
        found |= run_peer("postgres_peers.py", peers_dsn(server), str(each)) or {}
    return found


def peers_dsn(server: Server) -> str:
    """Name a database of the peers' own, for the role that we are ourselves.

    Ours has a table of the same name as one of theirs.
    """
    from psycopg import connect, errors

    with (
        suppress(errors.DuplicateDatabase),
        connect(server.dsn("postgres", "postgres"), autocommit=True) as connection,
    ):
        connection.execute("CREATE DATABASE peers OWNER sightline")
    return server.dsn("sightline", "peers")


def best(found: Sequence[Round], name: str) -> dict[str, float]:
    """Give the quickest of some rounds."""
    return max((each[name] for each in found), key=lambda one: one["per_s"])


def append_rows(found: Sequence[Round], each: int, asked: float) -> list[Row]:
    """Compare with the bare call and with what was promised."""
    own, bare, one, alone = (best(found, name) for name in ("own", "bare", "one", "alone"))
    return [
        Row("append-16", "an append, 16 writers, a session each, vs the bare call", each,
            1 / own["per_s"], 1 / bare["per_s"], 0.6, note=f"{own['per_s']:,.0f} a second",
            more=own),
        Row("append-16-pace", f"the same, vs {PACE:,} a second", each, 1 / own["per_s"], 1 / PACE,
            1.0),
        Row("append-16-p99", "its 99th percentile, vs 25 ms", each, own["p99"], SLOW_S, 1.0),
        Row("append-16-cpu", "processor time of an append, client's alone, vs the bare call's",
            each, own["cpu"], bare["cpu"], 0.4),
        Row("append-16-statements", "statements of an append, vs one", each, asked, 1, 0.95,
            unit="statements"),
        Row("append-16-one", f"16 writers in one session, vs {SHARED_PACE} a second", each // 4,
            1 / one["per_s"], 1 / SHARED_PACE, 1.0, note=f"{one['per_s']:,.0f} a second"),
        Row("append-1-p50", "one writer, the median, vs 1 ms", each, alone["p50"], MEDIAN_S, 1.0),
    ]  # fmt: skip


def peer_rows(found: Sequence[Round], each: int) -> list[Row]:
    """The same turn by others, 16 writers each."""
    rows = (
        ("openai-agents", "vs SQLAlchemySession.add_items of openai-agents", 3.0),
        ("langgraph", "vs PostgresSaver.put of LangGraph, no history", 1.0),
        ("langgraph-200", "vs the same with 200 messages of history", 3.0),
    )
    own = 1 / best(found, "own")["per_s"]
    return [
        Row(f"append-vs-{name}", f"an append, 16 writers, {work}", each, own,
            1 / best(found, name)["per_s"] if name in found[0] else None, bar)
        for name, work, bar in rows
    ]  # fmt: skip


def window_rows(server: Server) -> list[Row]:
    """Read a window of 50 groups from both engines in turn, by the clock."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        places = {"postgres": server.url(uuid4().hex), "file": str(Path(directory) / "l.db")}
        ledgers, sessions = {}, {}
        for name, address in places.items():
            ledgers[name] = stack.enter_context(Ledger(address))
            sessions[name] = ledgers[name].sessions.create("s").id
            for _ in range(WINDOW.size):
                ledgers[name].append(sessions[name], drafts())

        def read(ledger: Ledger | HistoryReader, name: str) -> float:
            start = time.perf_counter()
            found = ledger.window(sessions[name], WINDOW)
            taken = time.perf_counter() - start
            assert len(found) == WINDOW.size * len(TURN)
            return taken

        def cold(name: str) -> float:
            return read(HistoryReader(ledgers[name]._store), name)

        def opened(name: str) -> float:
            with Ledger(places[name], mode="read") as fresh:
                fresh.sessions.get(sessions[name])  # connected; nothing of the window is known
                return read(fresh, name)

        def quickest(kind: Callable[[str], float]) -> dict[str, float]:
            pairs = [{name: kind(name) for name in places} for _ in range(READS)]
            return {name: min(pair[name] for pair in pairs) for name in places}

        first, new = quickest(cold), quickest(opened)
        again = quickest(lambda name: read(ledgers[name], name))
        owner = Owner(ledgers["postgres"].work)
        owner.claim(sessions["postgres"])
        ledgers["postgres"].append(sessions["postgres"], drafts())
        held = quickest(lambda name: read(ledgers[name], name))
        owner.close()
    return [
        Row("window-cold", "a window of 200 messages by who did not have it, vs a file's", 200,
            first["postgres"], first["file"], 0.5),
        Row("window-opened", "the same by who just connected, vs a file's", 200,
            new["postgres"], new["file"]),
        Row("window-again", "the same once more, one trip, vs a file's", 200,
            again["postgres"], again["file"]),
        Row("window-held", "the same while the session is its own, no trip, vs a file's", 200,
            held["postgres"], held["file"]),
    ]  # fmt: skip


def appends(url: str, session: int, count: int, name: str = "") -> Iterator[None]:
    """Append to a session, one more with each step; the first brings it under way."""
    turn = drafts()
    with Ledger(url) as ledger:
        for number in range(WARM_UP):
            ledger.append(session, turn, key=f"{name}warm-{number}")
        yield
        for number in range(count):
            ledger.append(session, turn, key=f"{name}{number}")
            yield


def bare_calls(url: str, count: int) -> Iterator[None]:
    """Make the calls that appends would make, with values that were there before."""
    from psycopg import RawCursor

    from sightline.context.ledger.postgres.appends import CALL, AppendWriter
    from sightline.context.ledger.postgres.connect import connect
    from sightline.context.ledger.postgres.rows import Tip

    kept: list[Any] = []

    def keep(writer: AppendWriter, tip: Tip) -> None:
        # psycopg takes a tuple for a row, a list for an array.
        values = writer._values(tip)
        kept.append([list(value) if isinstance(value, tuple) else value for value in values])

    with Ledger(url) as ledger:
        session = ledger.sessions.create("s").id
        for number in range(WARM_UP):
            ledger.append(session, drafts(), key=f"warm-{number}")
        with patch.object(AppendWriter, "_call", keep):
            for number in range(count):
                ledger.append(session, drafts(), key=f"{number}")
    with connect(address_of(url)) as connection, RawCursor(connection) as cursor:
        yield
        for values in kept:
            assert cursor.execute(CALL.sql, values).fetchone() == (True,)
            yield


def statements(server: Server, count: int) -> float:
    """Count what a writer sends for an append that is under way."""
    url, asked = server.url(uuid4().hex), 0
    with Ledger(url) as ledger:
        session = ledger.sessions.create("s").id
        connection: Any = ledger._store._connected()  # type: ignore[attr-defined]
        wait = connection.wait

        def counted(*args: Any, **named: Any) -> Any:
            nonlocal asked
            asked += 1
            return wait(*args, **named)

        for number in range(-WARM_UP, count):
            if number == 0:
                connection.wait = counted
            ledger.append(session, drafts(), key=f"{number}")
        del connection.wait
    return asked / count
