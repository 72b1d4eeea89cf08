"""The ledger raced: a turn's cost at any length, a window against peers, verify's speed.

    python -m benchmarks --only ledger

A quick run leaves the peers and the million out.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.ledger_peers import turn
from benchmarks.peers import run_peer
from sightline.context.ledger import Ledger
from sightline.context.ledger.sqlite.store import SqliteStore
from sightline.context.messages.parts import Draft, Message, ToolCall, ToolResult
from sightline.context.messages.window import Window

SIZES = (1_000, 100_000, 1_000_000)
WINDOW = Window(50)
TURNS = 150
PEER_MESSAGES = 10_000


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; takes about three minutes, most of it making the million."""
    with ExitStack() as stack:
        sizes = SIZES[:-1] if quick else SIZES
        ledgers = {size: stack.enter_context(filled(size)) for size in sizes}
        rows = turn_rows(ledgers)
        rows += verify_rows(ledgers[100_000], "short", "short messages")
    with filled(20_000, output_lines=250) as ledger:
        rows += verify_rows(ledger, "outputs", "tool outputs of 6 kB")
    with filled(PEER_MESSAGES) as ledger:
        peers = None if quick else run_peer("ledger_peers.py", str(PEER_MESSAGES))
        rows += window_rows(ledger, peers or {})
    return rows


def messages_of(number: int, *, output_lines: int = 0) -> list[Draft]:
    (_, question), (_, arguments), (_, output), (_, answer) = turn(number)
    output += f"{number} more: return x + 1\n" * output_lines
    call = ToolCall(f"c{number}", "read", json.loads(arguments))
    messages = [
        Message.of("user", question),
        Message("assistant", (call,)),
        Message("tool", (ToolResult(f"c{number}", output, "read"),)),
        Message.of("assistant", answer),
    ]
    return [Draft(message, 100) for message in messages]


@contextmanager
def filled(size: int, *, output_lines: int = 0) -> Iterator[Ledger]:
    """A ledger whose first session has so many messages."""
    with tempfile.TemporaryDirectory() as place, Ledger(Path(place) / "l.db") as ledger:
        session = ledger.sessions.create("long")
        for first in range(0, size // 4, 1000):
            numbers = range(first, min(first + 1000, size // 4))
            turns = (messages_of(number, output_lines=output_lines) for number in numbers)
            batch = [draft for messages in turns for draft in messages]
            ledger.append(session.id, batch, strategy="openai")
        ledger._store.scrub()
        yield ledger


def turn_rows(ledgers: dict[int, Ledger]) -> list[Row]:
    """Append four messages durably and read the window; sizes in turn, so noise hits all."""
    times: dict[int, list[float]] = {size: [] for size in ledgers}
    for number in range(TURNS):
        for size, ledger in ledgers.items():
            drafts = messages_of(10_000_000 + number)
            start = time.perf_counter()
            ledger.append(1, drafts, strategy="openai", key=f"turn-{number}")
            shown = ledger.window(1, WINDOW)
            times[size].append(time.perf_counter() - start)
            assert len(shown) == 200
    medians = {size: statistics.median(values[5:]) for size, values in times.items()}
    return [
        Row(
            f"turn-{size}",
            "a turn: 4 messages stored durably, 50 groups read",
            size,
            ours,
            peer=medians[SIZES[0]],
            bar=1 / 1.5,
            note="the peer is a ledger of 1,000",
        )
        for size, ours in medians.items()
    ]


def window_rows(ledger: Ledger, peers: dict[str, dict[str, float]]) -> list[Row]:
    """Read a 50-group window.

    `again`: one read after another, as for the requests of a tool loop; `after a
    turn`: each after an append; `first`: by a store that was just opened, once for a
    process. A bar is on what every turn pays; README.md has the floor of the first.
    """
    number = iter(range(10_000_000, 20_000_000))

    def again() -> float:
        return processor_time(lambda: ledger.window(1, WINDOW))

    def after_a_turn() -> float:
        ledger.append(1, messages_of(next(number)), strategy="openai")
        return again()

    def first() -> float:
        with Ledger(ledger.path, mode="read") as fresh:
            return processor_time(lambda: fresh.window(1, WINDOW))

    rows = []
    for name, measure in (("again", again), ("after a turn", after_a_turn), ("first", first)):
        measure()
        ours = min(measure() for _ in range(50))
        for peer in ("openai-agents SQLiteSession", "llm LogStore"):
            theirs = peers.get(peer, {}).get(name)
            bar = None if name == "first" and "openai" in peer else 10.0
            slug = f"window-{name.split()[0]}-{peer.split()[0].removeprefix('openai-')}"
            work = f"window of 50 groups, {name}, vs {peer}"
            rows.append(Row(slug, work, PEER_MESSAGES, ours, theirs, bar))
    return rows


def verify_rows(ledger: Ledger, slug: str, what: str) -> list[Row]:
    """Verify the whole file: its rows against their seals, beside SQLite's own check.

    The bar is on the longer of the two, in processor time of its thread; that is what
    the clock shows where each has a core to itself.
    """
    ledger._store.scrub()
    megabytes = ledger.path.stat().st_size / 1e6
    assert isinstance(ledger._store, SqliteStore)
    connection = ledger._store._connection
    count = ledger.verify().messages

    def pages() -> object:
        return connection.execute("PRAGMA integrity_check").get

    clock = min(timed(lambda: ledger.verify().raise_if_damaged()) for _ in range(7))
    rows = min(timed(ledger.verify, time.thread_time) for _ in range(7))
    beside = min(timed(pages, time.thread_time) for _ in range(3))
    whole = max(rows, beside)
    pace = megabytes / whole
    note = f"{megabytes:.0f} MB, {pace:.0f} MB/s; the peer is 100 MB/s"
    more = {"mb_per_s": pace}
    by_clock = {"mb_per_s": megabytes / clock}
    slug = f"verify-{slug}"
    return [
        Row(slug, f"verify, {what}", count, whole, megabytes / 100, 1.0, note=note, more=more),
        Row(f"{slug}-pages", "of it SQLite's integrity_check, beside the rows", count, beside),
        Row(
            f"{slug}-clock", "by the clock, with whatever else the machine did", count, clock,
            note=f"{megabytes / clock:.0f} MB/s", more=by_clock,
        ),
    ]  # fmt: skip


def timed(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def processor_time(work: Callable[[], object]) -> float:
    return timed(work, time.process_time)
