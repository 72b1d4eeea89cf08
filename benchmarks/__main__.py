"""Run every race, print one table, write `results.json`.

    python -m benchmarks [--quick] [--only trees] [--output FILE] [--plots DIR]

A module of this package that races has `run(*, quick: bool) -> list[Row]`, and perhaps
`plots(rows) -> {file name: SVG}`. One whose peer is not installed is left out, with a
line that says so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness import Row, table

MODULES = ("trees", "live", "ledger", "slots", "tail", "cache", "package", "startup")


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen races. Exits with 1 where a bar is missed in a full run."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Race the peers.")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything run?")
    parser.add_argument("--only", choices=MODULES, help="run the races of one module")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent / "results.json",
        help="where the figures go (default: benchmarks/results.json)",
    )
    parser.add_argument("--plots", type=Path, help="a directory for pictures of the growth")
    options = parser.parse_args(arguments)
    results = {
        name: rows
        for name in ([options.only] if options.only else MODULES)
        if (rows := _rows(name, quick=options.quick)) is not None
    }
    print(table([row for rows in results.values() for row in rows]))
    options.output.write_text(json.dumps(_report(results, quick=options.quick), indent=2) + "\n")
    if options.plots is not None:
        for name, rows in results.items():
            drawn = getattr(importlib.import_module(f"benchmarks.{name}"), "plots", None)
            for file, picture in (drawn(rows) if drawn else {}).items():
                (options.plots / file).write_text(picture, encoding="utf-8")
    missed = [row.work for rows in results.values() for row in rows if row.met is False]
    if missed:
        print(f"\nbelow the bar: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def _rows(name: str, *, quick: bool) -> list[Row] | None:
    try:
        module = importlib.import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        print(f"{name}: left out, there is no {error.name} here", file=sys.stderr)
        return None
    rows: list[Row] = module.run(quick=quick)
    # The bars are promises about the full sizes.
    return [replace(row, bar=None) for row in rows] if quick else rows


def _report(results: dict[str, list[Row]], *, quick: bool) -> dict[str, Any]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "msgspec": msgspec.__version__,
        "quick": quick,
        "rows": [
            {"area": area, **row.to_value()} for area, rows in results.items() for row in rows
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
