"""Imports go one way, and nothing pure touches the world outside its arguments.

The floors and rooms of ARCHITECTURE.md, as a table. A floor imports only from the floors
before it, a room only from the rooms before it on its floor; `errors`, `events` and the
loader of public names are everybody's.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import sightline
from support.rooms import FLOORS, PURE, edges, imports_of, nodes_of, picture, room_of

ROOT = Path(sightline.__file__).parent
REPOSITORY = Path(__file__).parent.parent
ORDER = [room for floor in FLOORS for room in floor]
EVERYBODYS = {"_amounts", "_distribution", "_keywords", "_lazy", "errors", "events", "telemetry"}

# A pure module may use computation only. `pkgutil` reads the package's own data files.
PURE_STDLIB = {
    "__future__", "abc", "array", "ast", "base64", "bisect", "codecs", "collections", "contextlib",
    "copy", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch", "fractions",
    "functools", "hashlib", "heapq", "html", "inspect", "itertools", "json", "keyword", "math",
    "numbers", "operator", "pkgutil", "re", "reprlib", "string", "struct", "textwrap", "types",
    "typing",
    "unicodedata", "urllib.parse", "uuid", "weakref", "zlib",
}  # fmt: skip
# msgspec encodes and checks values; toktok is a function from text to a number, its
# vocabulary compiled in; snowballstemmer one from a word to its stem.
PURE_THIRD_PARTY = {"msgspec", "snowballstemmer", "toktok"}


def offences(room: str, source: str) -> list[str]:
    """Return what a module of a room imports although it may not."""
    found = []
    for name in sorted(imports_of(source)):
        if name == "sightline":
            found.append("imports the package itself instead of a room")
        elif name.startswith("sightline."):
            other = room_of(tuple(name.split(".")[1:]))
            if other is None:
                found.append(f"{name} is in no room")
            elif other not in EVERYBODYS | {room} and ORDER.index(other) > ORDER.index(room):
                found.append(f"{room} imports {other}, which comes after it")
        elif room in PURE and not _is_pure(name):
            found.append(f"{room} is pure and imports {name}")
    return found


def _is_pure(name: str) -> bool:
    top = name.split(".")[0]
    if top in sys.stdlib_module_names:
        return any(name == ok or name.startswith(f"{ok}.") for ok in PURE_STDLIB)
    return top in PURE_THIRD_PARTY


# A façade names what its whole floor offers; nothing on the floors imports one.
FACADES = {ROOT / floor / "__init__.py" for floor in ("slop", "context", "agent", ".")}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path not in FACADES)


def test_a_module_imports_only_from_what_comes_before_it() -> None:
    found = {}
    for path in MODULES:
        name = path.relative_to(ROOT)
        room = room_of(name.with_suffix("").parts)
        assert room is not None, f"{name} has no room: add it to FLOORS and ARCHITECTURE.md"
        found[str(name)] = offences(room, path.read_text(encoding="utf-8"))
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("slop/protocol", "from sightline.cli import main"),
        ("slop/protocol", "import os"),
        ("slop/protocol", "import asyncio"),
        ("slop/protocol", "def f():\n    from time import time"),
        ("slop/protocol", "import sightline"),
        ("slop/protocol", "from sightline.slop.hub.hub import Hub"),
        ("slop/hub", "from sightline.context.ledger import Ledger"),
        ("slop/hub", "from sightline.slop import Hub"),
        ("context/projection", "from sightline.context.slots import slots"),
        ("context/slots", "import sqlite3"),
        ("context/dialects", "import httpx"),
        ("agent/turn", "from sightline.agent.host import Host"),
        ("inspector", "from sightline.nowhere import nothing"),
    ],
)
def test_the_rule_can_fail(room: str, source: str) -> None:
    assert offences(room, source)


def test_the_picture_is_made_from_the_imports() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert picture(edges(ROOT)) in text, "python tests/support/rooms.py writes it anew"


# What a reader is told to type: the package, its floors, and what has no floor.
DOORS = {
    "sightline", "sightline.slop", "sightline.context", "sightline.agent", "sightline.config",
    "sightline.demo", "sightline.errors", "sightline.events", "sightline.testing",
    "sightline.adapters.openai_agents", "sightline.adapters.pydantic_ai",
    "sightline.adapters.langchain",
}  # fmt: skip
READ = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "examples").glob("*")),
]


@pytest.mark.parametrize("path", READ, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_what_people_read_imports_from_the_doors_only(path: Path) -> None:
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8")
    imported = re.findall(r"(?:from|import) (sightline[\w.]*)", text)
    assert {name.rstrip(".") for name in imported} <= DOORS


def test_every_public_name_is_in_an_example() -> None:
    """In code that is run, or in what it prints."""
    block = re.compile(r"^```(?:python|text)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    shown: set[str] = set()
    for path in READ:
        if path.is_file() and path.name != "reference.md":
            text = path.read_text(encoding="utf-8")
            parts = block.findall(text) if path.suffix == ".md" else [text]
            shown.update(word for part in parts for word in re.findall(r"\w+", part))
    missing = {f"{door}.{name}" for door in DOORS for name in names_of(door) if name not in shown}
    assert missing == set(), "docs/by-example.md has those that no other page shows"


def names_of(door: str) -> list[str]:
    """Return what a door offers, without opening it: behind some are whole frameworks."""
    path = ROOT.joinpath(*door.split(".")[1:])
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"{door} has no __all__")


# Statements as they begin; what people and models are told of SQL does not begin with one.
SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|PRAGMA|CREATE|ALTER|DROP|BEGIN|COMMIT|ROLLBACK|ATTACH)\b"
)
# The engine, and the file of requests that may be deleted beside a ledger.
ENGINES = ("context/ledger/sqlite/", "context/ledger/postgres/", "agent/host/journal.py")
# What the ledger's nouns say to any engine: questions, in words that every engine takes.
ASKING = "context/ledger/"
OWN_WORDS = re.compile(
    r"""
      ^\s*(?!SELECT\b)                                    # a change: those go by rows
    | \?\d | :\w | LIMIT\s-
    | \b(PRAGMA|INDEXED|MATCH|rowid|sqlite_\w+|json_\w+|instr|iif|ifnull|glob|typeof)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


