"""The peers' own environments: made on first use from a list, such as `peers.txt`.

Their dependencies are never ours. Where it cannot be made (no package index), the
races go on without them and their columns stay empty.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["python_with", "run_peer"]

HERE = Path(__file__).parent


def python_with(wanted: str, home: str) -> Path | None:
    """Make an environment with what a list of this directory names, once; give its interpreter.

    None, with a line on stderr, where that cannot be had.
    """
    python = HERE.parent / home / "bin" / "python"
    ready = HERE.parent / home / ".ready"
    listed = (HERE / wanted).read_text(encoding="utf-8")
    try:
        if not ready.exists() or ready.read_text(encoding="utf-8") != listed:
            subprocess.run([sys.executable, "-m", "venv", str(HERE.parent / home)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "-r", str(HERE / wanted)], check=True, stdout=sys.stderr)
            ready.write_text(listed, encoding="utf-8")
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{wanted}: cannot be had: {error}", file=sys.stderr)
        return None
    return python


def run_peer(script: str, *arguments: str, stdin: str = "") -> Any:
    """Run a script of this directory with the peers' interpreter; returns the JSON it prints.

    None, with a line on stderr, where the peers cannot be had.
    """
    python = python_with("peers.txt", ".venv-bench")
    if python is None:
        return None
    try:
        command = [str(python), "-W", "ignore", str(HERE / script), *arguments]
        done = subprocess.run(command, input=stdin, check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{script}: the peers cannot be run: {error}", file=sys.stderr)
        return None
    return json.loads(done.stdout)
