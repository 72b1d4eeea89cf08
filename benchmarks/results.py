"""What was measured: the rows of every module, and when, where and with what each was run.

`results.json` is the one place for figures. A run renews the parts of the modules it ran and
leaves the others; each part is written as soon as it is there, so that a run that is
interrupted keeps what it had. Documents are written from it by `benchmarks.report`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness import Row

__all__ = ["MODULES", "RESULTS", "Part", "circumstances", "commit", "load", "save"]

MODULES = (
    "trees", "live", "floods", "ledger", "postgres", "slots", "tail", "composing", "cache", "forms",
    "local", "connections", "scale_trees", "inspector", "pages", "startup", "keystrokes",
    "telemetry", "package", "json_libraries", "latency",
)  # fmt: skip
HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


@dataclass(frozen=True, slots=True)
class Part:
    """One module's rows, and the circumstances of the run."""

    run: Mapping[str, Any]
    rows: tuple[Row, ...]

    def row(self, slug: str) -> Row:
        """Find a row. Raises KeyError."""
        for row in self.rows:
            if row.slug == slug:
                return row
        raise KeyError(slug)


def circumstances() -> dict[str, Any]:
    """When and where a module is about to run: nothing that names the machine or its owner."""
    load, _, _ = os.getloadavg()
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": commit("src", "benchmarks/*.py"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "msgspec": msgspec.__version__,
    }


def commit(*paths: str) -> str:
    """Return the short hash of HEAD, with a plus if a file below `paths` differs from HEAD."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(HERE.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    head = git("rev-parse", "--short=7", "HEAD").stdout.strip()
    changed = git("diff", "--quiet", "HEAD", "--", *paths).returncode
    return f"{head}+" if head and changed else head


def load(path: Path = RESULTS) -> dict[str, Part]:
    """Read the parts by their modules; none where there is no file."""
    if not path.exists():
        return {}
    parts = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Part(part["run"], tuple(map(Row.of, part["rows"]))) for name, part in parts.items()
    }


def save(path: Path, parts: Mapping[str, Part]) -> None:
    """Write the parts, whole or not at all. Raises ValueError where two rows have one slug."""
    for name, part in parts.items():
        slugs = [row.slug for row in part.rows]
        if len(set(slugs)) < len(slugs):
            raise ValueError(f"{name}: two rows have the same slug: {sorted(slugs)}")
    known = [name for name in MODULES if name in parts]
    values = {
        name: {"run": dict(parts[name].run), "rows": [row.to_value() for row in parts[name].rows]}
        for name in (*known, *sorted(parts.keys() - set(known)))
    }
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(path)
