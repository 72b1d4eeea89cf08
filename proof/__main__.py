"""Try every claim, print one table, write the figures.

    python -m proof [--seed N] [--scale X] [--seconds S] [--only NAME …] [--output FILE]
    python -m proof --seeds N …       each of N seeds on its own, added to the figures in FILE

NAME is a claim or an area, which is a group of claims that takes at most 30 minutes on two
cores. A claim that fails does not end the run. The row of each claim is written to FILE as soon
as the claim was tried. The rows of all other claims stay in FILE. Exits with 1 if a claim failed,
and prints the seed that repeats the failure.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import logging
import os
import platform
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.results import commit

from proof.claim import Claim, Outcome, Trial, table

MODULES = (
    "durability",
    "damage",
    "privacy",
    "planting",
    "sharing",
    "hosts",
    "fleet",
    "mirrors",
    "brokers",
    "wire",
    "floods",
    "readers",
    "forging",
    "repositories",
    "impostors",
    "consent",
    "environment",
    "ports",
)


AREAS = {
    "ledger": ("kill", "power", "disk", "bits", "sql", "writers", "two", "clock", "hosts"),
    "postgres": ("fleet",),
    "mirror": ("mirrors", "lies", "brokers"),
    "wire": ("malformed", "bombs", "subscriptions", "floods", "readers"),
    "security": (
        "secrets", "forging", "repositories", "impostors", "consent", "environment", "ports",
    ),
}  # fmt: skip


def claims() -> dict[str, Claim]:
    """Every claim by its name, in the order of the table."""
    found: list[Claim] = []
    for name in MODULES:
        found.extend(importlib.import_module(f"proof.{name}").CLAIMS)
    return {claim.name: claim for claim in found}


def attempt(claim: Claim, *, seed: int, scale: float) -> Outcome:
    """Try one claim once. What it raises is a failure, with its traceback."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="proof-") as place:
        trial = Trial(seed, scale, Path(place))
        try:
            with watched(trial):
                claim.attempt(trial)
        except Exception as error:  # noqa: BLE001 - whatever it is, the claim does not hold
            trial.fail(f"{type(error).__name__}: {error}\n{traceback.format_exc()[-400:]}")
    return Outcome(
        claim.name, claim.says, trial.tried, trial.failed, seed,
        round(time.monotonic() - began, 2), trial.notes, tuple(trial.failures),
    )  # fmt: skip


@contextmanager
def watched(trial: Trial, each_s: float = 1.0) -> Iterator[None]:
    """Say now and then how far a claim is, on a line of a terminal that goes; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    over, began = threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(each_s):
            seconds = time.monotonic() - began
            # To the descriptor: a claim may fork, and a stream's lock would be held for ever there.
            os.write(2, f"\r\x1b[K  {trial.tried:,} tried, {seconds:.0f} s".encode())

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()
        os.write(2, b"\r\x1b[K")


def rounds(
    chosen: list[Claim],
    *,
    seed: int,
    scale: float,
    seconds: float,
    after: Callable[[list[Outcome]], None] = lambda _: None,
) -> list[Outcome]:
    """Try the claims, and again with the next seed until the time is over.

    `after` gets the outcomes so far whenever a claim was tried.
    """
    until = time.monotonic() + seconds
    outcomes: dict[str, Outcome] = {}
    while True:
        for number, claim in enumerate(chosen, 1):
            far = f"{number} of {len(chosen)}, " if sys.stderr.isatty() else ""
            print(f"{claim.name} ({far}seed {seed})", file=sys.stderr, flush=True)
            # A claim that hangs says where, and the run ends.
            longest_s, end = claim.hangs_after_s * max(1, scale), sys.__stderr__ or 2
            faulthandler.dump_traceback_later(longest_s, exit=True, file=end)
            outcome = attempt(claim, seed=seed, scale=scale)
            faulthandler.cancel_dump_traceback_later()
            print(
                f"  {outcome.tried:,} tried, {outcome.failed} failed, {outcome.seconds:.0f} s",
                file=sys.stderr, flush=True,
            )  # fmt: skip
            known = outcomes.get(claim.name)
            outcomes[claim.name] = outcome if known is None else known + outcome
            after(list(outcomes.values()))
        seed += 1
        if time.monotonic() >= until:
            return list(outcomes.values())


def write(path: Path, outcomes: list[Outcome], run: dict[str, Any]) -> None:
    """Write the rows of these claims to a results file. The rows of all other claims stay."""
    report = _figures(path)
    rows = {row["claim"]: row for row in report.get("claims", [])}
    rows |= {outcome.claim: {**asdict(outcome), "run": run} for outcome in outcomes}
    ordered = [rows[name] for name in claims() if name in rows]
    _replace(path, {"claims": ordered, "seeds": report.get("seeds", [])})


def circumstances(scale: float) -> dict[str, Any]:
    """Return the start time, scale, commit, interpreter and machine of a run."""
    return {
        "began": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}",
        "scale": scale,
        "commit": commit("src", "proof", "tests"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }


def add_seed(path: Path, outcome: Outcome, *, scale: float, began: str) -> None:
    """Add what came of one seed to the figures, in the place of an earlier run of the same."""
    report = _figures(path)
    row = {"scale": scale, "began": began, **asdict(outcome)}
    same = ("claim", "seed", "scale")
    others = [old for old in report.get("seeds", []) if any(old[key] != row[key] for key in same)]
    _replace(path, {**report, "seeds": [*others, row]})


def _figures(path: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return figures


def _replace(path: Path, report: dict[str, Any]) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", "utf-8")
    beside.replace(path)


def main(arguments: list[str] | None = None) -> int:
    """Try the chosen claims. Exits with 1 where one does not hold."""
    every = claims()
    names = {**{name: (name,) for name in every}, **AREAS}
    parser = argparse.ArgumentParser(prog="proof", description="Try every claim of the project.")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (default: 1)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="1 is the numbers that the claims name (default)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.0,
        help="go on with the next seeds for so long (default: one round)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=int, default=0, help="try so many seeds, each on its own (default: one)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME",
        help=f"try only these claims, or the claims of an area: {', '.join(AREAS)}",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help="write the figures there as JSON")
    options = parser.parse_args(arguments)
    # What the library logs of the faults is expected here; claims listen where it matters.
    logging.getLogger().addHandler(logging.NullHandler())
    wanted = {claim for name in options.only or every for claim in names[name]}
    chosen = [claim for name, claim in every.items() if name in wanted]
    run = circumstances(options.scale)

    def keep(outcomes: list[Outcome]) -> None:
        if options.output is not None:
            write(options.output, outcomes, run)

    if options.seeds:
        outcomes = []
        for seed in range(options.seed, options.seed + options.seeds):
            for outcome in rounds(chosen, seed=seed, scale=options.scale, seconds=0):
                outcomes.append(outcome)
                if options.output is not None:
                    add_seed(options.output, outcome, scale=options.scale, began=run["began"])
    else:
        outcomes = rounds(
            chosen, seed=options.seed, scale=options.scale, seconds=options.seconds, after=keep
        )
    print(table(outcomes))
    broken = [outcome for outcome in outcomes if outcome.failed]
    for outcome in broken:
        print(f"\n{outcome.claim} failed {outcome.failed} of {outcome.tried}:", file=sys.stderr)
        for failure in outcome.failures:
            print(f"  {failure}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
