"""What it costs to have the library: to import it, to start its program, to download it."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Row

ROOT = Path(__file__).parent.parent
WORK = {
    "import sightline": ["-c", "import sightline"],
    "import every public name": [
        "-c",
        "import sightline; [getattr(sightline, name) for name in sightline.__all__]",
    ],
    "start the program (--version)": ["-m", "sightline", "--version"],
}


def run(*, quick: bool) -> list[Row]:
    """Time new processes, an empty one taken off; weigh what is built."""
    runs = 2 if quick else 10
    empty = _cpu_s(["-c", "pass"], runs)
    rows = [
        Row(work, 1, max(_cpu_s(arguments, runs) - empty, 1e-6), note="CPU of a new process")
        for work, arguments in WORK.items()
    ]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", place],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        for kind, name in (("*.whl", "size of the wheel"), ("*.tar.gz", "size of the sources")):
            [built] = Path(place).glob(kind)
            rows.append(Row(name, 1, built.stat().st_size, unit="bytes"))
    return rows


def _cpu_s(arguments: list[str], runs: int) -> float:
    """The CPU seconds of the quickest of some processes."""
    costs = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(costs)