DATABASES = ("apsw", "sqlite3", "psycopg")


def sql_in(source: str) -> list[str]:
    """Return the statements of a module, and its imports of a database."""
    found = [name for name in imports_of(source) if name.split(".")[0] in DATABASES]
    texts = (node.value for node in nodes_of(source) if isinstance(node, ast.Constant))
    return found + [text for text in texts if isinstance(text, str) and SQL.match(text)]


def test_nothing_but_the_engine_speaks_the_sql_of_one() -> None:
    speakers = {}
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(ENGINES):
            found = sql_in(path.read_text(encoding="utf-8"))
            if name.startswith(ASKING):
                found = [text for text in found if OWN_WORDS.search(text)]
            speakers[name] = found
    assert {name: found for name, found in speakers.items() if found} == {}


def test_nothing_of_the_ledger_but_its_door_imports_the_engine() -> None:
    importers = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(ENGINES)
        and any(
            name.startswith(
                ("sightline.context.ledger.sqlite", "sightline.context.ledger.postgres")
            )
            for name in imports_of(path.read_text(encoding="utf-8"))
        )
    }
    # `doctor` tells which SQLite there is.
    assert importers == {"context/ledger/ledger.py", "cli/doctor.py"}


@pytest.mark.parametrize(
    "source", ["import apsw", "def f():\n    import sqlite3", 'x = f"SELECT {y} FROM z"']
)
def test_sql_would_be_found(source: str) -> None:
    assert sql_in(source)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (?)", "PRAGMA data_version", "SELECT a FROM t WHERE b = ?1",
        "SELECT a FROM t LIMIT -1", "SELECT a FROM t INDEXED BY i", "SELECT instr(a, ?) FROM t",
        "SELECT seq FROM sqlite_sequence", "SELECT value FROM json_each(?)",
    ],
)  # fmt: skip
def test_what_one_engine_alone_understands_would_be_found(statement: str) -> None:
    assert OWN_WORDS.search(statement)
    assert not OWN_WORDS.search("SELECT a, count(*) FROM t WHERE b IN (?, ?) GROUP BY a LIMIT ?")


