"""Install what was built, as a user would: every extra, with every Python that is here.

    python -m proof.install                            every extra with this Python, and all at once
    python -m proof.install python3.12 python3.14      the core and all extras with others, too

Needs a package index, so it is no part of `make test`, which proves the same offline for
the locked versions (`tests/test_packaging.py`). Each row is an environment of its own: the
wheel and what it asks for are installed by pip, `pip check` finds nothing wrong, and
`sightline demo` and `sightline tree format` say the same. Exits with 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PROGRAMS", "Installed", "extras", "main", "plan"]

ROOT = Path(__file__).parent.parent
PROGRAMS = ("chat", "ask", "inspect", "mcp", "gateway")
# CPU seconds of an import, an empty interpreter taken off: the best of some processes.
IMPORT_MS = """
import json, resource, subprocess, sys

def cpu(code):
    costs = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(costs) * 1000

empty = cpu("pass")
every = "import sightline; [getattr(sightline, name) for name in sightline.__all__]"
print(json.dumps([cpu("import sightline") - empty, cpu(every) - empty]))
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """One environment: what was asked for, what it weighs, and what an import takes."""

    python: str
    extra: str
    megabytes: float
    import_ms: float
    import_all_ms: float


def extras() -> tuple[str, ...]:
    """Every extra that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(project["optional-dependencies"])


def plan(others: list[str]) -> Iterator[tuple[str, str]]:
    """What is tried: interpreters with extras, `""` for none of them."""
    yield from ((sys.executable, extra) for extra in ("", *extras()))
    for other in others:
        yield from ((other, extra) for extra in ("", "all"))


def install(python: str, wheel: Path, extra: str) -> Installed:
    """Install and use it. Raises CalledProcessError, with the output of what went wrong."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        _run(home, python, "-m", "venv", "env")
        own = str(home / "env" / "bin" / "python")
        empty = _weight(home)
        _run(
            home,
            own,
            "-m",
            "pip",
            "install",
            "--quiet",
            f"{wheel}[{extra}]" if extra else str(wheel),
        )
        weight = _weight(home) - empty
        _run(home, own, "-m", "pip", "check")
        program = str(home / "env" / "bin" / "sightline")
        shown = _run(home, program, "demo", "--print")
        tree = _run(home, program, "demo", "--json")
        assert _run(home, program, "tree", "format", stdin=tree) == shown
        if extra == "all":
            for command in PROGRAMS:
                _run(home, program, command, "--help")
        version = _run(home, own, "-c", "import platform; print(platform.python_version())")
        alone, every = json.loads(_run(home, own, "-c", IMPORT_MS))
        return Installed(version.decode().strip(), extra, weight / 1e6, alone, every)


def _run(directory: Path, *command: str, stdin: bytes = b"") -> bytes:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        command, cwd=directory, env=kept, input=stdin, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ).stdout  # fmt: skip


def _weight(directory: Path) -> int:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files if path.suffix != ".pyc")


def main(arguments: list[str] | None = None) -> int:
    """Try everything, print the table."""
    parser = argparse.ArgumentParser(
        prog="proof.install",
        description="Build the wheel and install it from a package index, each time in an "
        "environment of its own: with this Python every extra alone and all at once.",
    )
    parser.add_argument(
        "pythons", nargs="*", metavar="PYTHON",
        help="another interpreter, for the core and all extras; left out if it is not here",
    )  # fmt: skip
    others = []
    for name in parser.parse_args(arguments).pythons:
        if shutil.which(name) is None:
            print(f"{name}: left out, there is no such interpreter here", file=sys.stderr)
        else:
            others.append(name)
    failed = 0
    print("| Python | extra | installed | import | every name |")
    print("| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as place:
        _run(ROOT, sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place)
        [wheel] = Path(place).glob("*.whl")
        for python, extra in plan(others):
            name = extra or "none"
            try:
                made = install(python, wheel, extra)
            except subprocess.CalledProcessError as error:
                failed += 1
                print(f"| {python} | {name} | **failed** | | |", flush=True)
                print(error.output.decode(), file=sys.stderr)
                continue
            print(
                f"| {made.python} | {name} | {made.megabytes:.0f} MB | {made.import_ms:.0f} ms "
                f"| {made.import_all_ms:.0f} ms |",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
