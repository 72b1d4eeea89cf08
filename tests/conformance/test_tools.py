"""Affordances as tools of a model: names, and the way back from them."""

from __future__ import annotations

import re

import pytest

from sightline.context.projection.tools import ToolSet, ToolTarget, dynamic_tools
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World


def doing(node_id: str, *actions: str, children: tuple[Node, ...] = ()) -> Node:
    offered = [{"action": action} for action in actions]
    return Node.of(node_id, "item", affordances=offered, children=children)


def tools_of(*roots: Node) -> ToolSet:
    apps = (AppState(f"app-{at}", f"App {at}", tree=root) for at, root in enumerate(roots))
    return dynamic_tools(World(tuple(apps)))


def names(*roots: Node) -> list[str]:
    return [tool.name for tool in tools_of(*roots).tools]


@pytest.mark.proves("tools.name", "tools.unique", "tools.limit", "tools.resolve")
def test_tools_are_named_for_node_and_action_and_resolved_by_a_map() -> None:
    root = doing("r", children=(doing("a.b", "do it"),))
    assert names(root) == ["a_b__do_it"]
    assert tools_of(root).resolve("a_b__do_it", {}) == ToolTarget("app-0", "/a.b", "do it", {})
    alike = doing(
        "r",
        children=(
            doing("work", children=(doing("x", "go"),)),
            doing("home", children=(doing("x", "go"),)),
        ),
    )
    assert names(alike) == ["home__x__go", "work__x__go"]
    assert names(doing("a", "x"), doing("a", "x")) == ["app_0__a__x", "app_1__a__x"]
    [long] = names(doing("n" * 100, "go"))
    assert re.fullmatch(r"n{56}_[0-9a-f]{7}", long)


@pytest.mark.proves("tools.group", "tools.deterministic")
def test_a_group_takes_its_target_and_the_list_never_moves() -> None:
    items = tuple(doing(f"i{n}", "open") for n in range(9))
    one, other = doing("r", children=items), doing("r", children=items)
    [tool] = tools_of(one).tools
    assert tool.parameters["required"] == ["target"]
    assert tool.parameters["properties"]["target"]["enum"] == [f"/i{n}" for n in range(9)]
    assert tools_of(one).resolve(tool.name, {"target": "/i3"}).path == "/i3"
    assert tools_of(one).tools_json() == tools_of(other).tools_json()
    turned = doing("r", children=(doing("b", "go"), doing("a", "go")))
    assert names(turned) == sorted(names(turned))
