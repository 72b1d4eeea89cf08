"""How a race is run, and what it reports.

Time is CPU time of this process, the best of several runs: on a machine that does
other things too, the best run is the one that was disturbed least. Both sides run
in the same process, minutes apart at most, under the same conditions: the garbage
collector is on, as in any program, and has just run when a measurement starts.

A `Row` is one race. `ratio` is how many times the peer's cost ours is; the bar is
the least ratio that the project promises.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Row", "allocated", "measure", "measure_each", "table"]

_BATCH_S = 0.02
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Row:
    """One race: a piece of work, what it costs us, and what it costs the peer, if there is one."""

    work: str
    size: int
    ours: float
    peer: float | None = None
    bar: float | None = None
    unit: Literal["s", "bytes", "tokens"] = "s"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times less than the peer's our cost is."""
        return None if self.peer is None else self.peer / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the ratio reaches the bar; None where there is no bar."""
        return None if self.bar is None or self.ratio is None else self.ratio >= self.bar

    def to_value(self) -> dict[str, Any]:
        """The row as it stands in `results.json`."""
        return {
            "work": self.work,
            "size": self.size,
            "unit": self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "ratio": self.ratio,
            "bar": self.bar,
            "met": self.met,
            "note": self.note,
        }


def measure(work: Callable[[], object], runs: int = 5) -> float:
    """Return the CPU seconds of one call, the best of several runs.

    The first call counts as a run unless it shows that the work is too short for the
    clock; then it was the warm-up, and the work is repeated within each run.
    """
    first = _seconds(work, 1)
    number = max(1, round(_BATCH_S / max(first, 1e-7)))
    if number == 1:
        return min([first, *(_seconds(work, 1) for _ in range(runs - 1))])
    return min(_seconds(work, number) for _ in range(runs)) / number


def measure_each(jobs: Iterable[Callable[[], object]]) -> float:
    """Return the CPU seconds of the quickest job; each runs once, for work that leaves a trace."""
    return min(_seconds(job, 1) for job in jobs)


def _seconds(work: Callable[[], object], number: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(number):
        work()
    return time.process_time() - start


def allocated(make: Callable[[], object]) -> int:
    """Return the bytes that are held by what `make` returns, and by nothing else."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = make()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return after - before


def table(rows: list[Row]) -> str:
    """Write rows as a Markdown table."""
    lines = [
        "| work | size | ours | peer | ratio | bar | met |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [_line(row) for row in rows]
    return "\n".join(lines)


def _line(row: Row) -> str:
    note = f" ({row.note})" if row.note else ""
    cells = [
        row.work + note,
        f"{row.size:,}",
        _quantity(row.ours, row.unit),
        "" if row.peer is None else _quantity(row.peer, row.unit),
        "" if row.ratio is None else _times(row.ratio),
        "" if row.bar is None else f"≥ {row.bar:,g}{_TIMES}",
        {True: "yes", False: "**no**", None: ""}[row.met],
    ]
    return f"| {' | '.join(cells)} |"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}{_TIMES}" if ratio >= 100 else f"{ratio:.3g}{_TIMES}"


def _quantity(amount: float, unit: str) -> str:
    if unit == "bytes":
        return f"{amount / 1e6:.3g} MB"
    if unit == "tokens":
        return f"{amount:,.0f} tokens"
    for scale, name in ((1, "s"), (1e3, "ms")):
        if amount * scale >= 1:
            return f"{amount * scale:.3g} {name}"
    return f"{amount * 1e6:.3g} µs"
