"""Run every race, print the tables, keep the figures in `results.json`.

    python -m benchmarks [--quick] [--only MODULE]… [--output FILE]
    python -m benchmarks --headline OTHER_TREE     our side of the README's table, in two trees

A module of this package that races has `run(*, quick: bool) -> list[Row]` and is named in
`results.MODULES`. Each runs in a process of its own, so that none pays for what another left
in memory and none takes another down. One whose peer or extra is missing is left out, with a
line that says so; one that fails is reported, and the others go on.

A quick run shows that everything runs, on small sizes; it keeps nothing, unless told where.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchmarks import results
from benchmarks.harness import LeftOut, Row, table
from benchmarks.headline import compare
from benchmarks.results import MODULES, RESULTS, Part


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen races. Exits with 1 where a module failed or a full run missed a bar."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Race the peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument(
        "--only", action="append", choices=MODULES, help="run this module; may be repeated"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="where the figures go (default: benchmarks/results.json; nowhere if quick)",
    )
    parser.add_argument(
        "--headline",
        type=Path,
        metavar="OTHER_TREE",
        help="compare the README's rows with a different checkout, without peers",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quick and options.output and options.output.resolve() == RESULTS.resolve():
        parser.error("a quick run is no result: give another --output")
    if options.headline is not None:
        return compare(options.headline)
    output = options.output or (None if options.quick else RESULTS)
    names: Sequence[str] = options.only or MODULES
    if len(names) == 1 and (options.inside or not sys.stderr.isatty()):
        return _run(names[0], quick=options.quick, output=output)
    return _run_each(names, quick=options.quick, output=output)


def _run_each(names: Sequence[str], *, quick: bool, output: Path | None) -> int:
    command = [sys.executable, "-m", "benchmarks", "--inside", *(["--quick"] if quick else [])]
    if output is not None:
        command += ["--output", str(output.resolve())]
    began = time.monotonic()
    before = {} if quick else results.load()
    bad = []
    for number, name in enumerate(names, 1):
        usual = f" of about {before[name].run['seconds']}" if name in before else ""
        here = Path(__file__).parent.parent
        with subprocess.Popen([*command, "--only", name], cwd=here) as child:
            if _waited(child, f"{name}, {number} of {len(names)}", usual):
                bad.append(name)
    print(f"{len(names)} modules in {time.monotonic() - began:.0f} s", file=sys.stderr)
    if bad:
        print(f"a bar was missed, or it failed: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


def _waited(child: subprocess.Popen[bytes], what: str, usual: str) -> int:
    """Wait for a module; say each second how far it is, on a line of a terminal."""
    began = time.monotonic()
    while sys.stderr.isatty():
        line = f"\r\x1b[K{what}: {time.monotonic() - began:.0f} s{usual}"
        print(line, end="", file=sys.stderr, flush=True)
        with suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=1)
    return child.wait()


def _run(name: str, *, quick: bool, output: Path | None) -> int:
    """Run one module and keep its rows."""
    run = results.circumstances()
    began = time.monotonic()
    try:
        rows = _rows(name, quick=quick)
    except LeftOut as error:
        print(f"{name}: left out, {error}", file=sys.stderr)
        return 0
    except Exception:  # noqa: BLE001 - whatever it is, the figures of others are not lost
        traceback.print_exc()
        print(f"{name}: failed", file=sys.stderr)
        return 1
    seconds = time.monotonic() - began
    print(f"\n{name}, {seconds:.0f} s\n\n{table(rows)}", flush=True)
    if output is not None:
        part = Part({**run, "seconds": round(seconds), "quick": quick}, tuple(rows))
        results.save(output, {**results.load(output), name: part})
    missed = [row.work for row in rows if row.met is False]
    if missed:
        print(f"\n{name}: below the bar: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def _rows(name: str, *, quick: bool) -> list[Row]:
    try:
        module = importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        raise LeftOut(f"there is no {error.name} here") from error
    rows: list[Row] = module.run(quick=quick)
    # The bars are promises about the full sizes.
    return [replace(row, bar=None) for row in rows] if quick else rows


if __name__ == "__main__":
    sys.exit(main())
