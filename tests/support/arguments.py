"""The command lines of running processes, as every user of the machine can read them.

A fake `codex` for the real gateway: a program that reads its configuration as Codex does
(arguments before a profile before `config.toml`), and reports which address it would use.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["command_lines", "fake_codex"]

# Prints one JSON object: its address, arguments, configuration files and their modes, and each
# process from itself up to the first one that is not ours with its arguments. Then it writes
# STORES (TOML) where Codex would: to the end of the profile, or of config.toml.
_CODEX = """#!{python}
import json, os, sys, tomllib
from pathlib import Path

home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
words = sys.argv[1:]
profiles = [words[at + 1] for at, word in enumerate(words) if word == "-p"]
file = home / (f"{{profiles[0]}}.config.toml" if profiles else "config.toml")
lines, pid = [], os.getpid()
while pid > 1 and len(lines) < 3:
    lines.append(Path(f"/proc/{{pid}}/cmdline").read_bytes().decode())
    pid = int(Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[1])
print(json.dumps({{
    "arguments": words,
    "home": str(home),
    "home_mode": home.stat().st_mode & 0o777,
    "entries": sorted(entry.name for entry in home.iterdir()),
    "file": file.name,
    "mode": file.stat().st_mode & 0o777 if file.exists() else 0,
    "config": tomllib.loads(file.read_text()) if file.exists() else {{}},
    "address": os.environ["OPENAI_BASE_URL"],
    "lines": lines,
}}))
if stores := os.environ.get("STORES"):
    fresh = file.with_suffix(".new")
    fresh.write_text(file.read_text() + stores)
    fresh.replace(file)
for name in os.environ.get("CREATES", "").split():
    (home / name).mkdir()
"""


def fake_codex(directory: Path) -> str:
    """Write the program and return its path."""
    path = directory / "codex"
    path.write_text(_CODEX.format(python=sys.executable))
    path.chmod(0o755)
    return str(path)


def command_lines() -> list[str]:
    """Return the arguments of every process that can be read now."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (OSError, UnicodeDecodeError):  # it has ended
            continue
    return found
