"""What a model is told about actions: in a node's line, below its app's tree, and when it asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sightline.context.projection.actions import ABOUT, about_lines, action_details
from sightline.context.projection.escape import reveal
from sightline.context.projection.moment import parse_moment
from sightline.context.projection.select import select
from sightline.context.projection.tail import render_state, tree_body
from sightline.slop.protocol.text import format_tree
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, World

AT = parse_moment("2026-04-28T10:30:00Z")
PLAN = {
    "action": "plan",
    "description": "Plan a task for a day.\nMore than a line.",
    "params": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "priority": {"type": "string", "enum": ["low", "high"], "default": "low"},
            "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        },
        "required": ["title"],
    },
}


def node(*actions: dict[str, Any]) -> Node:
    return Node.of("list", "collection", affordances=actions)


def params(schema: dict[str, Any], required: list[str] | None = None) -> str:
    """How one parameter `p` reads in a node's line."""
    declared: dict[str, Any] = {"type": "object", "properties": {"p": schema}}
    if required is not None:
        declared["required"] = required
    text = reveal(tree_body(node({"action": "a", "params": declared}), "text"))
    return text.split("a(p", 1)[1].removesuffix(")}")


def test_a_line_marks_what_may_be_left_out_and_names_the_values() -> None:
    told = "actions: {plan(title: string, priority?: low|high = low, due?: date)}"
    assert tree_body(node(PLAN), "text").endswith(told)
    canonical = "actions: {plan(title: string, priority: string, due: any)}"
    assert format_tree(node(PLAN)).endswith(canonical), "which has no place for it"


@pytest.mark.parametrize(
    ("schema", "required", "read"),
    [
        ({"type": "string"}, ["p"], ": string"),
        ({"type": "string"}, [], "?: string"),
        ({"type": "string"}, None, ": string"),
        ({"type": ["integer", "null"]}, None, "?: integer"),
        ({"type": ["integer", "null"]}, ["p"], ": integer|null"),
        ({"type": "boolean", "default": False}, None, "?: boolean = false"),
        ({"type": "array", "items": {"type": "string"}}, ["p"], ": string[]"),
        ({"enum": ["on hold", "a,b", 3, True]}, ["p"], ': "on hold"|"a\\u002cb"|3|true'),
        ({"enum": [f"v{n}" for n in range(20)]}, ["p"], ": v0|v1|v2|v3|v4|v5|v6|v7|…"),
        ({"type": "string", "default": "x" * 40}, [], "?: string"),
        ({"type": "object", "default": {"a": 1}}, [], "?: object"),
        ({}, ["p"], ": any"),
        (True, ["p"], ": any"),
    ],
)
def test_a_parameter_says_what_its_schema_says(
    schema: dict[str, Any], required: list[str] | None, read: str
) -> None:
    assert params(schema, required) == read


def test_each_action_is_described_once_below_its_app() -> None:
    tree = Node.of("r", "root", affordances=[{"action": "open"}], children=[
        Node.of(f"n{at}", "item", affordances=[PLAN, {"action": "go", "description": "Go."}])
        for at in range(3)
    ])  # fmt: skip
    assert about_lines(tree) == [ABOUT, "- plan: Plan a task for a day.", "- go: Go."]
    assert about_lines(Node.of("r", "root", affordances=[{"action": "open"}])) == []
    long = node({"action": "a", "description": "word " * 60})
    assert len(about_lines(long)[1]) <= 125


def test_descriptions_are_given_where_all_else_is_shown_and_the_room_is_small() -> None:
    world = World((AppState("app", "App", tree=node(PLAN)),))
    whole = select(world, 1_000)
    shown = render_state(whole.world, AT, described=whole.described)
    assert ABOUT in shown
    assert whole.tokens == -(-len(shown) // 4)
    bare = -(-len(render_state(world, AT)) // 4)
    assert not select(world, bare).described
    wordy = [{"action": f"a{n}", "description": "word " * 20} for n in range(30)]
    many = World((AppState("app", "App", tree=node(*wordy)),))
    assert not select(many, 2_000).described, "more than an eighth of the budget"
    assert select(many, 20_000).described


def test_who_asks_for_a_node_gets_the_schemas_of_its_actions_as_they_are() -> None:
    details = action_details(node(PLAN, {"action": "open"}))
    _, line = details.split("\n")
    assert json.loads(line) == PLAN
    assert action_details(node({"action": "open"})) == action_details(Node.of("n", "item")) == ""
