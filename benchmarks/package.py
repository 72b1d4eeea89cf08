"""What it costs to have the library: to import it, to start its program, to download it."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.harness import Row
from sightline._distribution import NAME

ROOT = Path(__file__).parent.parent
WORK = {
    "import": ("import sightline", ["-c", "import sightline"]),
    "import-all": (
        "import every public name",
        ["-c", "import sightline; [getattr(sightline, name) for name in sightline.__all__]"],
    ),
    "start": ("start the program (--version)", ["-m", "sightline", "--version"]),
}


def run(*, quick: bool) -> list[Row]:
    """Time new processes, an empty one taken off; weigh what is built."""
    runs = 2 if quick else 10
    empty = _cpu_s(["-c", "pass"], runs)
    rows = [
        Row(slug, work, 1, max(_cpu_s(arguments, runs) - empty, 1e-6), note="CPU of a new process")
        for slug, (work, arguments) in WORK.items()
    ]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", place],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        [wheel], [sources] = Path(place).glob("*.whl"), Path(place).glob("*.tar.gz")
        unpacked = sum(member.file_size for member in zipfile.ZipFile(wheel).infolist())
        sizes = {
            "wheel": ("size of the wheel", wheel.stat().st_size),
            "sdist": ("size of the sources", sources.stat().st_size),
            "installed": ("installed, before anything is compiled", unpacked),
            "dependencies": ("what it needs, installed", sum(map(_size_of, _needed()))),
        }
    rows += [Row(slug, work, 1, size, unit="bytes") for slug, (work, size) in sizes.items()]
    return rows


def _needed() -> set[str]:
    """The packages that an installation without extras brings along."""
    found: set[str] = set()
    ahead = [NAME]
    while ahead:
        for text in distribution(ahead.pop()).requires or ():
            wanted = Requirement(text)
            name = canonicalize_name(wanted.name)
            if name not in found and (not wanted.marker or wanted.marker.evaluate({"extra": ""})):
                found.add(name)
                ahead.append(name)
    return found


def _size_of(package: str) -> int:
    files = (Path(str(file.locate())) for file in distribution(package).files or ())
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc" and file.exists())


def _cpu_s(arguments: list[str], runs: int) -> float:
    """The CPU seconds of the quickest of some processes."""
    costs = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(costs)
