"""Ledger files from strangers, made from `hostile_schemas.json`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

HERE: Final = Path(__file__).parent
# The last format that has each table that the rows name.
FIXTURE: Final = HERE.parents[1] / "fixtures" / "ledger-v11.db"
SCHEMAS: Final[list[dict[str, Any]]] = json.loads(
    (HERE / "hostile_schemas.json").read_text(encoding="utf-8")
)


def make_hostile(path: Path, schema: dict[str, Any]) -> Path:
    """Change a copy of a healthy ledger as a row says."""
    shutil.copy(FIXTURE, path)
    with closing(apsw.Connection(str(path))) as db:
        # The text of an index is stored unchanged. Only its first evaluation is quick.
        db.create_scalar_function("zeroblob", _no_bytes, 1, deterministic=True)
        if schema["writable_schema"]:
            db.execute("PRAGMA writable_schema = ON")
        for statement in schema["sql"]:
            db.execute(statement)
    return path


def _no_bytes(*_: object) -> bytes:
    return b""


def observe(path: Path, *options: str, seconds: float) -> dict[str, str]:
    """Use a ledger in a process of its own. A use that does not end has the outcome `no end`."""
    command = [sys.executable, "-m", "context.ledger.observe_ledger", str(path), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parents[1])
    try:
        output, _ = process.communicate(timeout=seconds)
        end = {"end": str(process.returncode)}
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        end = {"end": "no end"}
    return dict(json.loads(line) for line in output.splitlines()) | end
