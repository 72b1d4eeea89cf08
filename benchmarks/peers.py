"""The peers' own environment, `.venv-bench`: made on first use from `peers.txt`.

Their dependencies are never ours. Where it cannot be made (no package index), the
races go on without them and their columns stay empty.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["run_peer"]

HERE = Path(__file__).parent
HOME = HERE.parent / ".venv-bench"
READY = HOME / ".ready"


def run_peer(script: str, *arguments: str, stdin: str = "") -> Any:
    """Run a script of this directory with the peers' interpreter; returns the JSON it prints.

    None, with a line on stderr, where the peers cannot be had.
    """
    python = HOME / "bin" / "python"
    try:
        wanted = (HERE / "peers.txt").read_text(encoding="utf-8")
        if not READY.exists() or READY.read_text(encoding="utf-8") != wanted:
            subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "-r", str(HERE / "peers.txt")], check=True, stdout=sys.stderr)
            READY.write_text(wanted, encoding="utf-8")
        command = [str(python), "-W", "ignore", str(HERE / script), *arguments]
        done = subprocess.run(command, input=stdin, check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{script}: the peers cannot be run: {error}", file=sys.stderr)
        return None
    return json.loads(done.stdout)
