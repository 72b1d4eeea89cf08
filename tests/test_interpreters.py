"""What is safe does not depend on the interpreter: no construct that one of them gets wrong,
no table that another one has newer, no depth that a third reads further."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.agent.workspace.inside import parts_of
from sightline.cli.io import read_json
from sightline.context.projection.bridge import decode_bridge
from sightline.context.projection.lookalikes import LATER_LETTERS
from sightline.context.projection.world_json import read_world
from sightline.context.slots.strategy import copy_of_state
from sightline.errors import InvalidInput, InvalidStrategy, SightlineError
from sightline.inspector.whatif import read_wishes
from sightline.slop.discovery.descriptor import Descriptor
from sightline.slop.protocol.jsontext import NESTING, loads
from sightline.slop.protocol.messages import parse_consumer_message, parse_provider_message
from support.rooms import nodes_of

ROOT = Path(sightline.__file__).parent
# The parser of patterns, which the standard library keeps for itself.
parser = importlib.import_module("re._parser")

# Up to 3.11.4 a possessive repeat of a group keeps what its last, failed round had taken (CPython
# gh-106052): `(?:.(?!D))*+` takes four characters of "ABCDE", where later ones take two. An atomic
# group was right there in 300,000 tries; it is new in 3.11 as well, and nothing here needs it.
FORBIDDEN_OPS = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}
FORBIDDEN_TEXT = re.compile(r"[*+?}]\+|\(\?>")
DIFF_HEADING = re.compile("^[+]{3} ", re.MULTILINE)  # no pattern: it repeats nothing
CLASS_OR_ESCAPE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def forbidden_in(pattern: str | bytes) -> set[str]:
    """The names of what a pattern uses and must not."""
    found: set[str] = set()
    todo: list[Any] = [parser.parse(pattern)]
    while todo:
        item = todo.pop()
        if isinstance(item, (tuple, list, parser.SubPattern)):
            todo.extend(item)
        elif str(item) in FORBIDDEN_OPS:
            found.add(str(item))
    return found


def patterns_in(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            yield from patterns_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from patterns_in(item, depth - 1)


def module_names() -> list[str]:
    found = pkgutil.walk_packages([str(ROOT)], "sightline.")
    return [module.name for module in found if not module.name.endswith("__main__")]


def test_the_search_for_forbidden_constructs_finds_them() -> None:
    for pattern in (r"a(?:b|c)*+", r"(?:ab){0,9}+", r"a(?>b|c)d", r"(?=x(?:(?:ab)++))", rb"a?+"):
        assert forbidden_in(pattern)
        text = pattern if isinstance(pattern, str) else pattern.decode()
        assert FORBIDDEN_TEXT.search(CLASS_OR_ESCAPE.sub("x", text))
    assert not forbidden_in(r"[*+][?+]\*+(?:a|b){0,9}c")


def test_no_pattern_is_possessive_or_atomic() -> None:
    seen = 0
    for name in module_names():
        with warnings.catch_warnings():  # those of others, who are compiled for the first time
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
        for pattern in patterns_in(vars(module)):
            seen += 1
            assert not forbidden_in(pattern.pattern), f"{name}: {pattern.pattern!r:.200}"
    assert seen > 100


def test_no_text_in_the_source_is_a_possessive_or_atomic_pattern() -> None:
    """Patterns that are made when they are needed are seen here, in whatever pieces."""
    for path in sorted(ROOT.rglob("*.py")):
        nodes = nodes_of(path.read_text(encoding="utf-8"))
        prose = {
            id(node.value)
            for node in nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in nodes:
            if isinstance(node, ast.Constant) and id(node) not in prose:
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if isinstance(text, str):
                    left = CLASS_OR_ESCAPE.sub("x", DIFF_HEADING.sub("", text))
                    where = f"{path.relative_to(ROOT)}:{node.lineno}"
                    assert not FORBIDDEN_TEXT.search(left), f"{where}: {text!r:.100}"


def test_a_letter_is_a_letter_in_every_unicode_that_an_interpreter_has() -> None:
    word = re.compile(f"[\\w{LATER_LETTERS}]")
    assert sum(1 for code in range(sys.maxunicode + 1) if word.match(chr(code))) == 219_390


def test_every_name_that_reads_as_dot_git_is_refused() -> None:
    """By the interpreter's own Unicode; ours may know more."""
    ways: dict[str, list[str]] = {letter: [] for letter in ".git"}
    for code in range(sys.maxunicode + 1):
        reads_as = unicodedata.normalize("NFKC", chr(code)).casefold()
        if reads_as in ways:
            ways[reads_as].append(chr(code))
    assert not any("\u0130" in way for way in ways.values())
    for at, letter in enumerate(".git"):
        for way in ways[letter]:
            name = ".git"[:at] + way + ".git"[at + 1 :]
            with pytest.raises(SightlineError, match="is not of the workspace"):
                parts_of(name)
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) == "Cf":
            with pytest.raises(SightlineError, match="is not of the workspace"):
                parts_of(f".g{chr(code)}it/config")


DESCRIPTOR = (
    b'{"id":"a","name":"A","slop_version":"0.1",'
    b'"transport":{"type":"unix","path":"/tmp/a"},"capabilities":[],"x":%s}'
)
BRIDGE = b'{"format":"no","written_at":"","window_s":1,"pid":1,"started":1,"tail":"","x":%s}'
# Who takes JSON from somebody else: with what it stands in, one level each, and whose limit it is.
TAKERS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "a provider": (parse_consumer_message, b'{"type":"query","id":"q","x":%s}'),
    "a consumer": (
        lambda data: parse_provider_message(data, 1 << 20),
        b'{"type":"event","name":"e","data":%s}',
    ),
    "a world": (read_world, b'{"apps":[],"x":%s}'),
    "a descriptor": (Descriptor.read, DESCRIPTOR),
    "a file for a filter": (read_json, b'{"x":%s}'),
    "a bridge file": (decode_bridge, BRIDGE),
    "a page": (lambda data: read_wishes(data, ()), b'{"x":%s}'),
}


@pytest.mark.parametrize(("take", "around"), TAKERS.values(), ids=TAKERS)
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_how_deep_is_too_deep_is_the_same_everywhere(
    take: Callable[[bytes], object], around: bytes, opening: bytes, closing: bytes
) -> None:
    def told(levels: int) -> str:
        below = levels - 1
        try:
            take(around % (opening * below + b"1" + closing * below))
        except SightlineError as error:
            return str(error)
        return ""

    assert str(NESTING) not in told(NESTING)
    for levels in (NESTING + 1, 900, 3000, 10_000):
        assert str(NESTING) in told(levels)


def test_a_state_that_nests_too_deep_is_refused_whoever_runs_it() -> None:
    def state(levels: int) -> dict[str, Any]:
        below = levels - 1
        return {"x": loads("[" * below + "]" * below)}

    assert copy_of_state(state(NESTING))
    for levels in (NESTING + 1, 5000):
        with pytest.raises(InvalidStrategy):
            copy_of_state(state(levels))
    with pytest.raises(InvalidInput):
        read_json("[" * 5000)
