"""How fast a stranger's ledger is rejected, and how fast one's own is opened.

    python -m benchmarks.strangers [OTHER_TREE]

Each of the 15 hostile schemas of the tests is opened 20 times for writing and 20 times for reading,
each time as the first ledger of a process would be. Exits with 1 if one takes a second. With
OTHER_TREE, the time to open one's own ledger is compared with that tree, both alternating.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LIMIT_S: Final = 1.0
_TIMES: Final = 20
_ROUNDS: Final = 7
_OPENING: Final = """
import os, sys, time
place = sys.argv[1]
os.environ.update({f"XDG_{kind}_HOME": place for kind in ("STATE", "DATA", "CONFIG", "CACHE")})
from sightline.context.ledger import Ledger
path = os.path.join(place, "l.db")
with Ledger(path) as ledger:
    ledger.sessions.create("s")
for mode in ("write", "read"):
    took = []
    for _ in range(400):
        began = time.perf_counter()
        opened = Ledger(path, mode=mode)
        took.append(time.perf_counter() - began)
        opened.close()
    print(sorted(took)[len(took) // 4])
"""


def rejections(place: Path) -> dict[str, float]:
    """Return the longest time in seconds until each hostile schema was rejected."""
    sys.path.insert(0, str(ROOT / "tests"))
    from context.ledger.hostile_files import SCHEMAS, make_hostile
    from sightline.context.ledger import Ledger
    from sightline.context.ledger.sqlite import admission
    from sightline.errors import LedgerDamaged

    slowest: dict[str, float] = {}
    for number, schema in enumerate(SCHEMAS):
        path = make_hostile(place / f"{number}.db", schema)
        took = []
        for mode in ("write", "read") * _TIMES:
            admission._schema_of.cache_clear()
            began = time.perf_counter()
            try:
                Ledger(path, mode=mode).close()
            except LedgerDamaged:
                took.append(time.perf_counter() - began)
        slowest[schema["name"]] = max(took) if len(took) == 2 * _TIMES else float("inf")
    return slowest


def opening(tree: Path) -> list[float]:
    """Return the time in seconds to open one's own ledger for writing and for reading."""
    with tempfile.TemporaryDirectory() as place:
        command = [str(tree / ".venv" / "bin" / "python"), "-c", _OPENING, place]
        ran = subprocess.run(command, capture_output=True, check=True, text=True)
    return [float(line) for line in ran.stdout.split()]


def main() -> int:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as place:
        slowest = rejections(Path(place))
    for name, seconds in slowest.items():
        sys.stdout.write(f"{seconds * 1000:8.1f} ms  {name}\n")
    for other in map(Path, sys.argv[1:]):
        rounds = [(opening(ROOT), opening(other)) for _ in range(_ROUNDS)]
        for index, mode in enumerate(("write", "read")):
            ratio = median(ours[index] / theirs[index] for ours, theirs in rounds)
            ours_us = median(ours[index] for ours, _ in rounds) * 1e6
            sys.stdout.write(f"opening to {mode}: {ours_us:.0f} us, {ratio:.2f} of {other}\n")
    return int(max(slowest.values()) >= LIMIT_S)


if __name__ == "__main__":
    raise SystemExit(main())