# What takes tails, keys and what cannot be stored out of a text, and who may call it besides
# the gate itself. A façade imports nothing: it only names.
PARTS_OF_THE_GATE = {
    "sightline.context.projection.strip": {"context/messages/gate.py"},
    "sightline.context.messages.redact": {
        "context/messages/gate.py",
        "agent/models/keys.py",  # tells which keys there are, and words errors with them
        "agent/workspace/command.py",  # an output whose middle was left out, maybe within a key
        "agent/host/stage.py",  # the address of an app, for a person
        "cli/approval.py",  # a node's content, for a person
        "config/consents.py",  # what the user agreed to, to be compared by a person
    },
}


@pytest.mark.parametrize("part", PARTS_OF_THE_GATE)
def test_text_passes_one_gate(part: str) -> None:
    callers = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if path not in FACADES and part in imports_of(path.read_text(encoding="utf-8"))
    }
    assert callers == PARTS_OF_THE_GATE[part]


# One noun, one meaning: the names that two modules may share, and why.
SHARED_NAMES = {
    "Client": "a user's tests read like the program that they test",
    "LiveApps": "the same for every framework's users, and a program has one framework",
}


# Words that could name any value, and say of none what it is.
EMPTY_WORDS = {"place", "places", "told", "said", "asked", "own", "made", "thing", "things"}
# Documented, so whoever types them keeps them.
KEPT_NAMES = {
    "slop/hub/hub.py": {"own"},  # Hub.add(…, own=True)
}


def defined_in(source: str) -> set[str]:
    """Return what a module names: functions, classes, parameters, variables, attributes."""
    found: set[str | None] = set()
    for node in nodes_of(source):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler():
                found.add(node.name)
            case ast.MatchAs() | ast.MatchStar():
                found.add(node.name)
            case ast.arg():
                found.add(node.arg)
            case ast.alias():
                found.add(node.asname)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return {name for name in found if name is not None}


def empty_names(path: str, source: str) -> set[str]:
    """Return the names of a module, its own among them, that are such a word."""
    names = {*defined_in(source), *Path(path).with_suffix("").parts}
    return {name for name in names if name.strip("_").lower() in EMPTY_WORDS}


def test_a_name_says_what_the_value_is() -> None:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        words = empty_names(name, path.read_text(encoding="utf-8"))
        found[name] = words - KEPT_NAMES.get(name, set())
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "source",
    [
        "def told(): pass", "class Said: pass", "def f(place): pass", "x = lambda own: own",
        "for made in y: pass", "self._asked = 1", "[told for told in y]", "import x as things",
        "class A:\n    own: bool", "def f(*, thing=1): pass", "with x as _place: pass",
    ],
)  # fmt: skip
def test_a_name_that_says_nothing_would_be_found(source: str) -> None:
    assert empty_names("cli/x.py", source)
    assert empty_names("cli/place.py", "")
    assert not empty_names("cli/x.py", f'"""{source}"""\nx.place, f(own=1), y.placed')


def decoded_on_the_spot(source: str) -> list[str]:
    """Return the types of ours that a module reads without a decoder that was made at import."""
    calls = [node for node in nodes_of(source) if isinstance(node, ast.Call)]
    kinds = [
        word.value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "decode"
        for word in call.keywords
        if word.arg == "type"
    ]
    plain = {"dict", "list", "str", "int", "Any"}
    return [
        ast.unparse(kind)
        for kind in kinds
        if any(isinstance(one, ast.Name) and one.id not in plain for one in ast.walk(kind))
    ]


def test_what_threads_may_read_at_once_has_a_decoder_from_the_beginning() -> None:
    """msgspec crashes where two threads are the first to read a type."""
    found = {
        str(path.relative_to(ROOT)): decoded_on_the_spot(path.read_text(encoding="utf-8"))
        for path in ROOT.rglob("*.py")
    }
    assert {name: kinds for name, kinds in found.items() if kinds} == {}


def test_a_decoder_on_the_spot_would_be_found() -> None:
    source = "msgspec.json.decode(a, type=kind), msgspec.json.decode(a, type=list[str])"
    assert decoded_on_the_spot(source) == ["kind"]


def test_no_public_class_name_means_two_things() -> None:
    homes: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in nodes_of(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in homes.items() if len(where) > 1}
    assert twice.keys() == SHARED_NAMES.keys(), twice
    assert len(SHARED_NAMES) <= 5
