"""Sessions and turns are values; one object holds the current ones, and nobody else assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec import Struct
from msgspec.structs import replace

import sightline
from sightline.agent.host.compose import Composed, Conversation, Inputs
from sightline.agent.host.session import Current, OpenSession, OpenTurn, ReplyPace

T = TypeVar("T", bound=Struct)
VALUES = (OpenSession, OpenTurn, ReplyPace, Composed, Conversation, Inputs)
HOST = Path(sightline.__file__).parent / "agent" / "host"


def empty(kind: type[T]) -> T:
    """A value of a kind with nothing in any of its fields."""
    return kind(**dict.fromkeys(kind.__struct_fields__))


def assigned(tree: ast.AST) -> Iterator[str]:
    """The names of all attributes that code assigns to something else than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield node.attr
        elif isinstance(node, ast.Attribute) and node.attr == "__setattr__":
            yield node.attr


@pytest.mark.parametrize("kind", VALUES)
def test_what_a_turn_goes_by_is_a_value(kind: type[Struct]) -> None:
    value = empty(kind)
    for name in kind.__struct_fields__:
        with pytest.raises(AttributeError, match="immutable"):
            setattr(value, name, None)


def test_no_module_assigns_a_field_of_a_session_or_a_turn() -> None:
    names = {name for kind in VALUES for name in kind.__struct_fields__} | {*Current.__slots__}
    for path in sorted(HOST.glob("*.py")):
        found = set(assigned(ast.parse(path.read_text(encoding="utf-8"))))
        assert not found & (names | {"__setattr__"}), path.name


def test_only_the_holder_has_a_current_session() -> None:
    for path in sorted(HOST.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        assert path.name == "session.py" or not own & set(Current.__slots__), path.name


def test_a_step_changes_what_is_kept_and_nothing_that_was() -> None:
    turn = OpenTurn(group_id=1, number=1, last_seq=0, thinking="turn_append")
    now = Current(empty(OpenSession))
    with pytest.raises(AttributeError):
        _ = now.turn
    now.keep(turn)
    now.keep(replace(now.turn, requests=2))
    now.keep(now.turn.strip())
    assert (now.turn.requests, now.turn.thinking) == (2, "strip")
    assert (turn.requests, turn.thinking) == (0, "turn_append")
