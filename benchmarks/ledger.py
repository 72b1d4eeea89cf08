"""The ledger raced: a turn's cost at any length, a window against peers, verify's speed.

`python -m benchmarks.ledger [--quick]` prints the table. The peers run in an
environment of their own, `.venv-bench`, which is made on first use; without it
(no network) their rows say so. `--quick` leaves the million out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.ledger_peers import turn
from sightline.context.entries import Draft
from sightline.context.parts import Message, ToolCall, ToolResult
from sightline.context.window import Window
from sightline.ledger import Ledger

ROOT = Path(__file__).parent.parent
SIZES = {"1k": 1_000, "100k": 100_000, "1M": 1_000_000}
WINDOW = Window(50)
TURNS = 150
PEER_MESSAGES = 10_000


class Row(NamedTuple):
    """One figure. `ratio` says how many times better ours is, or what `name` says."""

    name: str
    ours: float | None
    peer: float | None
    ratio: float | None
    unit: str


def run(*, quick: bool = False) -> list[Row]:
    """Measure everything; takes about three minutes, most of it making the million."""
    sizes = {name: size for name, size in SIZES.items() if not (quick and name == "1M")}
    with ExitStack() as stack:
        ledgers = {name: stack.enter_context(filled(size)) for name, size in sizes.items()}
        rows = turn_rows(ledgers)
        rows += verify_rows(ledgers["100k"])
    with filled(PEER_MESSAGES) as ledger:
        rows += window_rows(ledger, peer_figures())
    return rows


def messages_of(number: int) -> list[Draft]:
    (_, question), (_, arguments), (_, output), (_, answer) = turn(number)
    call = ToolCall(f"c{number}", "read", json.loads(arguments))
    messages = [
        Message.of("user", question),
        Message("assistant", (call,)),
        Message("tool", (ToolResult(f"c{number}", output, "read"),)),
        Message.of("assistant", answer),
    ]
    return [Draft(message, 100) for message in messages]


@contextmanager
def filled(size: int) -> Iterator[Ledger]:
    """A ledger whose first session has so many messages."""
    with tempfile.TemporaryDirectory() as place, Ledger(Path(place) / "l.db") as ledger:
        session = ledger.sessions.create("long")
        for first in range(0, size // 4, 1000):
            numbers = range(first, min(first + 1000, size // 4))
            batch = [draft for number in numbers for draft in messages_of(number)]
            ledger.append(session.id, batch, strategy="openai")
        ledger._store.checkpoint()
        yield ledger


def turn_rows(ledgers: dict[str, Ledger]) -> list[Row]:
    """Append four messages durably and read the window; sizes in turn, so noise hits all."""
    times: dict[str, list[float]] = {name: [] for name in ledgers}
    for number in range(TURNS):
        for name, ledger in ledgers.items():
            drafts = messages_of(10_000_000 + number)
            start = time.perf_counter()
            ledger.append(1, drafts, strategy="openai", key=f"turn-{number}")
            shown = ledger.window(1, WINDOW)
            times[name].append((time.perf_counter() - start) * 1e3)
            assert len(shown) == 200
    medians = {name: statistics.median(values[5:]) for name, values in times.items()}
    base = medians["1k"]
    return [
        Row(f"one turn at {name} messages (ratio: to 1k)", value, None, value / base, "ms")
        for name, value in medians.items()
    ]


def window_rows(ledger: Ledger, peers: dict[str, dict[str, float]]) -> list[Row]:
    """Read a 50-group window of 10k messages.

    `again`: one read after another, as for the requests of a tool loop; `after a
    turn`: each after an append; `first`: by a process that has read nothing yet.
    """
    number = iter(range(10_000_000, 20_000_000))

    def again() -> float:
        return timed(lambda: ledger.window(1, WINDOW))

    def after_a_turn() -> float:
        ledger.append(1, messages_of(next(number)), strategy="openai")
        return again()

    def first() -> float:
        with Ledger(ledger.path, mode="read") as fresh:
            return timed(lambda: fresh.window(1, WINDOW))

    rows = []
    for name, measure in (("again", again), ("after a turn", after_a_turn), ("first", first)):
        measure()
        ours = statistics.median(measure() for _ in range(50))
        for peer in ("openai-agents SQLiteSession", "llm LogStore"):
            theirs = peers.get(peer, {}).get("again" if name == "first" else name)
            ratio = theirs / ours if theirs else None
            rows.append(Row(f"window of 10k, {name}, vs {peer}", ours, theirs, ratio, "ms"))
    return rows


def verify_rows(ledger: Ledger) -> list[Row]:
    """Verify the whole file: its rows against their seals, beside SQLite's own check."""
    ledger._store.checkpoint()
    megabytes = ledger.path.stat().st_size / 1e6
    connection = ledger._store._connection
    whole = min(timed(lambda: ledger.verify().raise_if_damaged()) for _ in range(5))
    before = time.thread_time()
    ledger.verify()
    rows = (time.thread_time() - before) * 1e3
    pages = min(timed(lambda: connection.execute("PRAGMA integrity_check").get) for _ in range(3))
    return [
        Row("verify, 100k messages", megabytes / whole * 1e3, None, None, "MB/s"),
        Row("  processor time for rows and seals", rows, None, None, "ms"),
        Row("  SQLite's integrity_check, beside it", pages, None, None, "ms"),
    ]


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def peer_figures() -> dict[str, dict[str, float]]:
    """Run the peers in their own environment; nothing, if it cannot be made."""
    place = ROOT / ".venv-bench"
    python = place / "bin" / "python"
    try:
        if not python.exists():
            venv.create(place, with_pip=True)
            wanted = ROOT / "benchmarks" / "peers.txt"
            subprocess.run([python, "-m", "pip", "install", "-q", "-r", wanted], check=True)
        script = ROOT / "benchmarks" / "ledger_peers.py"
        done = subprocess.run(
            [python, script, str(PEER_MESSAGES)], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the peers cannot be run: {error}", file=sys.stderr)
        return {}
    figures: dict[str, dict[str, float]] = json.loads(done.stdout)
    return figures


def main() -> None:
    rows = run(quick="--quick" in sys.argv)
    print(f"{'':<62} {'ours':>10} {'peer':>10} {'ratio':>8}")
    for row in rows:
        cells = [f"{value:.3f}" if value is not None else "" for value in row[1:4]]
        print(f"{row.name:<62} {cells[0]:>10} {cells[1]:>10} {cells[2]:>8}  {row.unit}")


if __name__ == "__main__":
    main()
