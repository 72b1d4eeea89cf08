"""Compare our side of the README's headline table between two trees of this project.

    python -m benchmarks --headline OTHER_TREE

Each tree gets one process with its own sources and its own benchmarks. The two processes measure
in turns, five times each, so that both meet the same machine. No peer runs. A row's ratio is the
median of its five ratios, this tree over the other. The command exits with 1 if a ratio exceeds
1.15. It takes at most 20 minutes on two cores.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Raw

from benchmarks.harness import measure, measure_each, quantity, times

__all__ = ["WORST", "compare", "worse"]

Job = Callable[[], float]
Figures = dict[str, list[float]]
HERE = Path(__file__).parent.parent
ROUNDS = 5
WORST = 1.15


def compare(other: Path) -> int:
    """Measure both trees and print the table. Exits with 1 if a row is worse than the bar."""
    if not (other / "src" / "sightline").is_dir():
        print(f"{other}: not a tree of this project (it has no src/sightline)", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        trees = [stack.enter_context(_measuring(tree)) for tree in (HERE, other.resolve())]
        measured: tuple[list[dict[str, float]], ...] = ([], [])
        for number in range(ROUNDS):
            # The tree that begins changes with each round.
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                measured[side].append(_figures(trees[side]))
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    now, before = ({row: [one[row] for one in side] for row in side[0]} for side in measured)
    print(table(now, before))
    if bad := worse(now, before):
        print(f"worse than {WORST} times before: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


def ratios(now: Figures, before: Figures) -> dict[str, float]:
    """Return the median ratio of each row, this tree over the other."""
    return {
        row: statistics.median(a / b for a, b in zip(now[row], before[row], strict=True))
        for row in now
    }


def worse(now: Figures, before: Figures) -> list[str]:
    """Return the rows that cost more than the bar allows."""
    return [row for row, ratio in ratios(now, before).items() if ratio > WORST]


def table(now: Figures, before: Figures) -> str:
    """Return the comparison as a Markdown table."""
    lines = ["| work | this tree | other tree | ratio |", "| --- | ---: | ---: | ---: |"]
    lines += [
        f"| {row} | {quantity(statistics.median(now[row]), 's')} "
        f"| {quantity(statistics.median(before[row]), 's')} | {times(ratio)} |"
        for row, ratio in ratios(now, before).items()
    ]
    return "\n".join(lines)


def _measuring(tree: Path) -> subprocess.Popen[str]:
    """Start the process that measures a tree whenever it reads a line."""
    own = tree / "benchmarks" / "headline.py"
    path = os.pathsep.join(str(tree / name) for name in ("src", ".", "tests"))
    return subprocess.Popen(
        [sys.executable, str(own if own.exists() else __file__)],
        cwd=tree, env={**os.environ, "PYTHONPATH": path}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def _figures(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("measure\n")
    process.stdin.flush()
    if not (line := process.stdout.readline()):
        raise RuntimeError(f"the measuring process ended with code {process.wait()}")
    figures: dict[str, float] = json.loads(line)
    return figures


def _own(module: str) -> Any:
    """Return a benchmark module of the measured tree. PYTHONPATH decides which tree that is."""
    return importlib.import_module(f"benchmarks.{module}")


def jobs(stack: ExitStack) -> dict[str, Job]:
    """Prepare our side of each headline row; each job returns the seconds of one measurement."""
    ledger, slots = _own("ledger"), _own("slots")
    small, window, large = (
        stack.enter_context(ledger.filled(size)) for size in (1_000, 10_000, 1_000_000)
    )
    keys = count()

    def turn_s(opened: Any) -> float:
        spent = []
        for _ in range(ledger.TURNS):
            drafts, key = ledger.messages_of(10_000_000), f"headline-{next(keys)}"
            start = time.perf_counter()
            opened.append(1, drafts, strategy="openai", key=key)
            opened.window(1, ledger.WINDOW)
            spent.append(time.perf_counter() - start)
        return statistics.median(spent)

    def window_s(kind: str) -> float:
        rows = ledger.window_rows(window, {})
        found: float = next(row.ours for row in rows if row.slug == f"window-{kind}-agents")
        return found

    return {
        **_tree_jobs(),
        "one change told to 1,000 subscribers": _live_job(),
        "the next prompt from 10,000 messages": lambda: slots.render_s(10_000),
        "200 messages read back after a turn": lambda: window_s("after"),
        "the same, by a process that just started": lambda: window_s("first"),
        "what the gateway adds before a reply begins": _gateway_s,
        "a turn in a session of 1,000,000 messages": lambda: turn_s(large),
        "a turn in a session of 1,000 messages": lambda: turn_s(small),
    }


def _tree_jobs() -> dict[str, Job]:
    trees = _own("trees")
    trees._peer_diff = lambda *_: 1.0
    sizes = trees._FULL
    data = trees.as_json(trees.mail_tree(sizes.tree))
    text = trees.codec.build(trees.as_json(trees.mail_tree(sizes.text)))
    flat = trees.flat_list(sizes.tree)
    listed = trees.as_json(flat)
    item = flat["children"][0]

    def added() -> float:
        ids = [f"new-{number}" for number in range((sizes.runs + 1) * trees._OPS)]
        values = [Raw(trees.as_json({**item, "id": name})) for name in ids]
        places = random.Random(8).sample(range(sizes.tree), len(ids))
        made = zip(ids, values, places, strict=True)
        ops = [trees.Op("add", f"/{name}", value, index=at) for name, value, at in made]
        operations: int = trees._OPS
        return measure_each(trees._our_jobs(trees.codec.build(listed), ops)) / operations

    return {
        "one property of 100,000 nodes changed, then compared": lambda: (
            next(trees._one_change(sizes)).ours
        ),
        "a tree of 100,000 nodes read from JSON": lambda: measure(
            lambda: trees.codec.build(data), sizes.runs
        ),
        "a tree as the text that a model reads": lambda: measure(
            lambda: trees.format_tree(text), sizes.runs
        ),
        "a child added to a long list": added,
    }


def _live_job() -> Job:
    live = _own("live")
    side, turns = live.OurSide(live.State(10_000), 1_000), count(1)
    return lambda: measure(lambda: side.change(next(turns)), 5)


def _gateway_s() -> float:
    latency = _own("latency")
    latency.python_with = lambda *_: None
    with latency._ways() as ways:
        medians = latency.measure(ways, latency.SIZES["50k"], latency.REQUESTS)
    return max(1e-6, float(medians["gateway"] - medians["direct"]))


def main() -> None:
    """Measure this tree once for each line of standard input."""
    with ExitStack() as stack:
        prepared = jobs(stack)
        for _ in sys.stdin:
            print(json.dumps({row: job() for row, job in prepared.items()}), flush=True)


if __name__ == "__main__":
    main()
