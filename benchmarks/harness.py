"""How a race is run, and what it reports.

Time is CPU time of this process, the best of several runs: on a machine that does
other things too, the best run is the one that was disturbed least. Both sides run
in the same process, minutes apart at most, under the same conditions: the garbage
collector is on, as in any program, and has just run when a measurement starts.

A `Row` is one race. `ratio` is how many times the peer's cost ours is; the bar is
the least ratio that the project promises. Its slug names it for ever: documents
quote figures by it, so a slug is never given to another race.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "LeftOut", "Row", "Unit", "allocated", "measure", "measure_each", "quantity", "table", "times",
]  # fmt: skip

Unit = Literal["s", "bytes", "tokens", "statements"]

_BATCH_S = 0.02
_TIMES = "\N{MULTIPLICATION SIGN}"


class LeftOut(Exception):
    """A module cannot be measured here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One race: a piece of work, what it costs us, and what it costs the peer, if there is one.

    `more` has further figures of the same race, by name.
    """

    slug: str
    work: str
    size: int
    ours: float
    peer: float | None = None
    bar: float | None = None
    unit: Unit = "s"
    note: str = ""
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How many times less than the peer's our cost is."""
        return None if self.peer is None else self.peer / self.ours

    @property
    def met(self) -> bool | None:
        """Whether the ratio reaches the bar; None where there is no bar.

        Where the peer could not be run, the bar is not met: nobody has seen it reached.
        """
        return None if self.bar is None else self.ratio is not None and self.ratio >= self.bar

    def to_value(self) -> dict[str, Any]:
        """The row as it stands in `results.json`."""
        return {
            "slug": self.slug,
            "work": self.work,
            "size": self.size,
            "unit": self.unit,
            "ours": self.ours,
            "peer": self.peer,
            "ratio": self.ratio,
            "bar": self.bar,
            "met": self.met,
            "note": self.note,
            "more": dict(self.more),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Row:
        """Read a row from `results.json`."""
        return cls(**{name: value[name] for name in value if name not in ("ratio", "met")})


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
        quantity(row.ours, row.unit),
        "" if row.peer is None else quantity(row.peer, row.unit),
        "" if row.ratio is None else times(row.ratio),
        "" if row.bar is None else f"≥ {times(row.bar)}",
        {True: "yes", False: "**no**", None: ""}[row.met],
    ]
    return f"| {' | '.join(cells)} |"


def times(ratio: float) -> str:
    """Write a ratio as the tables show it."""
    return f"{ratio:,.0f}{_TIMES}" if ratio >= 100 else f"{ratio:.3g}{_TIMES}"


def quantity(amount: float, unit: str) -> str:
    """Write an amount as the tables show it."""
    if unit == "bytes":
        for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
            if amount >= size:
                return f"{amount / size:.3g} {name}"
        return f"{amount / 1e3:.3g} kB"
    if unit == "tokens":
        return f"{amount:,.0f} tokens"
    if unit == "statements":
        return f"{amount:.3g}"
    if amount >= 1000:
        return f"{amount:,.0f} s"
    for scale, name in ((1, "s"), (1e3, "ms")):
        if amount * scale >= 1:
            return f"{amount * scale:.3g} {name}"
    return f"{amount * 1e6:.3g} µs"
