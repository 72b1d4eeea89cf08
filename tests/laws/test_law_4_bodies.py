"""Law 4 in the bodies that programs read: hostile text changes no line and no member of them.

The same tree is rendered twice, once with harmless strings. Whatever a JSON or YAML body
is made of besides strings must be the same in both.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from context.projection.requirements import proves
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.tail import Format, render_tail
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World
from support import lenient
from support.forgeries import random_text
from support.share import share

AT = parse_moment("2026-04-28T10:30:00Z")
BLOCKS, TAILS, NODES, PER_NODE = 10, 100, 20, 5


def block(texts: Sequence[str], form: Format) -> str:
    """An app of twenty nodes that say these texts."""
    nodes = []
    for at in range(NODES):
        kind, label, value, summary, action = texts[at * PER_NODE : (at + 1) * PER_NODE]
        nodes.append(
            Node.of(
                f"n{at}",
                kind or "item",
                properties={"label": label, "k": value},
                meta={"summary": summary},
                affordances=[{"action": action or "go"}],
            )
        )
    root = Node.of("root", "root", children=nodes)
    return render_tail(World((AppState("app", texts[0], tree=root),)), AT, form).state


def json_shape(body: str) -> Any:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(item) for key, item in value.items()}
        return [shape(item) for item in value] if isinstance(value, list) else type(value)

    return shape(json.loads(body))


def yaml_shape(body: str) -> list[str]:
    return [line.partition(":")[0] for line in body.split("\n")]


SHAPES: dict[Format, Callable[[str], Any]] = {"json": json_shape, "yaml": yaml_shape}


def shape_of(state: str, form: Format) -> Any:
    body = state.split("\n", 1)[1].rsplit("\n", 1)[0]
    return SHAPES[form](body)


@proves("CI-3")
@pytest.mark.parametrize("form", SHAPES)
@pytest.mark.parametrize("number", range(BLOCKS))
def test_random_strings_change_no_line_and_no_member(number: int, form: Format) -> None:
    assert BLOCKS * TAILS * NODES * PER_NODE == 100_000
    chance = random.Random(4_000 + number)
    harmless = block(["x"] * (NODES * PER_NODE), form)
    expected = shape_of(harmless, form)
    for _ in range(share(TAILS)):
        state = block([random_text(chance) for _ in range(NODES * PER_NODE)], form)
        assert shape_of(state, form) == expected
        assert len(lenient.read(state).split("\n")) == harmless.count("\n") + 1
        assert lenient.tags(state) == ["slop-state", "/slop-state"]
