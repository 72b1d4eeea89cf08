"""Imports go one way, and nothing pure touches the world outside its arguments.

The line of ARCHITECTURE.md, as a table. A room may import from the rooms before
it, from `errors` and `events`, and from itself.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import sightline

ROOT = Path(sightline.__file__).parent

# Rooms from left to right; rooms on one line are neighbours that may not know each other.
LINE: list[set[str]] = [
    {"errors", "events"},
    {"protocol"},
    {"transports"},
    {"app", "hub"},
    {"projection"},
    {"context"},
    {"dialects"},
    {"config"},
    {"models", "ledger", "plugins"},
    {"turn", "policy", "toolbox", "workspace"},
    {"host", "demo", "bridge"},
    {"testing", "inspector"},
    {"cli"},
    {"__main__", "__init__"},
]
# Rooms that a neighbour on its right may not skip to, but that share a line on purpose.
NEIGHBOURS = {("turn", "policy"), ("app", "hub")}
PURE = {"errors", "events", "protocol", "projection", "context", "dialects", "turn", "policy"}

# What a pure module may use besides the project: computation only.
PURE_STDLIB = {
    "__future__", "abc", "array", "ast", "base64", "bisect", "codecs", "collections", "contextlib",
    "copy", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions",
    "functools", "hashlib", "heapq", "html", "inspect", "itertools", "json", "keyword", "math",
    "numbers", "operator", "re", "reprlib", "string", "struct", "textwrap", "types", "typing",
    "unicodedata", "urllib.parse", "uuid", "weakref", "zlib",
}  # fmt: skip
# msgspec encodes and checks values; toktok is a function from text to a number, its
# vocabulary compiled in.
PURE_THIRD_PARTY = {"msgspec", "toktok"}


def room_of(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(source: str) -> set[str]:
    """Every dotted name imported anywhere in a module, function bodies included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def rank_of(room: str) -> int:
    for rank, rooms in enumerate(LINE):
        if room in rooms:
            return rank
    raise AssertionError(f"{room} has no place on the line: add it to LINE and ARCHITECTURE.md")


def offences(room: str, source: str) -> list[str]:
    found = []
    for name in imports_of(source):
        if name == "sightline":
            found.append("imports the package itself instead of a room")
        elif name.startswith("sightline."):
            other = name.split(".")[1]
            if not (ROOT / other).is_dir() and not (ROOT / f"{other}.py").is_file():
                continue
            to_the_left = rank_of(other) < rank_of(room)
            if other != room and not to_the_left and (room, other) not in NEIGHBOURS:
                found.append(f"{room} imports {other}, which is not to its left")
        elif room in PURE and not _is_pure(name):
            found.append(f"{room} is pure and imports {name}")
    return found


def _is_pure(name: str) -> bool:
    top = name.split(".")[0]
    if top in sys.stdlib_module_names:
        return any(name == ok or name.startswith(f"{ok}.") for ok in PURE_STDLIB)
    return top in PURE_THIRD_PARTY


MODULES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_left(path: Path) -> None:
    assert offences(room_of(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("protocol", "from sightline.cli import main"),
        ("protocol", "import os"),
        ("protocol", "import asyncio"),
        ("protocol", "def f():\n    from time import time"),
        ("projection", "from sightline.context.slots import slots"),
        ("context", "import sqlite3"),
        ("dialects", "import httpx"),
        ("protocol", "import sightline"),
    ],
)
def test_the_rule_can_fail(
    room: str, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("protocol", "projection", "context", "dialects", "cli"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert offences(room, source)
